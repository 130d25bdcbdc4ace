//! A queue whose items come out when they are due.
//!
//! Items wait in a wheel of the queue's own, which knows ticks and no clock. A consumer reads the
//! timer's clock to learn what is due. The timer itself is needed only while a consumer waits: it
//! rings the *alarm* at the first deadline, and the alarm wakes one consumer. A consumer that takes
//! an item wakes the next one if more is due. So an item wakes one consumer, not all, and a queue
//! without waiting consumers costs the timer nothing.
//!
//! * `state.rs`: the state that the lock protects
//! * `waiters.rs`: consumers and producers that wait, in order of arrival
//! * `push.rs`: adding items, at once or when there is room
//! * `items.rs`: the queue as a stream
//!
//! Ground rules:
//! * Each queue has one lock. Wakers and items are cloned, woken and dropped without it.
//! * Every call releases the lock through [`Inner::release`], which wakes the waiters that can
//!   proceed.
//! * A future that stops waiting, ready or dropped, does the same. So a wake-up that it received
//!   and did not use goes to the next waiter.

mod items;
mod push;
mod state;
mod waiters;

use core::fmt;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError, Weak};
use std::task::Wake;
use std::thread;
use std::time::Instant;
use std::vec::Vec;

#[cfg(feature = "stream")]
pub use items::Items;
pub use push::{KeyedItem, PushError};

use super::Deadline;
use super::block_on::block_on;
use crate::timer::{Mutex, MutexGuard};
use crate::wheel::{self, Advance};
use crate::{ScheduleError, Timer, default_timer};
use state::{Next, Now, State};
use waiters::Ticket;

/// A queue whose items come out when they are due, in order of deadline, for any number of
/// producers and consumers, async and blocking ones alike.
///
/// Each item goes to exactly one consumer: it is popped once, or removed, or handed back by
/// [`close`](Self::close). No item comes out before its deadline, and none more than a tick of the
/// queue's timer after it while a consumer waits. Items of the same tick come out in the order in which
/// they were pushed, as long as none of them was reset or removed.
///
/// Clones are the same queue. Its time is that of the timer it was made with, so a
/// [`ManualClock`](crate::ManualClock) drives it in tests. The queue continues to work when that
/// timer is stopped.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{DelayQueue, ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let queue = DelayQueue::new(&Timer::builder().clock(clock.clone()).build()?);
/// queue.push("tea", Duration::from_secs(180))?;
/// queue.push("toast", Duration::from_secs(120))?;
///
/// clock.advance(Duration::from_secs(120));
/// futures::executor::block_on(async {
///     assert_eq!(queue.pop().await, Some("toast"));
/// });
/// assert_eq!(queue.try_pop(), None);
/// assert_eq!(queue.close(), ["tea"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DelayQueue<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    timer: Timer,
    state: Mutex<State<T>>,
    /// The waker of the alarm.
    alarm: Waker,
}

/// Wakes a consumer when the first item is due.
struct Alarm<T>(Weak<Inner<T>>);

impl<T: Send + 'static> Wake for Alarm<T> {
    fn wake(self: Arc<Self>) {
        if let Some(queue) = self.0.upgrade() {
            let mut state = queue.lock();
            state.rung();
            let _ = queue.release(state);
        }
    }
}

/// The identity of one item in one queue, returned by [`DelayQueue::push`]. It becomes *stale* when
/// the item is popped or removed: every method then returns `None` or `false`.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{DelayQueue, ItemKey, Timer};
///
/// let queue = DelayQueue::new(&Timer::new());
/// let key: ItemKey = queue.push("tea", Duration::from_secs(180))?;
/// assert_eq!(queue.remove(key), Some("tea"));
/// assert_eq!(queue.remove(key), None);
/// # Ok::<(), tickwheel::PushError<&str>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ItemKey(wheel::Key);

