//! The threads of a timer: who waits, who runs, who steps in.
//!
//! All threads are alike and take turns in these roles:
//! * The **leader** sleeps until the next deadline, then takes one due task at a time out of the
//!   wheel and runs it. There is no queue between the wheel and the threads: until a task starts
//!   it can be cancelled, reset or handed back.
//! * The **guard** makes sure that a task or a waker that blocks delays nothing else. While they run
//!   it looks once in a [`GRACE`] whether any still start. If none does and no thread is asleep as
//!   leader, the guard steps in: it takes the lead, and another thread becomes guard. While one
//!   blocked call follows another, each guard waits half as long as the one before, so that many
//!   blocked calls do not add up. The guard takes part as well when tasks are late, and a core is
//!   free or they get later still.
//! * Everybody else is **idle**, and ends after a while. The leader ends last.
//!
//! So short tasks run on one warm thread; a second one wakes at most every millisecond while
//! tasks fire, and while none do only the leader wakes, for what is due next. A timer that runs its
//! tasks inline, or hands them to an executor, has a leader only.
//!
//! Ground rules:
//! * While anything is pending, a thread is there. The first task is accepted once its thread was
//!   started, and the leader stays until nothing is pending. If a [thread
//!   hook](super::Builder::thread_hook) fails after a task was accepted on its account, a thread is
//!   started without the hook.
//! * A thread that could not be started is tried again at once a few times, then after 1 ms, 2 ms
//!   and so on up to [`LONGEST_BACK_OFF`].
//! * Nothing is logged under a lock or while `starting` is set: a subscriber may schedule.

use core::time::Duration;
use std::borrow::ToOwned;
use std::io;
use std::string::{String, ToString};
use std::sync::{Arc, PoisonError};

use super::ScheduleError;
use super::builder::Config;
use super::clock::{Nanos, nanos};
use super::executor::Executor;
use super::panics;
use super::shared::Shared;
use super::state::{Phase, Popped, State};
use super::sync::{Condvar, MutexGuard};

/// How long tasks may be held up before another thread steps in.
pub(super) const GRACE: Duration = Duration::from_millis(1);

/// The shortest time after which a thread steps in is `GRACE` divided by two to this power: 31 µs.
const MAX_HALVINGS: u32 = 5;

/// How often in a row starting a thread may fail before attempts are spaced out.
const EAGER_ATTEMPTS: u32 = 4;

/// The longest time between two attempts to start a thread.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(1);

/// How long a thread without work stays. The tests have no time to wait for that.
const KEEP_ALIVE: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 10_000 });

/// Who does what at the moment.
#[derive(Default)]
pub(super) struct Threads {
    count: usize,
    /// The first thread is being started, and that may fail.
    starting: Option<Starting>,
    /// How often in a row a thread could not be started, why, and when to try again.
    failures: u32,
    failure: String,
    retry_at: Nanos,
    /// Until when the leader sleeps (`Nanos::MAX`: until woken); `None` if no thread does. On a timer
    /// with a wake hook: until when the event loop sleeps.
    leader_until: Option<Nanos>,
    guard: Guard,
    /// How often in a row a guard had to step in.
    step_ins: u32,
    idle: usize,
    /// Tasks and batches of wakers taken out of the wheels so far, as a sign of life.
    starts: u64,
    /// How often a leader woke up.
    pub(super) wakeups: u64,
    /// Threads that are calling wakers, and since when there is one.
    pub(super) waking: usize,
    pub(super) waking_since: Nanos,
    /// Somebody runs what is due on a thread of their own.
    pub(super) turning: bool,
}

