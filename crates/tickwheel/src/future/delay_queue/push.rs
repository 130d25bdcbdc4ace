//! Adding items to a queue: at once or when there is room, with a key or without.

use core::fmt;
use core::task::{Poll, Waker};
use std::future::{Future, poll_fn};

use super::state::{Now, State};
use super::waiters::Ticket;
use super::{DelayQueue, Inner, ItemKey};
use crate::Key;
use crate::future::Deadline;
use crate::future::block_on::block_on;

/// The reason why an item was refused, with the item.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{DelayQueue, PushError, Timer};
///
/// let queue = DelayQueue::bounded(&Timer::new(), 1);
/// queue.push("tea", Duration::from_secs(180))?;
/// let error = queue.push("toast", Duration::from_secs(120)).unwrap_err();
/// assert_eq!(error.into_value(), "toast");
/// # Ok::<(), PushError<&str>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError<T> {
    /// The queue is full. Wait for room with [`push_wait`](DelayQueue::push_wait), or create the
    /// queue with a higher limit.
    Full {
        /// The item.
        value: T,
        /// The queue's capacity.
        limit: usize,
    },
    /// The queue is closed and accepts no items.
    Closed {
        /// The item.
        value: T,
    },
}

impl<T> PushError<T> {
    /// Returns the item.
    pub fn into_value(self) -> T {
        match self {
            Self::Full { value, .. } | Self::Closed { value } => value,
        }
    }
}

impl<T> fmt::Display for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { limit, .. } => write!(
                f,
                "the queue is full (limit: {limit}): wait with `push_wait`, or raise the capacity"
            ),
            Self::Closed { .. } => f.write_str("the queue is closed and accepts no items"),
        }
    }
}

impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { limit, .. } => {
                f.debug_struct("Full").field("limit", limit).finish_non_exhaustive()
            }
            Self::Closed { .. } => f.debug_struct("Closed").finish_non_exhaustive(),
        }
    }
}

impl<T> core::error::Error for PushError<T> {}

impl<T> DelayQueue<T> {
    /// Adds an item that is due after a delay or at an instant. [`Duration::MAX`] is never.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// queue.push("in three minutes", Duration::from_secs(180))?;
    /// queue.push("the same", Instant::now() + Duration::from_secs(180))?;
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the queue is full or closed. The error holds the item.
    ///
    /// [`Duration::MAX`]: core::time::Duration::MAX
    pub fn push(&self, value: T, deadline: impl Into<Deadline>) -> Result<ItemKey, PushError<T>> {
        let entry = self.entry(value, None, deadline.into());
        self.inner.push(entry).map(|pushed| pushed.key)
    }

    /// As [`push`](Self::push), but waits for room. A delay counts from the call, not from when
    /// there is room. Dropping the future drops the item if it is not in the queue yet.
    ///
    /// Waiting producers are woken in order of arrival. A push that finds room takes it, even if a
    /// producer was woken for it and has not been polled yet; that producer keeps its place.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::bounded(&Timer::new(), 1);
    /// queue.push("tea", Duration::from_millis(2))?;
    /// let pushed = queue.push_wait("toast", Duration::from_millis(1));
    /// futures::executor::block_on(async {
    ///     let (tea, toast) = futures::join!(queue.pop(), pushed);
    ///     assert_eq!(tea, Some("tea"));
    ///     assert!(toast.is_ok());
    /// });
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the queue is closed. The error holds the item.
    pub fn push_wait(
        &self,
        value: T,
        deadline: impl Into<Deadline>,
    ) -> impl Future<Output = Result<ItemKey, PushError<T>>> {
        let entry = self.entry(value, None, deadline.into());
        async { self.inner.push_wait(entry).await.map(|pushed| pushed.key) }
    }

