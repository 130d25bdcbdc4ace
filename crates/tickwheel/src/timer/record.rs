//! What the timer and its callers share of a task that is more than a closure to call once: one
//! with a period or a wall-clock deadline.
//!
//! Ground rules:
//! * `fate`, `place`, `due_at`, `follows_wall` and `number` are written only under the timer's lock.
//!   They are atomics so that a handle can ask without it, or because the record is shared.
//! * `wall` changes only for a task by the calendar: under the lock, or while it is running, and
//!   then by the worker that runs it.
//! * `work` belongs to whoever took the task out of the wheel: a worker, or a caller that
//!   cancelled it. Its lock is therefore never waited for.

use core::ops::Index;
use core::sync::atomic::Ordering;
use std::boxed::Box;
use std::sync::{Arc, PoisonError};
use std::vec::Vec;

use super::Key;
use super::clock::Nanos;
use super::job::Job;
use super::periodic::Series;
use super::state::enough;
use super::sync::{AtomicBool, AtomicU8, AtomicU64, Mutex};
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
    /// Whether the task is pending and its deadline is that of the wall clock.
    follows_wall: AtomicBool,
    /// Where in the [`Records`] of the timer it is, if it is there.
    number: AtomicU64,
}

/// The records of a timer that have not come to their end, in no particular order.
///
/// They can be visited in steps, from the last to the first, while others come and go: one that is
/// added is after those visited already, and removing one moves the last into its place.
#[derive(Default)]
pub(super) struct Records(Vec<Arc<Record>>);

impl Records {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn insert(&mut self, record: Arc<Record>) {
        record.number.store(self.0.len() as u64, Ordering::Relaxed);
        self.0.push(record);
    }

    pub(super) fn remove(&mut self, record: &Record) {
        let number = record.number.load(Ordering::Relaxed) as usize;
        // It may have been removed before, or all of them were taken out by `stop`.
        if !self.0.get(number).is_some_and(|other| core::ptr::eq(&raw const **other, record)) {
            return;
        }
        self.0.swap_remove(number);
        if let Some(moved) = self.0.get(number) {
            moved.number.store(number as u64, Ordering::Relaxed);
        }
        if let Some(capacity) = enough(self.0.len(), self.0.capacity()) {
            self.0.shrink_to(capacity);
        }
    }

    /// Bytes that are allocated for the list and the records in it.
    pub(super) fn memory_usage(&self) -> usize {
        // An `Arc` has two counts beside its value.
        let record = size_of::<Record>() + 2 * size_of::<usize>();
        self.0.capacity() * size_of::<Arc<Record>>() + self.0.len() * record
    }
}

impl Index<usize> for Records {
    type Output = Arc<Record>;

    fn index(&self, number: usize) -> &Arc<Record> {
        &self.0[number]
    }
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
            follows_wall: AtomicBool::new(false),
            number: AtomicU64::new(0),
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

    pub(super) fn follows_wall(&self) -> bool {
        self.follows_wall.load(Ordering::Relaxed)
    }

    pub(super) fn set_follows_wall(&self, follows: bool) {
        self.follows_wall.store(follows, Ordering::Relaxed);
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
