//! The right to send one request: a place among those in flight, and one in the window.
//!
//! Dropping a permit frees its place. A request that was not written does not count in the window.

use std::sync::Arc;
use std::time::Duration;

use super::connection::Start;
use super::definition::Definition;
use super::deliverer::{Begin, Deliverer};
use super::exchange::Outgoing;
use super::request::{Attempt, Message, traceparent};
use super::response::NoAnswer;

/// How long a request waits for others that are being written.
const WRITE_PAUSE: Duration = Duration::from_millis(1);

pub(super) struct Permit {
    deliverer: Arc<Deliverer>,
    phase: Phase,
    /// When its place in the window is free, in milliseconds.
    free_at: u64,
    /// The durable state counts the request as started up to this time, in milliseconds.
    pub(super) covered_until: u64,
    /// The epoch of the target's health in which it was given.
    pub(super) epoch: u64,
}

/// The moments that `window` tells of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reserved,
    Granted,
    Started,
}

impl Permit {
    /// A permit for a place that was reserved.
    pub(super) fn new(deliverer: &Arc<Deliverer>, free_at: u64, epoch: u64) -> Self {
        let deliverer = Arc::clone(deliverer);
        Self { deliverer, phase: Phase::Reserved, free_at, covered_until: 0, epoch }
    }

    /// Waits until the place in the window is free. Returns `false` if the target was held, stopped
    /// or paused meanwhile.
    pub(super) async fn is_free(&self) -> bool {
        self.deliverer.sleep_until(self.free_at).await;
        self.deliverer.is_open(self.epoch)
    }

    /// Takes the place, once the durable state covers it.
    async fn begin(&mut self) -> Result<(), NoAnswer> {
        loop {
            match self.deliverer.begin(self.covered_until) {
                Begin::Now => {
                    self.phase = Phase::Granted;
                    return Ok(());
                }
                Begin::At(time) => self.deliverer.sleep_until(time).await,
                Begin::AfterOthers => tokio::time::sleep(WRITE_PAUSE).await,
                // Connecting took longer than the state covers.
                Begin::NotCovered => {
                    self.covered_until = self.deliverer.persist().await.map_err(|error| {
                        NoAnswer::Unreachable(format!("the rate cannot be stored: {error}"))
                    })?;
                }
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.phase == Phase::Granted {
            // It may have been written in part.
            self.deliverer.note_start();
        }
        self.deliverer.permit_ended(self.phase == Phase::Reserved);
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
    async fn start(&mut self) -> Result<Outgoing, NoAnswer> {
        let now = super::wall_clock_ms();
        let traceparent = match &self.traceparent {
            Some(traceparent) => traceparent.clone(),
            None => traceparent(&self.message, super::random()),
        };
        let attempt = Attempt::new(self.definition, &self.message, now, &traceparent)?;
        let request = attempt.outgoing();
        self.attempt = Some(attempt);
        self.permit.begin().await?;
        Ok(request)
    }

    fn may_begin(&self) -> bool {
        self.permit.deliverer.is_covered(self.permit.covered_until)
    }

    fn started(&mut self) {
        self.permit.deliverer.note_start();
        self.permit.phase = Phase::Started;
    }

    fn undo(&mut self) {
        self.permit.deliverer.undo_grant();
        self.permit.phase = Phase::Reserved;
    }
}