impl<T: Send + 'static> DelayQueue<T> {
    /// Creates an empty queue without a limit, on the clock of a timer.
    pub fn new(timer: &Timer) -> Self {
        Self::with_capacity(timer, usize::MAX)
    }

    /// Creates an empty queue that holds at most `capacity` items. When it is full,
    /// [`push`](Self::push) returns an error, and [`push_wait`](Self::push_wait) waits.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, PushError, Timer};
    ///
    /// let queue = DelayQueue::bounded(&Timer::new(), 1);
    /// queue.push("tea", Duration::from_secs(180))?;
    /// let refused = queue.push("toast", Duration::from_secs(120));
    /// assert_eq!(refused, Err(PushError::Full { value: "toast", limit: 1 }));
    /// # Ok::<(), PushError<&str>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the capacity is zero.
    #[track_caller]
    pub fn bounded(timer: &Timer, capacity: usize) -> Self {
        assert!(capacity > 0, "capacity must be at least 1, got 0");
        Self::with_capacity(timer, capacity)
    }

    fn with_capacity(timer: &Timer, capacity: usize) -> Self {
        let inner = Arc::new_cyclic(|inner: &Weak<Inner<T>>| Inner {
            timer: timer.clone(),
            state: Mutex::new(State::new(timer, capacity)),
            alarm: Waker::from(Arc::new(Alarm(inner.clone()))),
        });
        Self { inner }
    }
}

impl<T> DelayQueue<T> {
    /// Waits until an item is due and takes it; returns `None` once the queue is closed.
    ///
    /// Waiting consumers are woken in order of arrival, one per item. Dropping the future before it
    /// is ready loses nothing: a wake-up that it received goes to another consumer. A future that
    /// is kept but not polled again keeps its wake-up too, and the other consumers wait for it. So
    /// in a `select`, create it anew each time or keep polling it.
    ///
    /// Polling it panics if the timer's thread could not be started, because nothing would wake
    /// the future.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// # futures::executor::block_on(async {
    /// let queue = DelayQueue::new(&Timer::new());
    /// queue.push("soon", Duration::from_millis(2))?;
    /// assert_eq!(queue.pop().await, Some("soon"));
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// # });
    /// ```
    pub async fn pop(&self) -> Option<T> {
        let mut consumer = Consumer { inner: &self.inner, ticket: None };
        poll_fn(|cx| consumer.inner.poll_pop(&mut consumer.ticket, cx.waker())).await
    }

    /// Waits until an item is due and takes all that are, up to `max`. Returns an empty vector once
    /// the queue is closed, or if `max` is 0.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// # futures::executor::block_on(async {
    /// let queue = DelayQueue::new(&Timer::new());
    /// for number in 1..=5 {
    ///     queue.push(number, Duration::ZERO)?;
    /// }
    /// assert_eq!(queue.pop_batch(3).await, [1, 2, 3]);
    /// assert_eq!(queue.pop_batch(3).await, [4, 5]);
    /// # Ok::<(), tickwheel::PushError<i32>>(())
    /// # });
    /// ```
    pub async fn pop_batch(&self, max: usize) -> Vec<T> {
        if max == 0 {
            return Vec::new();
        }
        let mut consumer = Consumer { inner: &self.inner, ticket: None };
        let batch = poll_fn(|cx| {
            consumer.inner.poll_take(&mut consumer.ticket, cx.waker(), |state, now| {
                Some(state.pop_batch(max, now)).filter(|batch| !batch.is_empty())
            })
        });
        batch.await.unwrap_or_default()
    }

    /// Takes the first item if it is due.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// queue.push("now", Duration::ZERO)?;
    /// queue.push("later", Duration::from_secs(60))?;
    /// assert_eq!(queue.try_pop(), Some("now"));
    /// assert_eq!(queue.try_pop(), None);
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    pub fn try_pop(&self) -> Option<T> {
        self.inner.take(State::pop)
    }

    /// Takes all items that are due, up to `max`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// for number in 1..=5 {
    ///     queue.push(number, Duration::ZERO)?;
    /// }
    /// assert_eq!(queue.try_pop_batch(3), [1, 2, 3]);
    /// assert_eq!(queue.try_pop_batch(3), [4, 5]);
    /// assert!(queue.try_pop_batch(3).is_empty());
    /// # Ok::<(), tickwheel::PushError<i32>>(())
    /// ```
    pub fn try_pop_batch(&self, max: usize) -> Vec<T> {
        self.inner.take(|state, now| state.pop_batch(max, now))
    }