    /// As [`push_wait`](Self::push_wait), but blocks the thread until there is room.
    ///
    /// ```
    /// use std::thread;
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::bounded(&Timer::new(), 1);
    /// queue.push("tea", Duration::from_millis(2))?;
    /// thread::scope(|scope| {
    ///     scope.spawn(|| assert_eq!(queue.pop_blocking(), Some("tea")));
    ///     assert!(queue.push_blocking("toast", Duration::from_millis(1)).is_ok());
    /// });
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the queue is closed. The error holds the item.
    pub fn push_blocking(
        &self,
        value: T,
        deadline: impl Into<Deadline>,
    ) -> Result<ItemKey, PushError<T>> {
        block_on(self.push_wait(value, deadline))
    }

    /// Selects the item with a key. The queue holds at most one item per key, the last one pushed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// queue.key("order-42").push("close it", Duration::from_secs(1800))?;
    /// assert_eq!(queue.key("order-42").remove(), Some("close it")); // paid
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    pub fn key(&self, key: impl Into<Key>) -> KeyedItem<'_, T> {
        KeyedItem { queue: self, key: key.into() }
    }

    fn entry(&self, value: T, key: Option<Key>, deadline: Deadline) -> Entry<T> {
        Entry { tick: Now(&self.inner.timer).tick_of(deadline), value, key }
    }
}

/// The item with a certain key, if there is one; returned by [`DelayQueue::key`].
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{DelayQueue, ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let queue = DelayQueue::new(&Timer::builder().clock(clock.clone()).build()?);
/// queue.key(7).push("first", Duration::from_secs(10))?;
/// assert_eq!(queue.key(7).push("second", Duration::from_secs(20))?, Some("first"));
/// clock.advance(Duration::from_secs(20));
/// assert_eq!(queue.try_pop(), Some("second"));
/// assert_eq!(queue.try_pop(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a key alone pushes nothing"]
pub struct KeyedItem<'a, T> {
    queue: &'a DelayQueue<T>,
    key: Key,
}

impl<T> KeyedItem<'_, T> {
    /// As [`DelayQueue::push`], but replaces the item with this key and returns it. A replacement
    /// succeeds even if the queue is full.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// assert_eq!(queue.key("tea").push("green", Duration::from_secs(120))?, None);
    /// assert_eq!(queue.key("tea").push("black", Duration::from_secs(180))?, Some("green"));
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`DelayQueue::push`].
    pub fn push(self, value: T, deadline: impl Into<Deadline>) -> Result<Option<T>, PushError<T>> {
        let entry = self.queue.entry(value, Some(self.key), deadline.into());
        self.queue.inner.push(entry).map(|pushed| pushed.replaced)
    }

    /// As [`DelayQueue::push_wait`], but replaces the item with this key and returns it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// let pushed = queue.key("tea").push_wait("green", Duration::from_secs(120));
    /// assert_eq!(futures::executor::block_on(pushed)?, None);
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`DelayQueue::push_wait`].
    pub fn push_wait(
        self,
        value: T,
        deadline: impl Into<Deadline>,
    ) -> impl Future<Output = Result<Option<T>, PushError<T>>> {
        let entry = self.queue.entry(value, Some(self.key), deadline.into());
        async { self.queue.inner.push_wait(entry).await.map(|pushed| pushed.replaced) }
    }

    /// As [`push_wait`](Self::push_wait), but blocks the thread.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// assert_eq!(queue.key("tea").push_blocking("green", Duration::from_secs(120))?, None);
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`DelayQueue::push_blocking`].
    pub fn push_blocking(
        self,
        value: T,
        deadline: impl Into<Deadline>,
    ) -> Result<Option<T>, PushError<T>> {
        block_on(self.push_wait(value, deadline))
    }

    /// Takes the item out, due or not; returns `None` if no item has this key.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// queue.key("tea").push("green", Duration::from_secs(120))?;
    /// assert_eq!(queue.key("tea").remove(), Some("green"));
    /// assert_eq!(queue.key("tea").remove(), None);
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    pub fn remove(self) -> Option<T> {
        self.queue.inner.with(|state, _| state.remove_by_key(&self.key))
    }

    /// Moves the item's deadline, earlier or later; returns `false` if no item has this key.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue = DelayQueue::new(&Timer::new());
    /// queue.key("tea").push("green", Duration::from_secs(120))?;
    /// assert!(queue.key("tea").reset(Duration::from_secs(60)));
    /// assert!(!queue.key("toast").reset(Duration::from_secs(60)));
    /// # Ok::<(), tickwheel::PushError<&str>>(())
    /// ```
    pub fn reset(self, deadline: impl Into<Deadline>) -> bool {
        let tick = Now(&self.queue.inner.timer).tick_of(deadline.into());
        self.queue
            .inner
            .with(|state, _| state.find(&self.key).is_some_and(|key| state.reset(key, tick)))
    }
}

