//! The work of a timer's threads, and their roles.
//!
//! All threads are alike and take turns in these roles:
//! * The **leader** sleeps until the earliest deadline of all shards. Then it serves the shards with
//!   due tasks: it takes one due task at a time out of the wheel and runs it. There is no queue
//!   between the wheel and the threads, so a task can be cancelled, reset or handed back until it
//!   starts.
//! * The **guard** ensures that a task or waker that blocks does not delay others. While tasks run, it
//!   checks once per [`GRACE`] whether new ones still start. If none does and no thread sleeps as
//!   leader, the guard steps in: it becomes the leader, and another thread becomes the guard. While
//!   one blocked call follows another, each guard waits half as long as the one before, so that the
//!   delays of many blocked calls do not add up. The guard also runs tasks if they are late and
//!   either a core is free or the lateness grows.
//! * All other threads are **idle** and end after [`KEEP_ALIVE`]. The leader ends last.
//!
//! So short tasks run on one warm thread. A second thread wakes up at most every millisecond while
//! tasks fire; otherwise only the leader wakes up, for the next deadline. A timer that runs its tasks
//! inline, or passes them to an executor, has only a leader.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::{Arc, PoisonError};

use crate::timer::clock::{Nanos, nanos};
use crate::timer::core::Core;
use crate::timer::core::driver::{AWAKE, NEVER, NO_LEADER, Phase};
use crate::timer::core::shard::{EMPTY, Shard};
use crate::timer::core::state::{Fire, Popped, State};
use crate::timer::execution::executor::{Executor, Task};
use crate::timer::execution::panics;
use crate::timer::execution::roster::{GRACE, Guard, Roster};
use crate::timer::execution::threads::Role;
use crate::timer::sync::{Condvar, MutexGuard, fence};

/// The time after which an idle thread ends. Shorter in tests.
const KEEP_ALIVE: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 10_000 });

/// The number of tasks or batches of wakers of one shard after which a thread looks for a more urgent
/// shard.
const SHARD_BATCH: usize = 64;

type Locked<'a> = MutexGuard<'a, Roster>;

impl Core {
    /// Runs a thread from its start to its end.
    pub(crate) fn work(self: &Arc<Self>, role: Role) {
        let driver = &self.driver;
        let mut roster = driver.roster();
        roster.failures = 0;
        if driver.leader_until() == NO_LEADER {
            driver.set_leader_until(AWAKE);
        }
        let mut stays = true;
        // If the timer was stopped while this thread was being started, the thread must not wait: it
        // has missed the notification.
        if role == Role::Guard && roster.phase != Phase::Stopped {
            (roster, stays) = self.watch(roster);
        }
        while stays && roster.phase != Phase::Stopped {
            if let Some(shard) = self.most_urgent(driver.clock.now()) {
                drop(roster);
                self.serve(shard);
                while let Some(shard) = self.most_urgent(driver.clock.now()) {
                    self.serve(shard);
                }
                roster = driver.roster();
            } else {
                (roster, stays) = self.wait_for_work(roster);
            }
        }
        driver.uncount(&mut roster);
    }

    /// Returns the shard whose first task has been due for the longest time. A shard that another
    /// thread serves gets a handicap, so that threads spread over the shards.
    #[inline]
    fn most_urgent(&self, now: Nanos) -> Option<&Arc<Shard>> {
        let due = self.shards().filter(|shard| shard.next() <= now);
        due.min_by_key(|shard| {
            let handicap = if shard.is_served() { nanos(GRACE) } else { 0 };
            shard.next().saturating_add(handicap)
        })
    }

    /// Runs due tasks and wakers of a shard, up to [`SHARD_BATCH`].
    fn serve(self: &Arc<Self>, shard: &Arc<Shard>) {
        shard.begin_serving();
        let mut state = shard.lock();
        for _ in 0..SHARD_BATCH {
            let more;
            (state, more) = self.wake_some(shard, state);
            if state.phase == Phase::Stopped {
                break;
            }
            match state.pop(self.clock()) {
                Popped::Fire(fire) => state = self.run(shard, state, fire),
                Popped::Yield => state = shard.relock(state),
                // The next batch of wakers is due.
                Popped::Nothing if more => {}
                Popped::Nothing => {
                    let revised;
                    (state, revised) = shard.revise(state);
                    if !revised {
                        break;
                    }
                }
            }
        }
        shard.publish_next(&state);
        drop(state);
        shard.end_serving();
    }