    /// Blocks the thread until an item is due and takes it, as [`pop`](Self::pop) does. If the timer
    /// is caller-driven, another thread has to drive it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// queue.push("soon", Duration::from_millis(2))?;
    /// assert_eq!(queue.pop_blocking(), Some("soon"));
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    pub fn pop_blocking(&self) -> Option<T> {
        self.try_pop().or_else(|| block_on(self.pop()))
    }

    /// As [`pop_blocking`](Self::pop_blocking), but returns `None` after `limit`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// queue.push("later", Duration::from_secs(60))?;
    /// assert_eq!(queue.pop_timeout(Duration::from_millis(2)), None);
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    pub fn pop_timeout(&self, limit: Duration) -> Option<T> {
        let popped = || block_on(self.inner.timer.timeout(limit, self.pop())).ok().flatten();
        self.try_pop().or_else(popped)
    }

    /// Takes an item out, due or not; returns `None` if its key is stale.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// let key = queue.push("tea", Duration::from_secs(180))?;
    /// assert_eq!(queue.remove(key), Some("tea"));
    /// assert_eq!(queue.remove(key), None);
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    pub fn remove(&self, key: ItemKey) -> Option<T> {
        self.inner.with(|state, _| state.remove(key.0))
    }

    /// Moves an item's deadline, earlier or later; returns `false` if its key is stale.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// let key = queue.push("tea", Duration::from_secs(180))?;
    /// assert!(queue.reset(key, Duration::from_secs(240)));
    /// assert!(queue.reset(key, Instant::now()));
    /// assert_eq!(queue.pop_blocking(), Some("tea"));
    /// assert!(!queue.reset(key, Duration::from_secs(60)));
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    pub fn reset(&self, key: ItemKey, deadline: impl Into<Deadline>) -> bool {
        let tick = Now(&self.inner.timer).tick_of(deadline.into());
        self.inner.with(|state, _| state.reset(key.0, tick))
    }

    /// Returns when an item is due, rounded up to a tick; `None` if its key is stale or it is never
    /// due.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let queue = DelayQueue::new(&Timer::builder().clock(clock.clone()).build()?);
    /// let tea = queue.push("tea", Duration::from_secs(180))?;
    /// let never = queue.push("never", Duration::MAX)?;
    /// assert_eq!(queue.deadline(tea), Some(clock.now() + Duration::from_secs(180)));
    /// assert_eq!(queue.deadline(never), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(&self, key: ItemKey) -> Option<Instant> {
        let tick = self.inner.lock().deadline(key.0)?;
        self.inner.instant(tick)
    }

    /// Returns when the next item may be due. It may be early, never late; `None` if no item will be
    /// due.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// assert_eq!(queue.next_deadline(), None);
    /// queue.push("tea", Duration::from_secs(180))?;
    /// assert!(queue.next_deadline().unwrap() <= Instant::now() + Duration::from_secs(181));
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    pub fn next_deadline(&self) -> Option<Instant> {
        let tick = self.inner.lock().next_wake()?;
        self.inner.instant(tick)
    }

    /// Returns the number of items, due or not.
    pub fn len(&self) -> usize {
        self.inner.lock().len()
    }

    /// Returns `true` if the queue holds no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many items the queue holds at most; `None` if there is no limit.
    pub fn capacity(&self) -> Option<usize> {
        Some(self.inner.lock().capacity()).filter(|&capacity| capacity < usize::MAX)
    }

    /// Closes the queue and returns its items, by deadline. From then on pushes fail, and pops
    /// return `None`, those that were waiting included. A second call returns an empty vector.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, PushError, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// queue.push("tea", Duration::from_secs(180))?;
    /// queue.push("toast", Duration::from_secs(120))?;
    /// assert_eq!(queue.close(), ["toast", "tea"]);
    /// assert_eq!(queue.pop_blocking(), None);
    /// let refused = queue.push("egg", Duration::from_secs(300));
    /// assert_eq!(refused, Err(PushError::Closed { value: "egg" }));
    /// # Ok::<(), PushError<&str>>(())
    /// ```
    pub fn close(&self) -> Vec<T> {
        self.inner.with(|state, _| state.close())
    }

    /// Returns `true` if the queue was closed.
    pub fn is_closed(&self) -> bool {
        self.inner.lock().closed
    }
}

