//! Timer tasks that are futures, run by the caller's async runtime.
//!
//! A timer runs its tasks on threads of its own, which belong to no runtime: `tokio::spawn` panics
//! there. A [`Spawner`] holds the way into a runtime and makes ordinary tasks of futures, so they
//! work with every method that takes a task.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use std::boxed::Box;
use std::sync::{Arc, Mutex, PoisonError};

/// A future on its way to a runtime.
pub type SpawnedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Makes timer tasks of futures, and hands them to an async runtime when they are due.
///
/// The closure that it is made of starts a future in the background of a runtime. For tokio that is
/// `move |future| { handle.spawn(future); }`, and for smol `|future| smol::spawn(future).detach()`.
///
/// The tasks are like any others: pass them to [`after`](crate::Timer::after),
/// [`at`](crate::Timer::at), [`every`](crate::Timer::every), `cron`, [`key`](crate::Timer::key), the
/// process-wide timer or a pacer, and use the handles as usual. For the timer, a task has run once
/// its future is handed over. Cancelling it later changes nothing, [`drain`](crate::Timer::drain)
/// does not wait for it, and a panic in it is the runtime's to report.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Spawner, Timer};
/// # use std::sync::Arc;
/// # use tokio::sync::Notify;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tickwheel::ScheduleError> {
/// let timer = Timer::new();
/// let handle = tokio::runtime::Handle::current();
/// let on_tokio = Spawner::new(move |future| {
///     handle.spawn(future);
/// });
///
/// # let (closed, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
/// # let closing = closed.clone();
/// let order = 42;
/// timer.key(order).after(Duration::from_millis(5), on_tokio.once(async move {
///     tokio::task::yield_now().await; // ... ask the database ...
///     println!("order {order} is closed");
/// #   closing.notify_one();
/// }))?;
///
/// # let beat = done.clone();
/// timer.every(Duration::from_millis(5), on_tokio.repeat(move || {
/// #   let beat = beat.clone();
///     async move {
///         println!("still here");
/// #       beat.notify_one();
///     }
/// }))?;
/// # closed.notified().await;
/// # done.notified().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Spawner {
    spawn: Arc<dyn Fn(SpawnedFuture) + Send + Sync>,
}

impl Spawner {
    /// Makes a spawner of a closure that starts a future in the background and returns at once.
    /// The timer calls it on one of its own threads, once for each run.
    pub fn new(spawn: impl Fn(SpawnedFuture) + Send + Sync + 'static) -> Self {
        Self { spawn: Arc::new(spawn) }
    }

    /// Makes a task that runs a future once. If the task is cancelled, the future is dropped.
    pub fn once<R>(&self, future: R) -> impl FnOnce() + Send + 'static + use<R>
    where
        R: Future<Output = ()> + Send + 'static,
    {
        let spawn = Arc::clone(&self.spawn);
        move || spawn(Box::pin(future))
    }

    /// Makes a task that runs a new future each time it is due. `make` is called inside the runtime.
    ///
    /// Runs never overlap. A run that is due while the last one is in flight is skipped; then
    /// [`MissedTicks`](crate::MissedTicks) has no say, as the timer did start it in time. With
    /// [`every_after`](crate::Timer::every_after) the delay counts from when the last run was
    /// handed over, not from its end. A run ends when its future is ready, panics, or is dropped by
    /// the runtime.
    pub fn repeat<F, R>(&self, make: F) -> impl FnMut() + Send + 'static + use<F, R>
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let spawn = Arc::clone(&self.spawn);
        let home = Arc::new(Mutex::new(Some(make)));
        move || {
            let Some(mut run) = Run::begin(&home) else {
                tracing::debug!("a run is skipped: the one before it is still in flight");
                return;
            };
            spawn(Box::pin(async move { run.next_future().await }));
        }
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").finish_non_exhaustive()
    }
}

/// One run of a repeated task. It borrows the closure from its home, where no other run finds it
/// meanwhile, and returns it when it is dropped.
struct Run<F> {
    /// `Some` until the drop.
    make: Option<F>,
    home: Arc<Mutex<Option<F>>>,
}

impl<F> Run<F> {
    /// Begins a run, unless one is in flight.
    fn begin(home: &Arc<Mutex<Option<F>>>) -> Option<Self> {
        let make = home.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Self { make: Some(make), home: Arc::clone(home) })
    }
}

impl<F: FnMut() -> R, R> Run<F> {
    fn next_future(&mut self) -> R {
        let make = self.make.as_mut().expect("a run has the closure until it is dropped");
        make()
    }
}

impl<F> Drop for Run<F> {
    fn drop(&mut self) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = self.make.take();
    }
}
