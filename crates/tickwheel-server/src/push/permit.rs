//! The right to send one request: a place among those in flight, and a grant of the rate.
//!
//! Dropping a permit frees its place. A grant that did not start is given up with it.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;

use super::connection::Start;
use super::definition::Definition;
use super::deliverer::Deliverer;
use super::request::{Attempt, Message, traceparent};
use super::response::NoAnswer;

pub(super) struct Permit {
    deliverer: Arc<Deliverer>,
    phase: Phase,
    /// The durable state counts the grant as a start up to this time, in milliseconds.
    pub(super) covered_until: u64,
    /// The epoch of the target's health in which it was given.
    pub(super) epoch: u64,
}

enum Phase {
    Granted,
    /// When it started.
    Started(u64),
}

impl Permit {
    /// A permit for a grant that was counted.
    pub(super) fn new(deliverer: &Arc<Deliverer>, epoch: u64) -> Self {
        let deliverer = Arc::clone(deliverer);
        Self { deliverer, phase: Phase::Granted, covered_until: 0, epoch }
    }

    /// Notes the start, once the durable state covers it.
    async fn start(&mut self) -> Result<(), NoAnswer> {
        loop {
            if self.deliverer.note_start(self.covered_until, |now| self.phase = Phase::Started(now))
            {
                return Ok(());
            }
            // Connecting took longer than the state covers.
            self.covered_until = self.deliverer.persist().await.map_err(|error| {
                NoAnswer::Unreachable(format!("the rate cannot be stored: {error}"))
            })?;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.deliverer.permit_ended(matches!(self.phase, Phase::Granted));
    }
}

/// The start of one attempt: the request is built, signed and stamped at that moment.
pub(super) struct Starting<'a> {
    pub(super) permit: &'a mut Permit,
    pub(super) definition: &'a Definition,
    pub(super) message: Message<'a>,
    /// The header `traceparent`, if the delivery is traced.
    pub(super) traceparent: Option<String>,
    /// What was sent.
    pub(super) attempt: Option<Attempt>,
}

impl Start for Starting<'_> {
    async fn start(&mut self) -> Result<hyper::Request<Full<Bytes>>, NoAnswer> {
        self.permit.start().await?;
        let now = super::wall_clock_ms();
        let traceparent = match &self.traceparent {
            Some(traceparent) => traceparent.clone(),
            None => traceparent(&self.message, super::random()),
        };
        let attempt = Attempt::new(self.definition, &self.message, now, &traceparent)?;
        let request = attempt.to_http();
        self.attempt = Some(attempt);
        request
    }

    fn undo(&mut self) {
        if let Phase::Started(start) = self.permit.phase {
            self.permit.deliverer.undo_start(start);
            self.permit.phase = Phase::Granted;
        }
    }
}
