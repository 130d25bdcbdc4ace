//! What the threads of a timer do: who waits, who runs, who steps in.
//!
//! All threads are alike and take turns in these roles:
//! * The **leader** sleeps until the next deadline of all shards. Then it serves the shards in which
//!   something is due: it takes one due task at a time out of the wheel and runs it. There is no
//!   queue between the wheel and the threads: until a task starts it can be cancelled, reset or
//!   handed back.
//! * The **guard** makes sure that a task or a waker that blocks delays nothing else. While they run
//!   it looks once in a [`GRACE`] whether any still start. If none does and no thread is asleep as
//!   leader, the guard steps in: it takes the lead, and another thread becomes guard. While one
//!   blocked call follows another, each guard waits half as long as the one before, so that many
//!   blocked calls do not add up. The guard takes part as well when tasks are late, and a core is
//!   free or they get later still.
//! * All others are **idle**, and end after a while. The leader ends last.
//!
//! So short tasks run on one warm thread; a second one wakes at most every millisecond while
//! tasks fire, and while none do only the leader wakes, for what is due next. A timer that runs its
//! tasks inline, or hands them to an executor, has a leader only.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::{Arc, PoisonError};

use crate::timer::clock::{Nanos, nanos};
use crate::timer::core::Core;
use crate::timer::core::driver::{AWAKE, NEVER, NOBODY, Phase};
use crate::timer::core::shard::{EMPTY, Shard};
use crate::timer::core::state::{Fire, Popped, State};
use crate::timer::execution::executor::{Executor, Task};
use crate::timer::execution::panics;
use crate::timer::execution::roster::{GRACE, Guard, Roster};
use crate::timer::execution::threads::Role;
use crate::timer::sync::{Condvar, MutexGuard, fence};

/// How long a thread without work stays. The tests have no time to wait for that.
const KEEP_ALIVE: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 10_000 });

/// After so many tasks or batches of wakers of one shard, a thread looks for a more urgent shard.
const SHARD_BATCH: usize = 64;

type Locked<'a> = MutexGuard<'a, Roster>;

