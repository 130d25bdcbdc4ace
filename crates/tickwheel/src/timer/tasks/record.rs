//! The shared record of a task that is more than a closure to call once: one with a period or a
//! wall-clock deadline. The timer and the task's handles share it.
//!
//! Ground rules:
//! * `fate`, `wheel_key`, `due_at`, `follows_wall` and `number` are written only under the shard's lock.
//!   They are atomics so that a handle can read them without the lock, or because the record is shared.
//! * `wall` changes only for a task with a [`Recurrence`]: under the lock, or, while the task runs, by the worker
//!   that runs it.
//! * `work` belongs to the thread that took the task out of the wheel: a worker, or a caller that
//!   cancelled it. So no thread ever waits for its lock.

use core::sync::atomic::Ordering;
use std::boxed::Box;
use std::sync::PoisonError;

use crate::timer::Key;
use crate::timer::clock::Nanos;
use crate::timer::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Mutex};
use crate::timer::tasks::job::Job;
use crate::timer::tasks::periodic::Series;
use crate::timer::tasks::recurrence::Recurrence;
use crate::wheel;

pub(crate) struct Record {
    pub(crate) key: Option<Key>,
    /// The hash of the key.
    pub(crate) hash: u32,
    pub(crate) series: Option<Series>,
    /// Whether the task has a wall-clock deadline, and the deadline in nanoseconds since 1970.
    has_wall: bool,
    wall: AtomicU64,
    work: Mutex<Option<Work>>,
    fate: AtomicU8,
    wheel_key: AtomicU64,
    due_at: AtomicU64,
    /// Whether the task is pending and its deadline follows the wall clock.
    follows_wall: AtomicBool,
    /// The record's index in the [`Records`](crate::timer::tasks::records::Records) of its shard.
    number: AtomicU32,
}

/// The closure of a record.
pub(crate) enum Work {
    Once(Job),
    Repeat(Box<dyn FnMut() + Send>),
}

/// The state of a task: pending, or how it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Fate {
    Pending,
    /// A periodic task that is running and will be pending again.
    Running,
    Fired,
    /// Cancelled by a caller, replaced by the next task with its key, or dropped with its timer.
    Cancelled,
    /// Handed back by `stop`.
    Unfired,
}

impl Record {
    pub(crate) fn new(
        key: Option<Key>,
        hash: u32,
        series: Option<Series>,
        wall: Option<Nanos>,
        work: Work,
    ) -> Self {
        Self {
            key,
            hash,
            series,
            has_wall: wall.is_some(),
            wall: AtomicU64::new(wall.unwrap_or(0)),
            work: Mutex::new(Some(work)),
            fate: AtomicU8::new(Fate::Pending as u8),
            wheel_key: AtomicU64::new(0),
            due_at: AtomicU64::new(0),
            follows_wall: AtomicBool::new(false),
            number: AtomicU32::new(0),
        }
    }

    pub(crate) fn fate(&self) -> Fate {
        match self.fate.load(Ordering::Acquire) {
            0 => Fate::Pending,
            1 => Fate::Running,
            2 => Fate::Fired,
            3 => Fate::Cancelled,
            _ => Fate::Unfired,
        }
    }

    pub(crate) fn set_fate(&self, fate: Fate) {
        self.fate.store(fate as u8, Ordering::Release);
    }

    /// Returns the wall-clock deadline, in nanoseconds since 1970.
    pub(crate) fn wall(&self) -> Option<Nanos> {
        self.has_wall.then(|| self.wall.load(Ordering::Relaxed))
    }

    pub(crate) fn set_wall(&self, wall: Nanos) {
        self.wall.store(wall, Ordering::Relaxed);
    }

    /// Returns the rule that computes the wall-clock times of the task, if it has one.
    pub(crate) fn rule(&self) -> Option<&dyn Recurrence> {
        self.series.as_ref()?.rule()
    }

    pub(crate) fn follows_wall(&self) -> bool {
        self.follows_wall.load(Ordering::Relaxed)
    }

    pub(crate) fn set_follows_wall(&self, follows: bool) {
        self.follows_wall.store(follows, Ordering::Relaxed);
    }

    /// Returns the task's key in the wheel. Valid while the task is pending.
    pub(crate) fn wheel_key(&self) -> wheel::Key {
        let wheel_key = self.wheel_key.load(Ordering::Relaxed);
        wheel::Key { index: wheel_key as u32, generation: (wheel_key >> 32) as u32 }
    }

    pub(crate) fn set_wheel_key(&self, wheel_key: wheel::Key) {
        let packed = u64::from(wheel_key.generation) << 32 | u64::from(wheel_key.index);
        self.wheel_key.store(packed, Ordering::Relaxed);
    }

    pub(crate) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// Returns the exact time at which the task is due next, not rounded to a tick.
    pub(crate) fn due_at(&self) -> Nanos {
        self.due_at.load(Ordering::Relaxed)
    }

    pub(crate) fn set_due_at(&self, at: Nanos) {
        self.due_at.store(at, Ordering::Relaxed);
    }

    pub(crate) fn take_work(&self) -> Option<Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Puts the closure of a periodic task back for its next run.
    pub(crate) fn put_work(&self, work: Work) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
    }
}