/// An item that is being pushed.
struct Entry<T> {
    tick: u64,
    value: T,
    key: Option<Key>,
}

struct Pushed<T> {
    key: ItemKey,
    replaced: Option<T>,
}

impl<T> State<T> {
    fn try_push(&mut self, entry: Entry<T>) -> Result<Pushed<T>, (Entry<T>, Refusal)> {
        if self.closed {
            return Err((entry, Refusal::Closed));
        }
        if !self.has_room_for(entry.key.as_ref()) {
            return Err((entry, Refusal::Full));
        }
        let (key, replaced) = self.push(entry.tick, entry.value, entry.key);
        Ok(Pushed { key: ItemKey(key), replaced })
    }
}

enum Refusal {
    Full,
    Closed,
}

impl<T> Inner<T> {
    fn push(&self, entry: Entry<T>) -> Result<Pushed<T>, PushError<T>> {
        self.with(|state, _| {
            state.try_push(entry).map_err(|(Entry { value, .. }, refusal)| match refusal {
                Refusal::Full => PushError::Full { value, limit: state.capacity() },
                Refusal::Closed => PushError::Closed { value },
            })
        })
    }

    async fn push_wait(&self, entry: Entry<T>) -> Result<Pushed<T>, PushError<T>> {
        let mut producer = Producer { inner: self, entry: Some(entry), ticket: None };
        poll_fn(|cx| producer.poll(cx.waker())).await
    }
}

/// A producer that may wait. It stops waiting when it is dropped.
struct Producer<'a, T> {
    inner: &'a Inner<T>,
    /// `None` after it was pushed.
    entry: Option<Entry<T>>,
    ticket: Option<Ticket>,
}

impl<T> Producer<'_, T> {
    fn poll(&mut self, waker: &Waker) -> Poll<Result<Pushed<T>, PushError<T>>> {
        let mut cloned = None;
        loop {
            let entry = self.entry.take().expect("an item is pushed once");
            let mut state = self.inner.lock();
            let pushed = match state.try_push(entry) {
                Ok(pushed) => Ok(pushed),
                Err((entry, Refusal::Closed)) => Err(PushError::Closed { value: entry.value }),
                Err((entry, Refusal::Full)) => {
                    self.entry = Some(entry);
                    if !state.producers.waits_with(self.ticket.as_ref(), waker) {
                        let Some(waker) = cloned.take() else {
                            drop(state);
                            cloned = Some(waker.clone());
                            continue;
                        };
                        let _replaced = state.producers.wait(&mut self.ticket, waker);
                        let _ = self.inner.release(state);
                    }
                    return Poll::Pending;
                }
            };
            let _left = state.producers.leave(&mut self.ticket);
            let _ = self.inner.release(state);
            return Poll::Ready(pushed);
        }
    }
}

impl<T> Drop for Producer<'_, T> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            let ticket = &mut self.ticket;
            let _left = self.inner.with(|state, _| state.producers.leave(ticket));
        }
    }
}
