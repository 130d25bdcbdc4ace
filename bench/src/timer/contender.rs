//! What a timer of this process has to offer to take part.

use std::time::Duration;

use crate::lateness::Task;

pub(super) trait Contender: Sync {
    /// What a thread that schedules has to hold.
    type Context<'a>
    where
        Self: 'a;
    /// What a pending timer is cancelled with.
    type Handle: Send;
    /// What a pending timer is reset with.
    type Resettable;

    /// Whether a pending timer is in its handle, and gone with it.
    const LIVES_IN_HANDLE: bool;

    fn context(&self) -> Self::Context<'_>;

    /// Schedules a task that does not fire before it is cancelled.
    fn schedule(&self, delay: Duration, task: Task) -> Self::Handle;

    /// Cancels a pending task; `false` if the timer says that it was not pending.
    fn cancel(&self, handle: &mut Self::Handle) -> bool;

    /// Schedules a task that does not fire before it is reset.
    fn schedule_resettable(&self, delay: Duration, task: Task) -> Self::Resettable;

    /// Sets a new delay from now; `false` if the timer says that the task was not pending.
    fn reset(&self, handle: &mut Self::Resettable, delay: Duration) -> bool;

    /// Schedules a task that fires, and of which nobody keeps a handle.
    fn launch(&self, delay: Duration, task: Task);
}
