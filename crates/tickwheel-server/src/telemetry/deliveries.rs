//! Deliveries whose end is not known yet, and attempts that the next one links to.
//!
//! Both tables are bounded: a delivery that does not fit is not traced, and a retry whose first
//! attempt was forgotten has no link.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tickwheel_queue::{JobId, Lease};

use super::span::Span;

/// Entries of each table, of about 700 bytes and of 60.
const MAX_OPEN: usize = 50_000;
const MAX_ENDED: usize = 100_000;
/// A lease that is over for this long has expired; an answer on its way is awaited.
const GRACE: Duration = Duration::from_secs(1);

/// A delivery that has not ended.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) span: Span,
    until: Instant,
}

impl Open {
    /// A delivery whose lease has this length from now.
    pub(super) fn new(span: Span, length: Duration) -> Self {
        Self { span, until: Instant::now() + length }
    }
}

/// The end of an attempt after which the job is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) span: u64,
    pub(super) at: SystemTime,
}

#[derive(Debug, Default)]
pub(super) struct Deliveries {
    open: Mutex<HashMap<(JobId, u64), Open>>,
    ended: Mutex<HashMap<JobId, Ended>>,
}

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Deliveries {
    /// Returns `false` if there are too many.
    pub(super) fn begin(&self, lease: Lease, delivery: Open) -> bool {
        let mut open = lock(&self.open);
        let has_room = open.len() < MAX_OPEN;
        if has_room {
            open.insert((lease.id, lease.token), delivery);
        }
        has_room
    }

    pub(super) fn extend(&self, lease: Lease, length: Duration) {
        if let Some(open) = lock(&self.open).get_mut(&(lease.id, lease.token)) {
            open.until = Instant::now() + length;
        }
    }

    pub(super) fn end(&self, lease: Lease) -> Option<Open> {
        lock(&self.open).remove(&(lease.id, lease.token))
    }

    /// Takes the deliveries whose leases have expired.
    pub(super) fn take_expired(&self) -> Vec<(Lease, Open)> {
        let now = Instant::now();
        let is_expired = |_: &(JobId, u64), open: &mut Open| open.until + GRACE < now;
        let expired = lock(&self.open).extract_if(is_expired).collect::<Vec<_>>();
        expired.into_iter().map(|((id, token), open)| (Lease { id, token }, open)).collect()
    }

    /// Notes an attempt that the next one links to.
    pub(super) fn note_ended(&self, id: JobId, attempt: Ended) {
        let mut ended = lock(&self.ended);
        if ended.len() >= MAX_ENDED
            && let Some(other) = ended.keys().next().copied()
        {
            ended.remove(&other);
        }
        ended.insert(id, attempt);
    }

    /// Takes the attempt before the one that begins.
    pub(super) fn take_ended(&self, id: JobId) -> Option<Ended> {
        lock(&self.ended).remove(&id)
    }
}
