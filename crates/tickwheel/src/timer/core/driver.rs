//! The driver of a timer: its clock, its configuration, and the leader's wake-up time.
//!
//! The shards of a timer share one driver. A caller that schedules only reads from it, unless it must
//! wake the leader or start a thread.
//!
//! # The handshake
//!
//! Each shard publishes its next wake-up time (`Shard::next`), and the leader publishes the time until
//! which it sleeps (`leader_until`). A caller that schedules a task before its shard's `next`
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
//! * `leader_until`, `phase` and `guard` are written under the roster's lock only.
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

/// `leader_until` while no thread sleeps as leader and at least one is awake. That thread will check
/// all shards before it sleeps.
pub(crate) const AWAKE: Nanos = 0;

/// A wake-up time that is never reached: that of tasks with a delay of `Duration::MAX`.
pub(crate) const NEVER: Nanos = Nanos::MAX - 1;

/// `leader_until` while the timer may have no thread.
pub(crate) const NO_LEADER: Nanos = Nanos::MAX;

/// `wake_at` of a [`Nudge`] if no thread must be woken or started for a deadline.
const NO_WAKE_UP: Nanos = Nanos::MAX;

/// Keeps a value on cache lines of its own. Processors fetch lines in pairs of 64 bytes.
#[repr(align(128))]
pub(crate) struct CacheAligned<T>(pub(crate) T);

/// The phase in the life of a timer.
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

/// A wake-up that is still owed after something was scheduled: the leader sleeps past the new
/// deadline, or there is no thread yet.
#[must_use = "pass it to `nudge`: the leader may sleep past the new deadline"]
#[derive(Clone, Copy)]
pub(crate) struct Nudge {
    /// The time at which a thread must wake up; [`NO_WAKE_UP`] if one will be awake by then anyway.
    wake_at: Nanos,
    /// Whether a thread is calling wakers and no guard watches for blocked ones.
    pub(crate) watch: bool,
}

impl Nudge {
    pub(crate) const NONE: Self = Self { wake_at: NO_WAKE_UP, watch: false };

    /// Returns `true` if a thread must be woken or started.
    #[inline]
    pub(crate) fn is_needed(self) -> bool {
        self.wake_at != NO_WAKE_UP || self.watch
    }
}

/// The part of a timer that its shards share.
pub(crate) struct Driver {
    pub(crate) clock: Clock,
    pub(crate) config: Config,
    /// The timer's core, needed by new threads.
    core: Weak<Core>,
    /// Hashes keys, without a lock.
    hasher: RandomState,
    published: CacheAligned<Published>,
    roster: CacheAligned<Mutex<Roster>>,
    /// The leader sleeps here.
    pub(crate) leader: Condvar,
    /// The guard sleeps here.
    pub(crate) guard: Condvar,
    /// Idle threads sleep here.
    pub(crate) idle: Condvar,
    /// Callers wait here for tasks and threads to end, and for the first thread to be started.
    pub(crate) ended: Condvar,
}

/// The part of the roster that is also read without its lock.
struct Published {
    /// The time until which the leader sleeps, or [`AWAKE`] or [`NO_LEADER`]. On a caller-driven timer:
    /// the time until which the event loop sleeps.
    leader_until: AtomicU64,
    phase: AtomicU8,
    guard: AtomicU8,
    /// The number of threads that call a waker without a guard, and the time since when there is one.
    unguarded_wakers: AtomicU64,
    waking_since: AtomicU64,
    /// The part of `max_pending` that no shard has taken.
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
                leader_until: AtomicU64::new(NO_LEADER),
                phase: AtomicU8::new(Phase::NotStarted as u8),
                guard: AtomicU8::new(Guard::None as u8),
                unguarded_wakers: AtomicU64::new(0),
                waking_since: AtomicU64::new(0),
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

    /// Returns the core, or `None` after the last clone of the timer and its threads are gone.
    pub(crate) fn core(&self) -> Option<Arc<Core>> {
        self.core.upgrade()
    }

    pub(crate) fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Returns `true` if tasks run on threads of this timer, not on a caller's.
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

    /// Returns the time until which the leader sleeps, or [`AWAKE`] or [`NO_LEADER`].
    #[inline]
    pub(crate) fn leader_until(&self) -> Nanos {
        self.published.0.leader_until.load(Ordering::Acquire)
    }

