//! The places where tasks can run.

use core::fmt;
use std::sync::Arc;

use crate::timer::core::shard::Shard;
use crate::timer::core::state::Fire;
use crate::timer::execution::panics;

/// The place where a timer runs its tasks.
#[derive(Clone)]
pub(crate) enum Executor {
    /// On threads of the timer, up to this many.
    Workers(usize),
    /// On the leader, the timer's only thread.
    Inline,
    /// Wherever this function runs them.
    Custom(Arc<dyn Fn(Task) + Send + Sync>),
    /// On the thread that calls `turn` or advances the manual clock.
    Caller,
}

/// A due task, passed to a custom executor: [`run`](Self::run) it on any thread.
///
/// Dropping it without running rejects the task. That is logged and counted, and the timer continues.
///
/// The task has left the timer and can no longer be cancelled. [`drain`](crate::timer::Timer::drain)
/// waits for it; `stop` waits for it only if it is running. It can still be run after the timer was
/// stopped.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickwheel::{Task, Timer};
///
/// let (sender, receiver) = mpsc::channel::<Task>();
/// let timer = Timer::builder().executor(move |task| drop(sender.send(task))).build()?;
/// timer.after(Duration::from_millis(1), || println!("on the main thread"))?;
/// receiver.recv()?.run();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Task {
    shard: Arc<Shard>,
    fire: Option<Fire>,
}

impl Task {
    pub(crate) fn new(shard: Arc<Shard>, fire: Fire) -> Self {
        Self { shard, fire: Some(fire) }
    }

    /// Runs the task on the calling thread. A panic is caught, counted and logged.
    pub fn run(mut self) {
        if let Some(fire) = self.fire.take() {
            let _inside = panics::enter(&self.shard.driver);
            self.shard.lock().leave_queue();
            drop(self.shard.execute(fire));
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(fire) = self.fire.take() {
            let _inside = panics::enter(&self.shard.driver);
            self.shard.rejected(fire);
        }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}
