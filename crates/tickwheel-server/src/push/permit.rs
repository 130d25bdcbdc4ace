//! The right to send one request: a place among those in flight, and one in the window.
//!
//! Dropping a permit frees its place among the requests in flight. A request that was not written
//! does not count in the window.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::Start;
use super::definition::Definition;
use super::deliverer::{Begin, Deliverer};
use super::exchange::Outgoing;
use super::request::{Message, request, traceparent};
use super::response::NoAnswer;
use super::why::Why;

/// How long a request waits for others that are being written.
const WRITE_PAUSE: Duration = Duration::from_millis(1);

/// The right to send one request.
pub(super) struct Permit {
    deliverer: Arc<Deliverer>,
    phase: Phase,
    /// The durable state counts the request as written up to this time, in milliseconds.
    pub(super) covered_until: u64,
}

/// How far the request is: see `window`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reserved,
    Granted,
    /// With the time by which the request arrives unless it is answered before, and the time of the
    /// write.
    Written(u64, Instant),
    Answered,
}

impl Permit {
    /// Creates a permit for a place that was reserved.
    pub(super) fn new(deliverer: &Arc<Deliverer>, covered_until: u64) -> Self {
        let deliverer = Arc::clone(deliverer);
        Self { deliverer, phase: Phase::Reserved, covered_until }
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
                        NoAnswer::Unreachable(Why::other(format!(
                            "the rate cannot be stored: {error}"
                        )))
                    })?;
                }
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.phase == Phase::Granted {
            // A part of it may have been written.
            self.deliverer.note_write();
        }
        self.deliverer.permit_ended(self.phase == Phase::Reserved);
    }
}

/// The start of one attempt, which builds and signs the request with the current time.
pub(super) struct Starting<'a> {
    pub(super) permit: &'a mut Permit,
    pub(super) definition: &'a Definition,
    pub(super) message: Message<'a>,
    /// The header `traceparent`, if the delivery is traced.
    pub(super) traceparent: Option<String>,
    /// Whether the request is kept in `sent`.
    pub(super) is_kept: bool,
    pub(super) sent: Option<Outgoing>,
}

impl Start for Starting<'_> {
    async fn start(&mut self) -> Result<Outgoing, NoAnswer> {
        let now = super::wall_clock_ms();
        let traceparent = match &self.traceparent {
            Some(traceparent) => traceparent.clone(),
            None => traceparent(&self.message, super::random()),
        };
        // Secrets that were replaced while the connection was made sign as well.
        let latest = self.permit.deliverer.definition();
        let request = request(self.definition, &latest.signer, &self.message, now, &traceparent)?;
        if self.is_kept {
            self.sent = Some(request.clone());
        }
        self.permit.begin().await?;
        Ok(request)
    }

    fn may_begin(&self) -> bool {
        self.permit.deliverer.is_covered(self.permit.covered_until)
    }

    fn written(&mut self) {
        self.permit.phase = Phase::Written(self.permit.deliverer.note_write(), Instant::now());
    }

    fn answered(&mut self) {
        if let Phase::Written(arrives, written) = self.permit.phase {
            self.permit.deliverer.note_answer(arrives, written.elapsed());
            self.permit.phase = Phase::Answered;
        }
    }

    fn undo(&mut self) {
        self.permit.deliverer.undo_grant();
        self.permit.phase = Phase::Reserved;
    }
}
