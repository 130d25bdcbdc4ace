//! Permits, the future that waits for one, and the moment at which a start really begins.
//!
//! A start is released under the pacer's lock but begins without it: the operating system may hold
//! up the thread between the two for any length of time. The window counts when it begins. So the
//! thread that begins it stores the time in the [`Start`], as the last thing before the work and
//! without a lock; the pacer reads it when it next needs to know.

use core::fmt;
use core::future::Future;
use core::mem;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::engine::{AnyEngine, Engine};
use super::lanes::TaskId;
use super::{PaceError, PaceKey};
use crate::timer::Nanos;

/// The right to do one thing, which counted as a start when the permit was given.
///
/// If the pacer limits how many tasks run at once, a permit takes one of these places until it is
/// dropped. So keep it while the work lasts.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::pace::Pacer;
///
/// let timer = Timer::new();
/// let pacer = Pacer::builder(&timer, 100, Duration::from_secs(1)).max_running(1).build()?;
/// let permit = pacer.try_acquire()?;
/// assert!(pacer.try_acquire().is_err()); // the only place is taken
/// drop(permit);
/// assert!(pacer.try_acquire().is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a permit that is not held is given back at once"]
pub struct Permit {
    place: Place,
}

/// The place that a permit takes.
enum Place {
    /// None: the pacer does not limit how many run, and the permit was given at once.
    Free,
    /// A place in a lane.
    Lane(Arc<dyn AnyEngine>, u32),
    /// The place of a submission.
    Task(Arc<dyn AnyEngine>, TaskId),
}

impl Permit {
    pub(super) fn free() -> Self {
        Self { place: Place::Free }
    }

    pub(super) fn in_lane(engine: Arc<dyn AnyEngine>, lane: u32) -> Self {
        Self { place: Place::Lane(engine, lane) }
    }

    pub(super) fn of_task(engine: Arc<dyn AnyEngine>, task: TaskId) -> Self {
        Self { place: Place::Task(engine, task) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        match mem::replace(&mut self.place, Place::Free) {
            Place::Free => {}
            Place::Lane(engine, lane) => engine.end_permit_in_lane(lane),
            Place::Task(engine, task) => engine.end_permit_of_task(task),
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

/// A future that waits for a permit: made by [`Pacer::acquire`](super::Pacer::acquire).
///
/// It joins the queue when it is first polled, beside the submitted tasks, and counts as a
/// start when it is ready. Dropping it gives up its place. That also holds if it was woken but
/// not polled again: nothing has started, so the start is not counted and goes to the next in
/// the queue.
///
/// It is [`Unpin`], and runs on any runtime.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::pace::{PaceError, Pacer};
///
/// async fn call(pacer: &Pacer) -> Result<(), PaceError> {
///     let _permit = pacer.acquire().await?;
///     // ... call the partner; the permit takes a place until here
///     Ok(())
/// }
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct Acquire<K: PaceKey = ()> {
    engine: Arc<Engine<K>>,
    priority: i8,
    state: AcquireState<K>,
}

enum AcquireState<K> {
    New(K),
    Queued(TaskId, Arc<Start>),
    Done,
}

/// The outcome of the first poll.
pub(super) enum Acquired {
    Permit(Permit),
    Queued(TaskId, Arc<Start>),
}

impl<K: PaceKey> Acquire<K> {
    pub(super) fn new(engine: Arc<Engine<K>>, key: K, priority: i8) -> Self {
        Self { engine, priority, state: AcquireState::New(key) }
    }
}

// Nothing in it is ever pinned.
impl<K: PaceKey> Unpin for Acquire<K> {}

impl<K: PaceKey> Future for Acquire<K> {
    type Output = Result<Permit, PaceError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (task, start) = match mem::replace(&mut self.state, AcquireState::Done) {
            AcquireState::New(key) => {
                match self.engine.acquire(key, self.priority, cx.waker().clone())? {
                    Acquired::Permit(permit) => return Poll::Ready(Ok(permit)),
                    Acquired::Queued(task, start) => (task, start),
                }
            }
            AcquireState::Queued(task, start) => {
                match start.poll(cx.waker(), || self.engine.host.now()) {
                    Polled::Begun => {
                        let engine: Arc<dyn AnyEngine> = Arc::clone(&self.engine) as _;
                        return Poll::Ready(Ok(Permit::of_task(engine, task)));
                    }
                    Polled::Refused => {
                        // It may have been released before the pacer was stopped: that was
                        // no start.
                        self.engine.abandon(task);
                        return Poll::Ready(Err(PaceError::Stopped));
                    }
                    Polled::Waiting => (task, start),
                }
            }
            AcquireState::Done => panic!("`Acquire` polled after it was ready"),
        };
        self.state = AcquireState::Queued(task, start);
        Poll::Pending
    }
}

impl<K: PaceKey> Drop for Acquire<K> {
    fn drop(&mut self) {
        if let AcquireState::Queued(task, _) = &self.state {
            self.engine.abandon(*task);
        }
    }
}

impl<K: PaceKey> fmt::Debug for Acquire<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queued = matches!(self.state, AcquireState::Queued(..));
        f.debug_struct("Acquire").field("queued", &queued).finish_non_exhaustive()
    }
}

/// The greatest time that a start can have. Greater values are states.
const LATEST: u64 = u64::MAX - 3;
/// The pacer was stopped, so the start will never begin.
const REFUSED: u64 = u64::MAX - 2;
/// Released, and not begun.
const OPEN: u64 = u64::MAX - 1;
/// Queued.
const WAITING: u64 = u64::MAX;

/// What a future finds when it polls its start.
enum Polled {
    Waiting,
    Begun,
    Refused,
}

/// A start: whether it was released, and when it really began.
pub(super) struct Start {
    /// The time at which it began, or a state.
    began: AtomicU64,
    /// The future to wake when the start is released.
    waker: Mutex<Option<Waker>>,
}

impl Start {
    fn with(state: u64) -> Self {
        Self { began: AtomicU64::new(state), waker: Mutex::new(None) }
    }

