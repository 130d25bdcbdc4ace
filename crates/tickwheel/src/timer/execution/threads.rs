//! Starting the threads of a timer.
//!
//! Ground rules:
//! * While anything is pending, the timer has a thread. The first task is accepted only after its
//!   thread was started, and the leader does not end while anything is pending. If a [thread
//!   hook](crate::timer::Builder::thread_hook) fails after a task was accepted in the expectation of its
//!   thread, a thread is started without the hook.
//! * A failed start is retried at once a few times, then after 1 ms, 2 ms and so on up to a second.
//! * Nothing is logged under a lock or while `starting` is set: a subscriber may schedule.

use std::boxed::Box;
use std::io;
use std::string::ToString;
use std::sync::{Arc, PoisonError};

use crate::timer::ScheduleError;
use crate::timer::core::Core;
use crate::timer::core::driver::{AWAKE, Driver, NO_LEADER, Phase};
use crate::timer::execution::panics;
use crate::timer::execution::roster::{Guard, Roster, Starting};
use crate::timer::sync::MutexGuard;

/// The role in which a thread begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Any,
    Guard,
}

/// The way in which a thread is started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spawn {
    /// With the thread hook, if there is one.
    Hook,
    Plain,
}

/// A thread that is counted in the roster. `Core::work` uncounts it under the lock under which it
/// decides to end. Dropping this value uncounts threads that never began or that panicked.
struct Thread {
    core: Arc<Core>,
    role: Role,
    how: Spawn,
    counted: bool,
}

impl Thread {
    fn run(mut self) {
        let _inside = panics::enter(&self.core.driver);
        self.core.work(self.role);
        self.counted = false;
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if !self.counted {
            return;
        }
        let driver = &self.core.driver;
        let mut roster = driver.roster();
        if roster.guard == Guard::Coming && self.role == Role::Guard {
            driver.set_guard(&mut roster, Guard::None);
        }
        driver.uncount(&mut roster);
        if let Some(starting) = &mut roster.starting
            && self.role == Role::Any
        {
            starting.body_dropped = true;
            return;
        }
        // Where the system has no more threads, another attempt would end here again.
        if self.how == Spawn::Plain || roster.count > 0 || !self.core.has_pending() {
            return;
        }
        // The hook promised to run the body, and tasks were accepted because of that.
        roster.count += 1;
        drop(roster);
        let _ = driver.spawn(&self.core, Role::Any, Spawn::Plain).map_err(Failure::log);
    }
}

/// The error of starting a thread. To be logged when no lock is held.
struct Failure(io::Error);

impl Failure {
    fn log(self) -> ScheduleError {
        let Self(error) = self;
        panics::log(|| tracing::error!(%error, "a timer's thread could not be started"));
        ScheduleError::Thread(error.to_string())
    }
}

impl Core {
    /// Returns `true` if anything is pending. The roster may be locked, a shard may not.
    pub(crate) fn has_pending(&self) -> bool {
        self.shards().any(|shard| shard.lock().pending() > 0)
    }
}

impl Driver {
    /// Starts the timer's first thread if it has none and needs one. If another call is doing so,
    /// waits for its result: a task is accepted only if there is a thread to run it.
    pub(crate) fn start(&self) -> Result<(), ScheduleError> {
        let mut roster = self.roster();
        while roster.starting.is_some() && !panics::is_inside(self) {
            roster = self.ended.wait(roster).unwrap_or_else(PoisonError::into_inner);
        }
        match roster.phase {
            Phase::NotStarted => self.begin(&mut roster),
            Phase::Running | Phase::Draining => {}
            Phase::Stopped => return Err(ScheduleError::Stopped),
        }
        if let Some(starting) = &mut roster.starting {
            // Called by the thread hook, or by a task on an executor: waiting would deadlock.
            starting.promised = true;
            return Ok(());
        }
        if roster.count > 0 || !self.has_threads() {
            return Ok(());
        }
        if roster.backs_off(self.clock.now()) {
            return Err(ScheduleError::Thread(roster.failure.clone()));
        }
        let Some(core) = self.core() else { return Err(ScheduleError::Stopped) };
        roster.count += 1;
        roster.starting = Some(Starting::default());
        drop(roster);
        self.start_first(&core).map_err(Failure::log)
    }