impl<T> Clone for DelayQueue<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

/// A queue without a limit, on the process-wide timer.
impl<T: Send + 'static> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new(default_timer())
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl<T> Inner<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the lock and wakes the waiters that can proceed. An error means that no thread will
    /// ring the alarm; the timer has logged it, and the next call tries again.
    fn release<'a>(&'a self, mut state: MutexGuard<'a, State<T>>) -> Result<(), ScheduleError> {
        let now = Now(&self.timer);
        while let Some(next) = state.next_to_do(&now, &self.alarm) {
            drop(state);
            let started = match next {
                Next::Wake(waker) => {
                    self.timer.core().catch(|| waker.wake());
                    Ok(())
                }
                Next::Nudge(timer, nudge) => timer.core().nudge(nudge),
                Next::Yield => {
                    thread::yield_now();
                    Ok(())
                }
            };
            state = self.lock();
            if started.is_err() {
                state.unset_alarm();
                return started;
            }
        }
        Ok(())
    }

    fn with<R>(&self, change: impl FnOnce(&mut State<T>, &Now<'_>) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state, &Now(&self.timer));
        let _ = self.release(state);
        result
    }

    /// Advances the wheel to the current time. Returns the lock, and `true` if an item is due. Other
    /// threads can take the lock between two steps.
    fn lock_advanced(&self) -> (MutexGuard<'_, State<T>>, bool) {
        loop {
            let mut state = self.lock();
            match state.advance(&Now(&self.timer)) {
                Advance::Due => return (state, true),
                Advance::Idle => return (state, false),
                Advance::Unfinished => drop(state),
            }
            thread::yield_now();
        }
    }

    /// Takes due items, if there are any.
    fn take<R: Default>(&self, take: impl FnOnce(&mut State<T>, &Now<'_>) -> R) -> R {
        let (mut state, is_due) = self.lock_advanced();
        let taken = if is_due { take(&mut state, &Now(&self.timer)) } else { R::default() };
        let _ = self.release(state);
        taken
    }

    fn instant(&self, tick: u64) -> Option<Instant> {
        self.timer.core().clock().instant(Now(&self.timer).time_of(tick))
    }

    fn poll_pop(&self, ticket: &mut Option<Ticket>, waker: &Waker) -> Poll<Option<T>> {
        self.poll_take(ticket, waker, State::pop)
    }

    /// Takes due items, or waits for one. Ready with `None` if the queue is closed.
    fn poll_take<R>(
        &self,
        ticket: &mut Option<Ticket>,
        waker: &Waker,
        take: impl Fn(&mut State<T>, &Now<'_>) -> Option<R>,
    ) -> Poll<Option<R>> {
        let mut cloned = None;
        loop {
            let (mut state, is_due) = self.lock_advanced();
            let taken = if is_due { take(&mut state, &Now(&self.timer)) } else { None };
            if taken.is_some() || state.closed {
                let _left = state.consumers.leave(ticket);
                let _ = self.release(state);
                return Poll::Ready(taken);
            }
            if !state.consumers.waits_with(ticket.as_ref(), waker) {
                let Some(waker) = cloned.take() else {
                    drop(state);
                    cloned = Some(waker.clone());
                    continue;
                };
                let _replaced = state.consumers.wait(ticket, waker);
                if let Err(error) = self.release(state) {
                    panic!("nothing can wake this future: {error}");
                }
            }
            return Poll::Pending;
        }
    }

    /// Removes a waiting consumer that is being dropped.
    fn give_up(&self, ticket: &mut Option<Ticket>) {
        if ticket.is_some() {
            let _left = self.with(|state, _| state.consumers.leave(ticket));
        }
    }
}

/// A consumer that may wait. It stops waiting when it is dropped.
struct Consumer<'a, T> {
    inner: &'a Inner<T>,
    ticket: Option<Ticket>,
}

impl<T> Drop for Consumer<'_, T> {
    fn drop(&mut self) {
        self.inner.give_up(&mut self.ticket);
    }
}
