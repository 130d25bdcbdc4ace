//! The timer of this project.

use std::time::Duration;

use tickwheel::{Timeout, Timer, WheelKind};

use super::contender::Contender;
use crate::lateness::Task;

/// Slots of the hashed wheel: Netty's default.
const SLOTS: usize = 512;

pub(super) struct Ours(Timer);

impl Ours {
    /// Returns a timer with the default configuration.
    pub(super) fn new() -> Self {
        Self(Timer::new())
    }

    /// Returns a timer whose tasks run on the thread that waits for deadlines.
    pub(super) fn inline() -> Self {
        Self(Timer::builder().inline().build().expect("the configuration is valid"))
    }

    /// Returns a timer on a hashed wheel.
    pub(super) fn hashed() -> Self {
        let builder = Timer::builder().wheel(WheelKind::Hashed { slots: SLOTS });
        Self(builder.build().expect("the configuration is valid"))
    }
}

impl Contender for Ours {
    type Context<'a> = ();
    type Handle = Timeout;
    type Resettable = Timeout;

    const LIVES_IN_HANDLE: bool = false;

    fn context(&self) {}

    fn schedule(&self, delay: Duration, task: Task) -> Timeout {
        self.0.after(delay, move || task.run()).expect("the timer runs and has no limit")
    }

    fn cancel(&self, timeout: &mut Timeout) -> bool {
        timeout.cancel()
    }

    fn schedule_resettable(&self, delay: Duration, task: Task) -> Timeout {
        self.schedule(delay, task)
    }

    fn reset(&self, timeout: &mut Timeout, delay: Duration) -> bool {
        timeout.reset(delay)
    }

    fn launch(&self, delay: Duration, task: Task) {
        self.schedule(delay, task);
    }
}

/// Our timer, used by key, without handles.
pub(super) struct Keyed(Timer);

impl Keyed {
    pub(super) fn new() -> Self {
        Self(Timer::new())
    }
}

impl Contender for Keyed {
    type Context<'a> = ();
    type Handle = Task;
    type Resettable = Task;

    const LIVES_IN_HANDLE: bool = false;

    fn context(&self) {}

    fn schedule(&self, delay: Duration, task: Task) -> Task {
        let timeout = self.0.key(task.index()).after(delay, move || task.run());
        timeout.expect("the timer runs and has no limit");
        task
    }

    fn cancel(&self, task: &mut Task) -> bool {
        self.0.cancel(task.index())
    }

    fn schedule_resettable(&self, delay: Duration, task: Task) -> Task {
        self.schedule(delay, task)
    }

    /// Schedules the same key again, which replaces the task.
    fn reset(&self, task: &mut Task, delay: Duration) -> bool {
        self.schedule(delay, *task);
        true
    }

    fn launch(&self, delay: Duration, task: Task) {
        self.schedule(delay, task);
    }
}
