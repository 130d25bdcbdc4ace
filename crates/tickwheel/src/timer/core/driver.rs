//! The driver of a timer: the clock, the configuration, and who waits for the next deadline.
//!
//! The shards of a timer share one driver. Callers that schedule touch it only to read; they write
//! to it when the leader has to be woken or a thread has to be started.
//!
//! # The handshake
//!
//! Each shard publishes its next wake-up time (`Shard::next`), and the leader publishes until when
//! it sleeps (`leader_until`). A caller that schedules a task before its shard's `next`
//! 1. stores the new `next`, under the shard's lock;
//! 2. releases the lock and issues a `SeqCst` fence;
//! 3. reads `leader_until`, and wakes the leader if that is later.
//!
//! The leader stores `leader_until`, issues a `SeqCst` fence and reads the `next` of every shard
//! again before it sleeps. At least one of the two therefore sees what the other has stored. The
//! leader sleeps on the roster's lock and a caller notifies it after taking that lock, so the
//! notification cannot fall between the leader's last look and its sleep.
//!
//! Ground rules:
//! * Locks are taken in this order: the roster, then shards in order of their index. A thread that
//!   holds a shard's lock never waits for the roster.
//! * The atomics here are written under the roster's lock only.
//! * No user code runs under a lock. Poisoning is therefore ignored.

use core::sync::atomic::Ordering;
use std::hash::{BuildHasher, RandomState};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, PoisonError, Weak};

use crate::timer::builder::Config;
use crate::timer::clock::{Clock, Nanos};
use crate::timer::core::Core;
use crate::timer::execution::executor::Executor;
use crate::timer::execution::panics;
use crate::timer::execution::roster::{Guard, Roster};
use crate::timer::sync::{AtomicU8, AtomicU64, Condvar, Mutex, MutexGuard, fence};
use crate::timer::{Key, ScheduleError};

/// `leader_until` while no thread sleeps as leader and at least one is awake: it will look at all
/// shards before it sleeps.
pub(crate) const AWAKE: Nanos = 0;

/// A wake-up time that never comes: that of tasks with a delay of `Duration::MAX`.
pub(crate) const NEVER: Nanos = Nanos::MAX - 1;

/// `leader_until` while it is not certain that the timer has a thread.
pub(crate) const NOBODY: Nanos = Nanos::MAX;

/// Keeps a value on cache lines of its own. Processors fetch lines in pairs of 64 bytes.
#[repr(align(128))]
pub(crate) struct CacheAligned<T>(pub(crate) T);

/// Whether a timer accepts and runs tasks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    NotStarted,
    Running,
    /// New tasks are refused; pending ones still run.
    Draining,
    Stopped,
}

impl Phase {
    pub(crate) fn takes_tasks(self) -> bool {
        matches!(self, Self::NotStarted | Self::Running)
    }
}

/// What remains to be done after something was scheduled: the leader sleeps past the new deadline,
/// or there is no thread yet.
#[must_use = "pass it to `nudge`: the leader may sleep past the new deadline"]
#[derive(Clone, Copy)]
pub(crate) struct Nudge {
    /// When a thread has to look; `NOBODY` if a thread looks by then anyway.
    wake_at: Nanos,
    /// A thread is calling wakers, and no guard watches whether one of them blocks.
    pub(crate) watch: bool,
}

impl Nudge {
    pub(crate) const NONE: Self = Self { wake_at: NOBODY, watch: false };

    /// Returns `true` if there is anything to do.
    #[inline]
    pub(crate) fn is_needed(self) -> bool {
        self.wake_at != NOBODY || self.watch
    }
}

pub(crate) struct Driver {
    pub(crate) clock: Clock,
    pub(crate) config: Config,
    /// The timer's core, for the threads that are started.
    core: Weak<Core>,
    /// Hashes keys, without a lock.
    hasher: RandomState,
    published: CacheAligned<Published>,
    roster: CacheAligned<Mutex<Roster>>,
    /// Where the leader sleeps.
    pub(crate) leader: Condvar,
    /// Where the guard sleeps.
    pub(crate) guard: Condvar,
    /// Where threads without work sleep.
    pub(crate) idle: Condvar,
    /// Where callers wait for tasks and threads to end, and for the first thread to be started.
    pub(crate) ended: Condvar,
}

/// What is read without the roster's lock.
struct Published {
    /// Until when the leader sleeps, or [`AWAKE`] or [`NOBODY`]. On a caller-driven timer: until
    /// when the event loop sleeps.
    leader_until: AtomicU64,
    phase: AtomicU8,
    guard: AtomicU8,
    /// The part of `max_pending` that no shard has.
    credits: AtomicU64,
}

/// No panic leaves a driver half changed: no user code runs under its lock, and panics of tasks and
/// hooks are caught.
impl UnwindSafe for Driver {}
impl RefUnwindSafe for Driver {}

impl Driver {
    pub(crate) fn new(config: Config, clock: Clock, core: Weak<Core>) -> Self {
        let credits = if config.shards == 1 { 0 } else { config.max_pending as u64 };
        Self {
            clock,
            config,
            core,
            hasher: RandomState::new(),
            published: CacheAligned(Published {
                leader_until: AtomicU64::new(NOBODY),
                phase: AtomicU8::new(Phase::NotStarted as u8),
                guard: AtomicU8::new(Guard::None as u8),
                credits: AtomicU64::new(credits),
            }),
            roster: CacheAligned(Mutex::new(Roster::default())),
            leader: Condvar::new(),
            guard: Condvar::new(),
            idle: Condvar::new(),
            ended: Condvar::new(),
        }
    }