    /// Runs a task that was taken out of the wheel, or passes it to the executor. Returns with the
    /// shard locked again.
    #[inline]
    fn run<'a>(
        self: &'a Arc<Self>,
        shard: &'a Arc<Shard>,
        state: MutexGuard<'a, State>,
        fire: Fire,
    ) -> MutexGuard<'a, State> {
        self.unlock_guarded(shard, state);
        if let Executor::Custom(execute) = &self.driver.config.executor {
            let task = Task::new(Arc::clone(shard), fire);
            panics::catch(&self.driver.config, || execute(task));
            shard.lock()
        } else {
            shard.execute(fire)
        }
    }

    /// Releases the lock before user code is called, and ensures that a guard watches the call. If
    /// there can be no guard, the call is made anyway, and later tasks wait for it.
    #[inline]
    pub(crate) fn unlock_guarded(&self, shard: &Shard, state: MutexGuard<'_, State>) {
        shard.note_start();
        let unguarded = self.driver.is_unguarded();
        drop(state);
        if unguarded {
            self.driver.call_guard();
        }
    }

    /// Releases the lock before a number of wakers is called. Returns `false` if no guard watches
    /// that: a single waker that is called while nothing else is pending takes microseconds as a
    /// rule, and a call that schedules something meanwhile calls the guard.
    pub(crate) fn unlock_for_wakers(
        &self,
        shard: &Shard,
        state: MutexGuard<'_, State>,
        count: usize,
        now: Nanos,
    ) -> bool {
        if count == 1 && state.pending() == 0 {
            self.driver.begin_unguarded_waker(now);
            let is_other = |other: &Shard| other.index != shard.index && other.next() != EMPTY;
            if !self.shards().any(|other| is_other(other)) {
                shard.note_start();
                return false;
            }
            self.driver.end_unguarded_waker();
        }
        self.unlock_guarded(shard, state);
        true
    }

    /// Sleeps in one of the roles, as nothing is due. Returns `false` if the thread must end.
    fn wait_for_work<'a>(&'a self, roster: Locked<'a>) -> (Locked<'a>, bool) {
        if self.driver.leader_until() == AWAKE {
            self.lead(roster)
        } else if roster.guard == Guard::None && self.driver.max_threads() > 1 {
            self.watch(roster)
        } else {
            self.rest(roster)
        }
    }

    /// Sleeps as leader until a task may be due. Returns `false` if the thread must end.
    fn lead<'a>(&'a self, mut roster: Locked<'a>) -> (Locked<'a>, bool) {
        let driver = &self.driver;
        roster.step_ins = 0;
        let until = self.announce_sleep();
        let (mut roster, timed_out) = match until {
            EMPTY => sleep(&driver.leader, roster, KEEP_ALIVE),
            NEVER => (driver.leader.wait(roster).unwrap_or_else(PoisonError::into_inner), false),
            at => match at.saturating_sub(driver.clock.now()) {
                0 => (roster, false),
                left => (sleep(&driver.leader, roster, Duration::from_nanos(left)).0, false),
            },
        };
        driver.set_leader_until(AWAKE);
        roster.wakeups += 1;
        // The leader is the last to end: as long as there are threads, one must be the leader.
        let leaves = timed_out && roster.count == 1 && self.may_end();
        (roster, !leaves)
    }

    /// Publishes the leader's wake-up time, the earliest `next` of all shards, and returns it.
    fn announce_sleep(&self) -> Nanos {
        let mut until = self.next();
        loop {
            self.driver.set_leader_until(until.min(NEVER));
            fence(Ordering::SeqCst);
            // A caller that did not see this wake-up time has published its `next` before.
            let next = self.next();
            if next >= until {
                return until;
            }
            until = next;
        }
    }

    /// Returns `true` if nothing is pending, so that the last thread may end. From then on, callers
    /// that schedule start a new thread. A series that is running on an executor counts as pending.
    fn may_end(&self) -> bool {
        self.driver.set_leader_until(NO_LEADER);
        // A caller that schedules after its shard was checked takes that shard's lock later, and so
        // sees `NO_LEADER`.
        let has_pending = self.has_pending();
        if has_pending {
            self.driver.set_leader_until(AWAKE);
        }
        !has_pending
    }

    /// Sleeps as guard until tasks are blocked or late. Returns `false` if the thread must end.
    fn watch<'a>(&'a self, mut roster: Locked<'a>) -> (Locked<'a>, bool) {
        let driver = &self.driver;
        driver.set_guard(&mut roster, Guard::Watching);
        let mut starts = self.starts();
        let mut lateness = Nanos::MAX;
        let stays = loop {
            let resting = roster.guard == Guard::Resting;
            let limit = if resting { KEEP_ALIVE } else { roster.grace() };
            let timed_out;
            (roster, timed_out) = sleep(&driver.guard, roster, limit);
            if roster.phase == Phase::Stopped {
                break true;
            }
            if roster.guard == Guard::Resting {
                if timed_out {
                    break false;
                }
                continue;
            }
            let progress = core::mem::replace(&mut starts, self.starts()) != starts;
            let late = self.lateness();
            let grows = late >= core::mem::replace(&mut lateness, late);
            if !progress && driver.leader_until() == AWAKE {
                roster.step_ins = roster.step_ins.saturating_add(1);
                break true;
            }
            roster.step_ins = 0;
            let has_free_core = || self.running_now() < driver.config.cores;
            if progress && late > nanos(GRACE) && (grows || has_free_core()) {
                break true;
            }
            if !progress {
                self.rest_as_guard(&mut roster, starts);
            }
        };
        driver.set_guard(&mut roster, Guard::None);
        (roster, stays)
    }

    /// Lets the guard rest until a task starts, unless one has started since `starts` was read.
    ///
    /// A thread that starts a task counts it and reads the guard's state, both under its shard's lock.
    /// So either that thread sees the resting guard and wakes it, or this one sees the new count.
    fn rest_as_guard(&self, roster: &mut Roster, starts: u64) {
        self.driver.set_guard(roster, Guard::Resting);
        let now: u64 = self.shards().map(|shard| (shard.lock(), shard.starts()).1).sum();
        if now != starts {
            self.driver.set_guard(roster, Guard::Watching);
        }
    }

    /// Returns the number of tasks and batches of wakers taken out of all shards so far.
    fn starts(&self) -> u64 {
        self.shards().map(|shard| shard.starts()).sum()
    }

    /// Returns the number of running tasks. The shards are read one after the other.
    fn running_now(&self) -> usize {
        self.shards().map(|shard| shard.lock().running).sum()
    }

    /// Returns how long the earliest due task has been due.
    fn lateness(&self) -> Nanos {
        let now = self.driver.clock.now();
        let due = self.shards().filter(|shard| shard.next() < now);
        // While a thread serves a shard, its `next` may belong to a task that was already taken out.
        let first = due.filter_map(|shard| shard.lock().next_wake()).min();
        now.saturating_sub(first.unwrap_or(Nanos::MAX))
    }

    /// Sleeps as an idle thread. Returns `false` if the thread must end.
    fn rest<'a>(&'a self, mut roster: Locked<'a>) -> (Locked<'a>, bool) {
        roster.idle += 1;
        let (mut roster, timed_out) = sleep(&self.driver.idle, roster, KEEP_ALIVE);
        roster.idle -= 1;
        if roster.guard == Guard::Coming {
            return self.watch(roster);
        }
        (roster, !timed_out)
    }
}