    /// Sets the leader's wake-up time. The roster's lock must be held.
    pub(crate) fn set_leader_until(&self, until: Nanos) {
        self.published.0.leader_until.store(until, Ordering::Release);
    }

    /// Returns `true` if the leader sleeps and wakes up no later than `at`. Always `false` on a
    /// caller-driven timer: its event loop may be late.
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

    /// Returns `true` if no guard watches the calls of tasks and wakers. The answer is exact under the
    /// lock of the shard whose task is about to be called: see `Core::rest_as_guard`.
    #[inline]
    pub(crate) fn is_unguarded(&self) -> bool {
        let guard = self.published.0.guard.load(Ordering::Acquire);
        guard == Guard::None as u8 || guard == Guard::Resting as u8
    }

    pub(crate) fn set_guard(&self, roster: &mut Roster, guard: Guard) {
        roster.guard = guard;
        self.published.0.guard.store(guard as u8, Ordering::Release);
    }

    /// Records that the calling thread is about to call a waker without a guard. A caller that
    /// schedules from now on calls a guard. What was scheduled before is visible in the `next` of its
    /// shard when this returns.
    pub(crate) fn begin_unguarded_waker(&self, now: Nanos) {
        let published = &self.published.0;
        if published.unguarded_wakers.load(Ordering::Relaxed) == 0 {
            published.waking_since.store(now, Ordering::Relaxed);
        }
        published.unguarded_wakers.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn end_unguarded_waker(&self) {
        self.published.0.unguarded_wakers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns the time since when a thread calls a waker without a guard.
    pub(crate) fn waking_since(&self) -> Nanos {
        self.published.0.waking_since.load(Ordering::Relaxed)
    }

    /// Takes up to `wanted` credits that no shard has taken.
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

    /// Sets the number of credits that no shard has taken. All shards must be locked.
    pub(crate) fn set_credits(&self, credits: u64) {
        self.published.0.credits.store(credits, Ordering::Relaxed);
    }

    /// Returns the wake-up that is owed after something was scheduled for `wake_at`. `earlier` tells
    /// whether that is before the shard's old `next`. Called after the shard's lock was released.
    #[inline]
    pub(crate) fn nudge_for(&self, wake_at: Nanos, earlier: bool) -> Nudge {
        if earlier {
            fence(Ordering::SeqCst);
        }
        let until = self.leader_until();
        let wakes = until == NO_LEADER || (earlier && wake_at < until);
        let watch = self.published.0.unguarded_wakers.load(Ordering::Acquire) > 0;
        let watch = watch && self.is_unguarded();
        Nudge { wake_at: if wakes { wake_at } else { NO_WAKE_UP }, watch }
    }

    /// Wakes or starts the leader. No lock may be held: this calls hooks of the timer.
    #[cold]
    pub(crate) fn nudge(&self, nudge: Nudge) -> Result<(), ScheduleError> {
        if nudge.watch {
            self.call_guard();
        }
        if nudge.wake_at == NO_WAKE_UP {
            return Ok(());
        }
        if self.leader_until() == NO_LEADER {
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
        if until == NO_LEADER || at >= until {
            return;
        }
        // The next caller with a later deadline need not wake the leader again. `AWAKE` would let
        // another thread take the lead, although this leader still sleeps.
        self.set_leader_until(at.max(AWAKE + 1));
        drop(roster);
        match &self.config.wake_hook {
            None => self.leader.notify_one(),
            Some(hook) => panics::call_hook("wake hook", &**hook),
        }
    }

    /// Publishes the time until which the event loop of a caller-driven timer sleeps.
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

    /// Wakes callers that wait for the end of the timer, after a task has ended or was cancelled. No
    /// shard's lock may be held.
    #[cold]
    pub(crate) fn note_progress(&self) {
        drop(self.roster());
        self.ended.notify_all();
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::timer::Timer;

    /// Another thread must not take the lead before the leader that was notified wakes up.
    #[test]
    fn a_leader_that_is_woken_for_the_beginning_of_time_is_asleep() {
        let timer = Timer::new();
        let driver = &timer.core().driver;
        {
            let _roster = driver.roster();
            driver.set_leader_until(1_000);
        }
        driver.nudge(driver.nudge_for(0, true)).unwrap();
        assert_ne!(driver.leader_until(), AWAKE);
        assert!(driver.leader_wakes_by(1_000));
    }
}