    pub(crate) fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The core; `None` if the last clone of the timer and its threads are gone.
    pub(crate) fn core(&self) -> Option<Arc<Core>> {
        self.core.upgrade()
    }

    pub(crate) fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Returns `true` if tasks run on threads of this timer, and not on a caller's.
    pub(crate) fn has_threads(&self) -> bool {
        !matches!(self.config.executor, Executor::Caller)
    }

    pub(crate) fn max_threads(&self) -> usize {
        match self.config.executor {
            Executor::Workers(max) => max,
            Executor::Inline | Executor::Custom(_) => 1,
            Executor::Caller => 0,
        }
    }

    /// Until when the leader sleeps, or [`AWAKE`] or [`NOBODY`].
    #[inline]
    pub(crate) fn leader_until(&self) -> Nanos {
        self.published.0.leader_until.load(Ordering::Acquire)
    }

    /// Called under the roster's lock.
    pub(crate) fn set_leader_until(&self, until: Nanos) {
        self.published.0.leader_until.store(until, Ordering::Release);
    }

    /// Returns `true` if the leader sleeps and wakes up no later than `at`. Whether an event loop
    /// does is up to its owner.
    #[inline]
    pub(crate) fn leader_wakes_by(&self, at: Nanos) -> bool {
        let until = self.leader_until();
        until != AWAKE && until <= at && self.has_threads()
    }

    #[inline]
    pub(crate) fn takes_tasks(&self) -> bool {
        self.published.0.phase.load(Ordering::Acquire) <= Phase::Running as u8
    }

    pub(crate) fn set_phase(&self, roster: &mut Roster, phase: Phase) {
        roster.phase = phase;
        self.published.0.phase.store(phase as u8, Ordering::Release);
    }

    /// Returns `true` if no guard watches the calls of tasks and wakers. Exact under the lock of the
    /// shard whose task is about to be called: see `Core::rest_as_guard`.
    #[inline]
    pub(crate) fn is_unguarded(&self) -> bool {
        let guard = self.published.0.guard.load(Ordering::Acquire);
        guard == Guard::None as u8 || guard == Guard::Resting as u8
    }

    pub(crate) fn set_guard(&self, roster: &mut Roster, guard: Guard) {
        roster.guard = guard;
        self.published.0.guard.store(guard as u8, Ordering::Release);
    }

    /// Takes up to `wanted` of the credits that no shard has.
    pub(crate) fn take_credits(&self, wanted: u64) -> u64 {
        let credits = &self.published.0.credits;
        let mut free = credits.load(Ordering::Relaxed);
        loop {
            let taken = free.min(wanted);
            if taken == 0 {
                return 0;
            }
            let left = free - taken;
            match credits.compare_exchange(free, left, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return taken,
                Err(now) => free = now,
            }
        }
    }

    /// Sets the credits that no shard has. Called while all shards are locked.
    pub(crate) fn set_credits(&self, credits: u64) {
        self.published.0.credits.store(credits, Ordering::Relaxed);
    }

    /// Says what remains to be done after a shard's lock was released: something was scheduled for
    /// `wake_at`, and `earlier` tells whether that is before the `next` that the shard had.
    #[inline]
    pub(crate) fn nudge_for(&self, wake_at: Nanos, earlier: bool, watch: bool) -> Nudge {
        if earlier {
            fence(Ordering::SeqCst);
        }
        let until = self.leader_until();
        let wakes = until == NOBODY || (earlier && wake_at < until);
        Nudge { wake_at: if wakes { wake_at } else { NOBODY }, watch }
    }

    /// Wakes or starts the leader. No lock may be held: hooks of the timer's owner are called.
    #[cold]
    pub(crate) fn nudge(&self, nudge: Nudge) -> Result<(), ScheduleError> {
        if nudge.watch {
            self.call_guard();
        }
        if nudge.wake_at == NOBODY {
            return Ok(());
        }
        if self.leader_until() == NOBODY {
            match self.start() {
                // The task was accepted, and `stop` has handed it back.
                Err(ScheduleError::Stopped) => return Ok(()),
                started => started?,
            }
        }
        self.wake_leader(nudge.wake_at);
        Ok(())
    }

    /// Wakes the leader, or the event loop of a caller-driven timer, if it sleeps past `at`.
    fn wake_leader(&self, at: Nanos) {
        let roster = self.roster();
        let until = self.leader_until();
        if until == NOBODY || at >= until {
            return;
        }
        // The next caller need not wake it again.
        self.set_leader_until(at);
        drop(roster);
        match &self.config.wake_hook {
            None => self.leader.notify_one(),
            Some(hook) => panics::call_hook("wake hook", &**hook),
        }
    }

    /// Notes until when the event loop of a caller-driven timer sleeps.
    pub(crate) fn set_caller_until(&self, until: Nanos) {
        if self.config.wake_hook.is_none() {
            return;
        }
        let mut roster = self.roster();
        roster.caller_until = until;
        if roster.phase != Phase::NotStarted {
            self.set_leader_until(until);
        }
    }

    /// Wakes callers that wait for the end, after a task has ended or was cancelled. No shard's lock
    /// may be held.
    #[cold]
    pub(crate) fn note_progress(&self) {
        drop(self.roster());
        self.ended.notify_all();
    }
}