/// Waits on a condition variable. Returns the lock, and `true` if the time ran out.
fn sleep<'a>(condition: &Condvar, roster: Locked<'a>, limit: Duration) -> (Locked<'a>, bool) {
    let (roster, result) =
        condition.wait_timeout(roster, limit).unwrap_or_else(PoisonError::into_inner);
    (roster, result.timed_out())
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::timer::{Task, Timer};
    use core::sync::atomic::AtomicUsize;
    use std::sync::mpsc;
    use std::{io, thread};

    /// If the leader ended, the next run would need a new thread, and starting one may fail.
    #[test]
    fn the_leader_stays_while_a_series_runs_elsewhere() {
        let starts = AtomicUsize::new(0);
        let (sender, tasks) = mpsc::channel::<Task>();
        let timer = Timer::builder()
            .executor(move |task| drop(sender.send(task)))
            .thread_hook(move |body| match starts.fetch_add(1, Ordering::SeqCst) {
                0 => thread::Builder::new().spawn(body).map(drop),
                _ => Err(io::Error::other("no more threads")),
            })
            .build()
            .unwrap();
        let series = timer.every(GRACE, || {}).unwrap();
        let patience = Duration::from_secs(20);
        let first = tasks.recv_timeout(patience).unwrap();
        thread::sleep(3 * KEEP_ALIVE);
        first.run();
        tasks.recv_timeout(patience).expect("the next run comes").run();
        assert!(series.cancel());
    }

    #[test]
    fn the_leader_leaves_when_nothing_is_pending() {
        let timer = Timer::new();
        timer.after(Duration::ZERO, || {}).unwrap();
        let start = std::time::Instant::now();
        while timer.core().driver.roster().count > 0 || timer.pending() > 0 {
            assert!(start.elapsed() < Duration::from_secs(20), "a thread is left");
            thread::sleep(GRACE);
        }
        let (sender, receiver) = mpsc::channel();
        timer.after(GRACE, move || sender.send(()).unwrap()).unwrap();
        receiver.recv_timeout(Duration::from_secs(20)).expect("and comes back");
    }
}
