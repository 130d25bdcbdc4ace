//! The threads of a timer: who waits, who runs, who steps in.
//!
//! All threads are alike and take turns in these roles:
//! * The **leader** sleeps until the next deadline, then takes one due task at a time out of the
//!   wheel and runs it. There is no queue between the wheel and the threads: until a task starts
//!   it can be cancelled, reset or handed back.
//! * The **guard** makes sure that a task that blocks delays nobody else. While tasks run it looks
//!   once in a [`GRACE`] whether any still start. If none does and nobody waits for the next
//!   deadline, it takes the lead, and another thread becomes guard. It takes part as well when
//!   tasks are late, and a core is free or they get later still.
//! * Everybody else is **idle**, and ends after a while. The leader ends last.
//!
//! So short tasks run on one warm thread; a second one wakes at most every millisecond while
//! tasks fire, and while none do only the leader wakes, for what is due next. A timer that runs its
//! tasks inline, or hands them to an executor, has a leader only.
//!
//! Ground rule: while anything is pending, a thread is there. The first task is accepted once its
//! thread was started, and the leader stays until nothing is pending.

use core::time::Duration;
use std::sync::{Arc, PoisonError};

use super::ScheduleError;
use super::clock::Nanos;
use super::executor::Executor;
use super::panics;
use super::shared::Shared;
use super::state::{Phase, State};
use super::sync::{Condvar, MutexGuard};

/// How long tasks may be held up before another thread steps in.
const GRACE: Duration = Duration::from_millis(1);

/// How long a thread without work stays. The tests have no time to wait for that.
const KEEP_ALIVE: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 10_000 });

/// Who does what at the moment.
#[derive(Default)]
pub(super) struct Threads {
    count: usize,
    /// The first thread is being started, and that may fail.
    starting: bool,
    /// Until when the leader sleeps (`Nanos::MAX`: until woken); `None` if nobody does.
    leader_until: Option<Nanos>,
    guard: Guard,
    idle: usize,
    /// Tasks taken out of the wheel so far, as a sign of life.
    starts: u64,
    /// How often a leader woke up.
    pub(super) wakeups: u64,
    /// Threads that are calling wakers.
    pub(super) waking: usize,
    /// Somebody runs what is due on a thread of their own.
    pub(super) turning: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Guard {
    #[default]
    None,
    /// A thread was told to become guard.
    Coming,
    /// Looks after each `GRACE`.
    Watching,
    /// Sleeps until tasks run again.
    Resting,
}

impl Threads {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether it is sure that a thread is there.
    #[inline]
    pub(super) fn are_there(&self) -> bool {
        self.count > 0 && !self.starting
    }

    /// When the thread that sleeps as leader wakes up; `None` if no thread does.
    #[inline]
    pub(super) fn leader_until(&self) -> Option<Nanos> {
        self.leader_until
    }

    /// Whether the leader sleeps past `at` and must be woken; it then expects to be.
    #[inline]
    pub(super) fn expects_later_than(&mut self, at: Nanos) -> bool {
        match &mut self.leader_until {
            Some(until) if at < *until => {
                *until = at;
                true
            }
            _ => false,
        }
    }
}

/// How a thread begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Any,
    Guard,
}

/// A thread that is counted. It uncounts itself when its work ends, under the same lock under
/// which it decided to leave; this sees to threads that never began, or panicked.
struct Thread {
    shared: Arc<Shared>,
    role: Role,
    counted: bool,
}

impl Thread {
    fn run(mut self) {
        let _inside = panics::enter(&self.shared);
        self.shared.work(self.role);
        self.counted = false;
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.counted {
            let mut state = self.shared.lock();
            if state.threads.guard == Guard::Coming && self.role == Role::Guard {
                state.threads.guard = Guard::None;
            }
            self.shared.uncount(&mut state);
        }
    }
}