    /// Starts the timer: the first task was scheduled, or `start` was called.
    fn begin(&self, roster: &mut Roster) {
        self.set_phase(roster, Phase::Running);
        if !self.has_threads() {
            let hook = self.config.wake_hook.is_some();
            self.set_leader_until(if hook { roster.caller_until } else { AWAKE });
        }
    }

    /// Starts the first thread, which is already counted.
    fn start_first(&self, core: &Arc<Core>) -> Result<(), Failure> {
        let mut started = self.spawn(core, Role::Any, Spawn::Hook);
        let mut roster = self.roster();
        let starting = roster.starting.as_mut().map(core::mem::take).unwrap_or_default();
        if starting.body_dropped && started.is_ok() {
            let why = "the thread hook dropped the body instead of running it";
            roster.note_failure(why, self.clock.now());
            started = Err(Failure(io::Error::other(why)));
        }
        // The first thread may also have ended already.
        if starting.promised && roster.count == 0 && core.has_pending() {
            roster.count += 1;
            drop(roster);
            started = self.spawn(core, Role::Any, Spawn::Plain);
            roster = self.roster();
        }
        roster.starting = None;
        drop(roster);
        self.ended.notify_all();
        started
    }

    /// Starts a thread, which is already counted.
    fn spawn(&self, core: &Arc<Core>, role: Role, how: Spawn) -> Result<(), Failure> {
        let thread = Thread { core: Arc::clone(core), role, how, counted: true };
        let body = Box::new(move || thread.run());
        let started = {
            let _inside = panics::enter(self);
            match how {
                Spawn::Hook => self.config.spawn(body),
                Spawn::Plain => self.config.spawn_plain(body),
            }
        };
        started.map_err(|error| {
            let why = error.to_string();
            self.roster().note_failure(&why, self.clock.now());
            Failure(error)
        })
    }

    /// Counts the end of a thread.
    pub(crate) fn uncount(&self, roster: &mut Roster) {
        roster.count -= 1;
        if roster.count == 0 {
            self.set_leader_until(NO_LEADER);
            self.ended.notify_all();
        }
    }

    /// Wakes or starts a guard, if none is watching.
    #[cold]
    pub(crate) fn call_guard(&self) {
        if self.max_threads() <= 1 {
            return;
        }
        let mut roster = self.roster();
        match roster.guard {
            Guard::Resting => {
                self.set_guard(&mut roster, Guard::Watching);
                drop(roster);
                self.guard.notify_one();
            }
            Guard::None if roster.idle > 0 => {
                self.set_guard(&mut roster, Guard::Coming);
                drop(roster);
                self.idle.notify_one();
            }
            Guard::None if roster.count < self.max_threads() => self.start_guard(roster),
            Guard::None | Guard::Watching | Guard::Coming => {}
        }
    }

    /// Starts a guard thread, unless starting one failed recently.
    fn start_guard(&self, mut roster: MutexGuard<'_, Roster>) {
        if roster.phase == Phase::Stopped || roster.backs_off(self.clock.now()) {
            return;
        }
        let Some(core) = self.core() else { return };
        self.set_guard(&mut roster, Guard::Coming);
        roster.count += 1;
        drop(roster);
        let _ = self.spawn(&core, Role::Guard, Spawn::Hook).map_err(Failure::log);
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use crate::timer::Timer;
    use core::sync::atomic::{AtomicUsize, Ordering};
    use core::time::Duration;
    use std::sync::{Arc, OnceLock, mpsc};
    use std::thread;

    /// A hook that runs the body itself schedules a task after the body has ended: its thread is
    /// gone, but the call that started it has not returned.
    #[test]
    fn a_hook_schedules_after_the_thread_has_ended() {
        let slot = Arc::new(OnceLock::<Timer>::new());
        let (sender, receiver) = mpsc::channel();
        let (timer, starts) = (slot.clone(), AtomicUsize::new(0));
        let hook = move |body: crate::timer::ThreadBody| {
            if starts.fetch_add(1, Ordering::SeqCst) > 0 {
                return thread::Builder::new().spawn(body).map(drop);
            }
            body();
            let sender = sender.clone();
            timer.get().unwrap().after(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
            Ok(())
        };
        slot.set(Timer::builder().inline().thread_hook(hook).build().unwrap()).unwrap();
        let timer = slot.get().unwrap();
        timer.after(Duration::ZERO, || {}).unwrap();
        receiver.recv_timeout(Duration::from_secs(20)).expect("the accepted task runs");
        timer.stop();
    }
}