/// What happens while the first thread is being started.
#[derive(Default)]
struct Starting {
    /// A task was accepted on the account of that thread.
    promised: bool,
    /// The body of that thread was dropped.
    body_dropped: bool,
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
    pub(super) fn new(config: &Config) -> Self {
        // An event loop that has not asked for a deadline yet may sleep for ever.
        let leader_until = config.wake_hook.as_ref().map(|_| Nanos::MAX);
        Self { leader_until, ..Self::default() }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether it is sure that a thread is there.
    #[inline]
    pub(super) fn are_there(&self) -> bool {
        self.count > 0 && self.starting.is_none()
    }

    /// When the thread that sleeps as leader wakes up; `None` if no thread does.
    #[inline]
    pub(super) fn leader_until(&self) -> Option<Nanos> {
        self.leader_until
    }

    /// The event loop of a caller-driven timer sleeps until then, or is awake.
    pub(super) fn set_caller_until(&mut self, until: Option<Nanos>) {
        self.leader_until = until;
    }

    /// Whether a thread is calling wakers without a guard that watches it.
    #[inline]
    pub(super) fn are_wakers_unwatched(&self) -> bool {
        self.waking > 0 && matches!(self.guard, Guard::None | Guard::Resting)
    }

    /// How long the guard waits before it steps in.
    fn grace(&self) -> Duration {
        GRACE / (1 << self.step_ins.min(MAX_HALVINGS))
    }

    /// Notes that a thread could not be started.
    fn note_failure(&mut self, why: &str, now: Nanos) {
        self.failures = self.failures.saturating_add(1);
        why.clone_into(&mut self.failure);
        let pause = match self.failures.checked_sub(EAGER_ATTEMPTS) {
            None | Some(0) => Duration::ZERO,
            Some(n) => Duration::from_millis(1 << n.min(11)) / 2,
        };
        let pause = pause.min(LONGEST_BACK_OFF);
        self.retry_at = now.saturating_add(nanos(pause));
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
        if !self.counted {
            return;
        }
        let mut state = self.shared.lock();
        if state.threads.guard == Guard::Coming && self.role == Role::Guard {
            state.threads.guard = Guard::None;
        }
        self.shared.uncount(&mut state);
        if let Some(starting) = &mut state.threads.starting {
            starting.body_dropped = true;
            return;
        }
        if state.threads.count > 0 || state.pending() == 0 {
            return;
        }
        // The hook said that it would run the body, and tasks were accepted because of that.
        state.threads.count += 1;
        drop(state);
        let _ = self.shared.spawn(Role::Any, Spawn::Plain).map_err(Failure::log);
    }
}

/// How a thread is started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spawn {
    /// By the thread hook, if there is one.
    Hook,
    Plain,
}

/// A thread could not be started. That is to be logged, without a lock.
struct Failure(io::Error);

impl Failure {
    fn log(self) -> ScheduleError {
        let Self(error) = self;
        panics::log(|| tracing::error!(%error, "a timer's thread could not be started"));
        ScheduleError::Thread(error.to_string())
    }
}

impl Shared {
    /// Starts the timer's thread, if it has none and wants one. While another call does so, waits
    /// for how that ends: a task is accepted only if there will be a thread to run it.
    pub(super) fn start(self: &Arc<Self>) -> Result<(), ScheduleError> {
        let mut state = self.lock();
        while state.threads.starting.is_some() && !panics::is_inside(self) {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.phase {
            Phase::NotStarted => state.phase = Phase::Running,
            Phase::Running | Phase::Draining => {}
            Phase::Stopped => return Err(ScheduleError::Stopped),
        }
        let threads = &mut state.threads;
        if let Some(starting) = &mut threads.starting {
            // Called by the thread hook, or by a task that an executor runs: it cannot wait.
            starting.promised = true;
            return Ok(());
        }
        if threads.count > 0 || !self.has_threads() {
            return Ok(());
        }
        if threads.failures > 0 && self.clock.now() < threads.retry_at {
            return Err(ScheduleError::Thread(threads.failure.clone()));
        }
        threads.count += 1;
        threads.starting = Some(Starting::default());
        drop(state);
        self.start_first().map_err(Failure::log)
    }

    /// Starts the first thread, which is counted already.
    fn start_first(self: &Arc<Self>) -> Result<(), Failure> {
        let mut started = self.spawn(Role::Any, Spawn::Hook);
        let mut state = self.lock();
        let starting = state.threads.starting.as_mut().map(core::mem::take).unwrap_or_default();
        if starting.body_dropped && started.is_ok() {
            let why = "the thread hook dropped the body instead of running it";
            state.threads.note_failure(why, self.clock.now());
            started = Err(Failure(io::Error::other(why)));
        }
        let promised = starting.promised && state.pending() > 0;
        if started.is_err() && promised && state.threads.count == 0 {
            state.threads.count += 1;
            drop(state);
            started = self.spawn(Role::Any, Spawn::Plain);
            state = self.lock();
        }
        state.threads.starting = None;
        drop(state);
        self.ended.notify_all();
        started
    }

    /// Starts a thread that was counted already.
    fn spawn(self: &Arc<Self>, role: Role, how: Spawn) -> Result<(), Failure> {
        let thread = Thread { shared: Arc::clone(self), role, counted: true };
        let body = std::boxed::Box::new(move || thread.run());
        let started = {
            let _inside = panics::enter(self);
            match how {
                Spawn::Hook => self.config.spawn(body),
                Spawn::Plain => self.config.spawn_plain(body),
            }
        };
        started.map_err(|error| {
            let why = error.to_string();
            self.lock().threads.note_failure(&why, self.clock.now());
            Failure(error)
        })
    }

    /// The life of a thread.
    fn work(self: &Arc<Self>, role: Role) {
        let mut state = self.lock();
        state.threads.failures = 0;
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
            match state.pop(&self.clock) {
                Popped::Fire(fire) => state = self.run_guarded(state, fire),
                Popped::Again => state = self.relock(state),
                // No time to sleep: the next batch first.
                Popped::Nothing if more => {}
                Popped::Nothing => (state, stays) = self.wait_for_work(state),
            }
        }
        self.uncount(&mut state);
    }