impl Shared {
    /// Starts the timer's thread, if it has none and wants one. If somebody else is about to, waits
    /// for how that ends: a task is accepted only where a thread will run it.
    pub(super) fn start(self: &Arc<Self>) -> Result<(), ScheduleError> {
        let mut state = self.lock();
        // What the thread hook schedules is accepted with the task that the hook is called for.
        while state.threads.starting && !panics::is_inside(self) {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.phase {
            Phase::NotStarted => state.phase = Phase::Running,
            Phase::Running | Phase::Draining => {}
            Phase::Stopped => return Err(ScheduleError::Stopped),
        }
        if state.threads.count > 0 || !self.has_threads() {
            return Ok(());
        }
        state.threads.count += 1;
        state.threads.starting = true;
        drop(state);
        let started = self.spawn(Role::Any);
        self.lock().threads.starting = false;
        self.ended.notify_all();
        started
    }

    /// Starts a thread that was counted already.
    fn spawn(self: &Arc<Self>, role: Role) -> Result<(), ScheduleError> {
        let thread = Thread { shared: Arc::clone(self), role, counted: true };
        let _inside = panics::enter(self);
        self.config.spawn(std::boxed::Box::new(move || thread.run())).map_err(|error| {
            let why = std::string::ToString::to_string(&error);
            panics::log(|| tracing::error!(%error, "a timer's thread could not be started"));
            ScheduleError::Thread(why)
        })
    }

    /// The life of a thread.
    fn work(self: &Arc<Self>, role: Role) {
        let mut state = self.lock();
        let mut stays = true;
        // Stopped while it was being started, it would wait for a call that was before its time.
        if role == Role::Guard && state.phase != Phase::Stopped {
            (state, stays) = self.watch(state);
        }
        while stays && state.phase != Phase::Stopped {
            let more;
            (state, more) = self.wake_some(state);
            if state.phase == Phase::Stopped {
                break;
            }
            if let Some(fire) = state.pop(&self.clock) {
                state.threads.starts += 1;
                state = self.run_guarded(state, fire);
            } else if more {
                // No time to sleep: the next batch first.
            } else if state.threads.leader_until.is_none() {
                (state, stays) = self.lead(state);
            } else if state.threads.guard == Guard::None && self.max_threads() > 1 {
                (state, stays) = self.watch(state);
            } else {
                (state, stays) = self.rest(state);
            }
        }
        self.uncount(&mut state);
    }

    /// A thread ends.
    fn uncount(&self, state: &mut State) {
        state.threads.count -= 1;
        if state.threads.count == 0 {
            self.ended.notify_all();
        }
    }

    fn max_threads(&self) -> usize {
        match self.config.executor {
            Executor::Workers(max) => max,
            Executor::Inline | Executor::Custom(_) => 1,
            Executor::Caller => 0,
        }
    }

    /// Runs a task, having made sure that somebody looks whether it blocks.
    #[inline]
    fn run_guarded<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        fire: super::state::Fire,
    ) -> MutexGuard<'a, State> {
        let threads = &mut state.threads;
        match threads.guard {
            Guard::Resting => {
                threads.guard = Guard::Watching;
                drop(state);
                self.guard.notify_one();
            }
            Guard::None if threads.idle > 0 => {
                threads.guard = Guard::Coming;
                drop(state);
                self.idle.notify_one();
            }
            Guard::None if threads.count < self.max_threads() => {
                threads.guard = Guard::Coming;
                threads.count += 1;
                drop(state);
                // Without a guard tasks still run, only one after the other.
                let _ = self.spawn(Role::Guard);
            }
            Guard::None | Guard::Watching | Guard::Coming => drop(state),
        }
        self.run(fire)
    }

    /// Sleeps as leader until something may be due. Says whether the thread stays.
    fn lead<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        let until = state.next_wake();
        state.threads.leader_until = Some(until.unwrap_or(Nanos::MAX));
        self.sleepers.set_leader_until(until);
        let (mut state, timed_out) = match until {
            Some(Nanos::MAX) => {
                (self.leader.wait(state).unwrap_or_else(PoisonError::into_inner), false)
            }
            Some(at) => {
                let left = Duration::from_nanos(at.saturating_sub(self.clock.now()));
                (sleep(&self.leader, state, left).0, false)
            }
            None => sleep(&self.leader, state, KEEP_ALIVE),
        };
        state.threads.leader_until = None;
        self.sleepers.set_leader_until(None);
        state.threads.wakeups += 1;
        // Last of all: while another thread is there, somebody must lead it; and a series that
        // runs elsewhere will be back.
        let leaves = timed_out && state.pending() == 0 && state.threads.count == 1;
        (state, !leaves)
    }

    /// Sleeps as guard until tasks are held up. Says whether the thread stays.
    fn watch<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        let grace = GRACE.as_nanos() as Nanos;
        state.threads.guard = Guard::Watching;
        let mut starts = state.threads.starts;
        let mut lateness = Nanos::MAX;
        let stays = loop {
            let resting = state.threads.guard == Guard::Resting;
            let limit = if resting { KEEP_ALIVE } else { GRACE };
            let timed_out;
            (state, timed_out) = sleep(&self.guard, state, limit);
            if state.phase == Phase::Stopped {
                break true;
            }
            if state.threads.guard == Guard::Resting {
                if timed_out {
                    break false;
                }
                continue;
            }
            let progress = core::mem::replace(&mut starts, state.threads.starts) != starts;
            let late = self.clock.now().saturating_sub(state.next_wake().unwrap_or(Nanos::MAX));
            let grows = late >= core::mem::replace(&mut lateness, late);
            if progress && late > grace && (grows || state.running < self.config.cores) {
                break true;
            }
            if !progress && state.threads.leader_until.is_none() {
                break true;
            }
            if !progress {
                state.threads.guard = Guard::Resting;
            }
        };
        state.threads.guard = Guard::None;
        (state, stays)
    }

    /// Sleeps until there is something to do. Says whether the thread stays.
    fn rest<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        state.threads.idle += 1;
        let (mut state, timed_out) = sleep(&self.idle, state, KEEP_ALIVE);
        state.threads.idle -= 1;
        if state.threads.guard == Guard::Coming {
            return self.watch(state);
        }
        (state, !timed_out)
    }
}

/// Waits on a condition variable; says whether the time ran out.
fn sleep<'a>(
    condition: &Condvar,
    state: MutexGuard<'a, State>,
    limit: Duration,
) -> (MutexGuard<'a, State>, bool) {
    let (state, result) =
        condition.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner);
    (state, result.timed_out())
}

#[cfg(test)]
mod tests {
    use super::super::{Task, Timer};
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering};
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
        while timer.shared().lock().threads.count() > 0 || timer.pending() > 0 {
            assert!(start.elapsed() < Duration::from_secs(20), "a thread is left");
            thread::sleep(GRACE);
        }
        let (sender, receiver) = mpsc::channel();
        timer.after(GRACE, move || sender.send(()).unwrap()).unwrap();
        receiver.recv_timeout(Duration::from_secs(20)).expect("and comes back");
    }
}