    /// Returns a start that is already released.
    pub(super) fn open() -> Self {
        Self::with(OPEN)
    }

    /// Makes this the next start of the same thread.
    #[inline]
    pub(super) fn open_again(&self) {
        self.began.store(OPEN, Ordering::Release);
    }

    /// Notes that it begins.
    #[inline]
    pub(super) fn begin(&self, now: Nanos) {
        self.began.store(now.min(LATEST), Ordering::Release);
    }

    /// Returns when it began, if it has.
    #[inline]
    pub(super) fn time(&self) -> Option<Nanos> {
        let began = self.began.load(Ordering::Acquire);
        (began <= LATEST).then_some(began)
    }

    /// Returns a start that a future waits for.
    pub(super) fn awaited(waker: Waker) -> Self {
        Self { waker: Mutex::new(Some(waker)), ..Self::with(WAITING) }
    }

    /// Releases it. The future must be [woken](Self::wake), without a lock.
    pub(super) fn release(&self) {
        self.began.store(OPEN, Ordering::Release);
    }

    /// Refuses it, unless it has begun. The future must be [woken](Self::wake), without a
    /// lock.
    pub(super) fn refuse(&self) {
        let refuse = |began: u64| (began > LATEST).then_some(REFUSED);
        let _ = self.began.fetch_update(Ordering::AcqRel, Ordering::Acquire, refuse);
    }

    pub(super) fn wake(&self) {
        let waker = self.lock_waker().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock_waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins it if it was released; else has `waker` woken when that happens.
    fn poll(&self, waker: &Waker, now: impl Fn() -> Nanos) -> Polled {
        if let Some(polled) = self.try_begin(&now) {
            return polled;
        }
        if !self.lock_waker().as_ref().is_some_and(|known| known.will_wake(waker)) {
            // Cloned and dropped without the lock: a waker is the caller's code.
            let new = waker.clone();
            let old = self.lock_waker().replace(new);
            drop(old);
        }
        // A release in the meantime may have taken the old waker, or none.
        self.try_begin(now).unwrap_or(Polled::Waiting)
    }

    fn try_begin(&self, now: impl Fn() -> Nanos) -> Option<Polled> {
        let state = self.began.load(Ordering::Acquire);
        if state == WAITING {
            return None;
        }
        // The waker is not needed any more. Without it the start holds nothing of the caller's
        // and may be dropped under a lock.
        let waker = self.lock_waker().take();
        drop(waker);
        if state == REFUSED {
            return Some(Polled::Refused);
        }
        let time = now().min(LATEST);
        let begun = self.began.compare_exchange(OPEN, time, Ordering::AcqRel, Ordering::Acquire);
        Some(if begun.is_ok() { Polled::Begun } else { Polled::Refused })
    }
}
