//! What the timer and its callers share of a task that is more than a closure to call once: one
//! with a period or a wall-clock deadline.
//!
//! Ground rules:
//! * `fate`, `place` and `due_at` are written only under the timer's lock. They are atomics so
//!   that a handle can ask without it.
//! * `wall` changes only for a task by the calendar: under the lock, or while it is running, and
//!   then by the worker that runs it.
//! * `work` belongs to whoever took the task out of the wheel: a worker, or a caller that
//!   cancelled it. Its lock is therefore never waited for.

use core::sync::atomic::Ordering;
use std::boxed::Box;
use std::sync::PoisonError;

use super::Key;
use super::clock::Nanos;
use super::job::Job;
use super::periodic::Series;
use super::sync::{AtomicU8, AtomicU64, Mutex};
use crate::wheel;

pub(super) struct Record {
    pub(super) key: Option<Key>,
    pub(super) series: Option<Series>,
    /// Whether there is a deadline by the wall clock, and which, in nanoseconds since 1970.
    has_wall: bool,
    wall: AtomicU64,
    work: Mutex<Option<Work>>,
    fate: AtomicU8,
    place: AtomicU64,
    due_at: AtomicU64,
}

/// What there is to do.
pub(super) enum Work {
    Once(Job),
    Again(Box<dyn FnMut() + Send>),
}

/// What has become of a task so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Fate {
    Pending,
    /// A periodic task that is running, and will be pending again.
    Running,
    Fired,
    /// By a caller, by the next task of its key, or with the last clone of its timer.
    Cancelled,
    /// Handed back by `stop`.
    Unfired,
}

impl Record {
    pub(super) fn new(
        key: Option<Key>,
        series: Option<Series>,
        wall: Option<Nanos>,
        work: Work,
    ) -> Self {
        Self {
            key,
            series,
            has_wall: wall.is_some(),
            wall: AtomicU64::new(wall.unwrap_or(0)),
            work: Mutex::new(Some(work)),
            fate: AtomicU8::new(Fate::Pending as u8),
            place: AtomicU64::new(0),
            due_at: AtomicU64::new(0),
        }
    }

    pub(super) fn fate(&self) -> Fate {
        match self.fate.load(Ordering::Acquire) {
            0 => Fate::Pending,
            1 => Fate::Running,
            2 => Fate::Fired,
            3 => Fate::Cancelled,
            _ => Fate::Unfired,
        }
    }

    pub(super) fn set_fate(&self, fate: Fate) {
        self.fate.store(fate as u8, Ordering::Release);
    }

    /// The deadline by the wall clock, in nanoseconds since 1970.
    pub(super) fn wall(&self) -> Option<Nanos> {
        self.has_wall.then(|| self.wall.load(Ordering::Relaxed))
    }

    #[cfg(feature = "cron")]
    pub(super) fn set_wall(&self, wall: Nanos) {
        self.wall.store(wall, Ordering::Relaxed);
    }

    /// How the task goes on by the calendar, if it does.
    #[cfg(feature = "cron")]
    pub(super) fn course(&self) -> Option<&super::calendar::Course> {
        self.series.as_ref()?.course()
    }

    /// Where in the wheel the task is, while it is pending.
    pub(super) fn place(&self) -> wheel::Key {
        let place = self.place.load(Ordering::Relaxed);
        wheel::Key { index: place as u32, generation: (place >> 32) as u32 }
    }

    pub(super) fn set_place(&self, place: wheel::Key) {
        let packed = u64::from(place.generation) << 32 | u64::from(place.index);
        self.place.store(packed, Ordering::Relaxed);
    }

    /// The exact time at which the task is due next.
    pub(super) fn due_at(&self) -> Nanos {
        self.due_at.load(Ordering::Relaxed)
    }

    pub(super) fn set_due_at(&self, at: Nanos) {
        self.due_at.store(at, Ordering::Relaxed);
    }

    pub(super) fn take_work(&self) -> Option<Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Puts the closure of a periodic task back for its next run.
    pub(super) fn put_work(&self, work: Work) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
    }
}