    /// Nothing is due: searches times of calendars, or sleeps. Says whether the thread stays.
    fn wait_for_work<'a>(
        self: &'a Arc<Self>,
        state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, bool) {
        let (state, searched) = self.search(state);
        if searched {
            (state, true)
        } else if state.threads.leader_until.is_none() {
            self.lead(state)
        } else if state.threads.guard == Guard::None && self.max_threads() > 1 {
            self.watch(state)
        } else {
            self.rest(state)
        }
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
        state: MutexGuard<'a, State>,
        fire: super::state::Fire,
    ) -> MutexGuard<'a, State> {
        self.unlock_guarded(state);
        self.run(fire)
    }

    /// Unlocks, having made sure that a guard watches whether what is called next blocks. Without a
    /// guard it is called all the same, and what comes after it waits.
    #[inline]
    pub(super) fn unlock_guarded(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        state.threads.starts += 1;
        self.call_guard(state);
    }

    /// Unlocks before a number of wakers is called. One that is called while nothing else is pending
    /// is not worth a guard: it takes microseconds as a rule. A call that schedules something
    /// meanwhile calls the guard.
    pub(super) fn unlock_for_wakers(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        count: usize,
    ) {
        if count > 1 || state.pending() > 0 {
            self.unlock_guarded(state);
        } else {
            state.threads.starts += 1;
        }
    }

    /// Something was scheduled while a thread calls wakers that no guard watches.
    #[cold]
    pub(super) fn watch_wakers(self: &Arc<Self>) {
        let state = self.lock();
        if state.threads.are_wakers_unwatched() {
            self.call_guard(state);
        }
    }

    /// Unlocks, and makes a thread guard if there is none.
    #[inline]
    fn call_guard(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
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
            Guard::None if threads.count < self.max_threads() => self.start_guard(state),
            Guard::None | Guard::Watching | Guard::Coming => {}
        }
    }

    /// Starts a guard, unless that has just failed.
    #[cold]
    fn start_guard(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let threads = &mut state.threads;
        if threads.failures > 0 && self.clock.now() < threads.retry_at {
            return;
        }
        threads.guard = Guard::Coming;
        threads.count += 1;
        drop(state);
        let _ = self.spawn(Role::Guard, Spawn::Hook).map_err(Failure::log);
    }

    /// Sleeps as leader until something may be due. Says whether the thread stays.
    fn lead<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        let until = state.next_wake();
        state.threads.step_ins = 0;
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
        let grace = nanos(GRACE);
        state.threads.guard = Guard::Watching;
        let mut starts = state.threads.starts;
        let mut lateness = Nanos::MAX;
        let stays = loop {
            let resting = state.threads.guard == Guard::Resting;
            let limit = if resting { KEEP_ALIVE } else { state.threads.grace() };
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
            if !progress && state.threads.leader_until.is_none() {
                state.threads.step_ins = state.threads.step_ins.saturating_add(1);
                break true;
            }
            state.threads.step_ins = 0;
            if progress && late > grace && (grows || state.running < self.config.cores) {
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
    use std::thread;

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
    fn guards_step_in_faster_while_calls_block() {
        let delay = |blocked| -> Duration {
            (0..blocked).map(|step_ins| Threads { step_ins, ..Threads::default() }.grace()).sum()
        };
        assert_eq!(delay(1), GRACE);
        assert!(delay(62) < 4 * GRACE, "{:?}", delay(62));
    }

    #[test]
    fn attempts_to_start_a_thread_get_rarer() {
        let (mut threads, mut now, mut attempts) = (Threads::default(), 0, 0);
        while now < 10_000_000_000 {
            threads.note_failure("no more threads", now);
            now = threads.retry_at;
            attempts += 1;
        }
        assert!((15..25).contains(&attempts), "{attempts} attempts in ten seconds");
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