impl Core {
    /// The life of a thread.
    pub(crate) fn work(self: &Arc<Self>, role: Role) {
        let driver = &self.driver;
        let mut roster = driver.roster();
        roster.failures = 0;
        if driver.leader_until() == NOBODY {
            driver.set_leader_until(AWAKE);
        }
        let mut stays = true;
        // If the timer was stopped while this thread was being started, it must not wait: the
        // notification came before its time.
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

    /// The shard in which something has been due for the longest time. A shard that another thread
    /// serves counts as due a little later, so that threads spread over the shards.
    #[inline]
    fn most_urgent(&self, now: Nanos) -> Option<&Arc<Shard>> {
        let due = self.shards().filter(|shard| shard.next() <= now);
        due.min_by_key(|shard| {
            let handicap = if shard.is_served() { nanos(GRACE) } else { 0 };
            shard.next().saturating_add(handicap)
        })
    }

    /// Runs a number of tasks of a shard and calls due wakers, while any are due.
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
                Popped::Again => state = shard.relock(state),
                // Not done: the next batch of wakers first.
                Popped::Nothing if more => {}
                Popped::Nothing => {
                    let searched;
                    (state, searched) = shard.search(state);
                    if !searched {
                        break;
                    }
                }
            }
        }
        shard.publish_next(&state);
        drop(state);
        shard.end_serving();
    }

    /// Runs a task that was taken out of the wheel, here or where the executor takes it, and locks
    /// again.
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

    /// Releases the lock, having made sure that a guard watches whether what is called next blocks.
    /// If there can be no guard it is called all the same, and what is due after it waits.
    #[inline]
    pub(crate) fn unlock_guarded(&self, shard: &Shard, state: MutexGuard<'_, State>) {
        shard.note_start();
        let unguarded = self.driver.is_unguarded();
        drop(state);
        if unguarded {
            self.driver.call_guard();
        }
    }

    /// Releases the lock before a number of wakers is called. One that is called while nothing else
    /// is pending is not worth a guard: it takes microseconds as a rule. A call that schedules
    /// something meanwhile calls the guard.
    pub(crate) fn unlock_for_wakers(
        &self,
        shard: &Shard,
        state: MutexGuard<'_, State>,
        count: usize,
    ) {
        let is_other = |other: &Shard| other.index != shard.index && other.next() != EMPTY;
        if count > 1 || state.pending() > 0 || self.shards().any(|other| is_other(other)) {
            self.unlock_guarded(shard, state);
        } else {
            shard.note_start();
        }
    }

    /// Nothing is due: sleeps in one of the roles. Returns `false` if the thread is to end.
    fn wait_for_work<'a>(&'a self, roster: Locked<'a>) -> (Locked<'a>, bool) {
        if self.driver.leader_until() == AWAKE {
            self.lead(roster)
        } else if roster.guard == Guard::None && self.driver.max_threads() > 1 {
            self.watch(roster)
        } else {
            self.rest(roster)
        }
    }

    /// Sleeps as leader until something may be due. Returns `false` if the thread is to end.
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
        // The leader is the last to leave: while another thread is there, one must lead it.
        let leaves = timed_out && roster.count == 1 && self.may_end();
        (roster, !leaves)
    }

    /// Publishes until when this thread sleeps, and returns it: the earliest `next` of all shards.
    fn announce_sleep(&self) -> Nanos {
        let mut until = self.next();
        loop {
            self.driver.set_leader_until(until.min(NEVER));
            fence(Ordering::SeqCst);
            // A caller that has not seen this time has published its own before.
            let next = self.next();
            if next >= until {
                return until;
            }
            until = next;
        }
    }

    /// Returns `true` if nothing is pending, so that the last thread may end: from then on, callers
    /// that schedule start another. A series that runs elsewhere is pending.
    fn may_end(&self) -> bool {
        self.driver.set_leader_until(NOBODY);
        // A caller that schedules after a shard was looked at finds `NOBODY`, as it takes that
        // shard's lock later.
        let has_pending = self.has_pending();
        if has_pending {
            self.driver.set_leader_until(AWAKE);
        }
        !has_pending
    }

    /// Sleeps as guard until tasks are held up. Returns `false` if the thread is to end.
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
    /// A thread that starts a task counts it and reads the guard's state under its shard's lock. So
    /// either it sees that the guard rests, and calls it, or the count is seen here.
    fn rest_as_guard(&self, roster: &mut Roster, starts: u64) {
        self.driver.set_guard(roster, Guard::Resting);
        let now: u64 = self.shards().map(|shard| (shard.lock(), shard.starts()).1).sum();
        if now != starts {
            self.driver.set_guard(roster, Guard::Watching);
        }
    }

    /// Tasks and batches of wakers that were taken out of all shards so far.
    fn starts(&self) -> u64 {
        self.shards().map(|shard| shard.starts()).sum()
    }

    /// Tasks that are running, each shard at a moment of its own.
    fn running_now(&self) -> usize {
        self.shards().map(|shard| shard.lock().running).sum()
    }

    /// For how long the first due task of all has been due.
    fn lateness(&self) -> Nanos {
        let now = self.driver.clock.now();
        let due = self.shards().filter(|shard| shard.next() < now);
        // While a thread serves a shard, its `next` is that of tasks which were taken out already.
        let first = due.filter_map(|shard| shard.lock().next_wake()).min();
        now.saturating_sub(first.unwrap_or(Nanos::MAX))
    }

    /// Sleeps until there is something to do. Returns `false` if the thread is to end.
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

/// Waits on a condition variable. Returns `true` beside the lock if the time ran out.
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

    /// Had the leader gone, the next run would need a new thread, which may not be had.
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
