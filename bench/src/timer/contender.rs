//! The operations that a timer in Rust needs.

use std::time::Duration;

use crate::lateness::Task;

pub(super) trait Contender: Sync {
    /// A guard that a thread holds while it schedules.
    type Context<'a>
    where
        Self: 'a;
    /// Cancels a pending timer.
    type Handle: Send;
    /// Resets a pending timer.
    type Resettable;

    /// Whether dropping the handle cancels the timer.
    const LIVES_IN_HANDLE: bool;

    fn context(&self) -> Self::Context<'_>;

    /// Schedules a task that is cancelled before it fires.
    fn schedule(&self, delay: Duration, task: Task) -> Self::Handle;

    /// Cancels a pending task; returns `false` if it was not pending.
    fn cancel(&self, handle: &mut Self::Handle) -> bool;

    /// Schedules a task that is reset before it fires.
    fn schedule_resettable(&self, delay: Duration, task: Task) -> Self::Resettable;

    /// Sets a new delay from now; returns `false` if the task was not pending.
    fn reset(&self, handle: &mut Self::Resettable, delay: Duration) -> bool;

    /// Schedules a task that fires, without a handle.
    fn launch(&self, delay: Duration, task: Task);
}
