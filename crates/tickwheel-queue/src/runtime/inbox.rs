//! The writer's inbox: a bounded queue of requests, filled by threads and by async tasks.
//!
//! Ground rules:
//! * The number of items and their bytes are bounded. A caller that finds the inbox full waits:
//!   that is the backpressure when the disk is slower than the callers.
//! * Items that the writer has taken count towards the bounds until it calls [`Inbox::hold`] with
//!   what it still holds. It calls `hold` after each `take`. So a writer that takes more than it
//!   can process makes no room for others.
//! * The writer states how many items it waits for, and only the push that completes that number
//!   wakes it: a group of 64 callers costs one wake-up.
//! * Wakers are called after the lock is released.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::model::time::instant_now;

pub(crate) struct Inbox<T> {
    state: Mutex<Contents<T>>,
    arrived: Condvar,
    max_items: usize,
    max_bytes: usize,
}

struct Contents<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    /// Items and bytes that the writer has taken and still holds.
    held: (usize, usize),
    closed: bool,
    pinged: bool,
    /// The number of items that wakes the sleeping writer; 0 while it is awake.
    wanted: usize,
    /// Wakers of callers that found the inbox full.
    blocked: Vec<Waker>,
}

/// The error of a push to a closed inbox.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed;

impl<T> Inbox<T> {
    pub(crate) fn new(max_items: usize, max_bytes: usize) -> Self {
        let state = Contents {
            items: VecDeque::new(),
            bytes: 0,
            held: (0, 0),
            closed: false,
            pinged: false,
            wanted: 0,
            blocked: Vec::new(),
        };
        Self { state: state.into(), arrived: Condvar::new(), max_items, max_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Contents<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pushes an item, or registers the waker if the inbox is full.
    pub(crate) fn poll_push(
        &self,
        item: &mut Option<T>,
        bytes: usize,
        waker: &Waker,
    ) -> Poll<Result<(), Closed>> {
        let mut state = self.lock();
        if state.closed {
            return Poll::Ready(Err(Closed));
        }
        let (held, held_bytes) = state.held;
        let waiting = state.items.len() + held;
        // An item that alone exceeds the bound is accepted when nothing else waits.
        let is_full = waiting >= self.max_items
            || (waiting > 0 && state.bytes + held_bytes + bytes > self.max_bytes);
        if is_full {
            if !state.blocked.iter().any(|other| other.will_wake(waker)) {
                state.blocked.push(waker.clone());
            }
            return Poll::Pending;
        }
        if let Some(item) = item.take() {
            self.push(state, item, bytes);
        }
        Poll::Ready(Ok(()))
    }

    /// Pushes an item even if the inbox is full. Returns `false` if it is closed.
    pub(crate) fn push_now(&self, item: T, bytes: usize) -> bool {
        let state = self.lock();
        if state.closed {
            return false;
        }
        self.push(state, item, bytes);
        true
    }

    fn push(&self, mut state: MutexGuard<'_, Contents<T>>, item: T, bytes: usize) {
        state.items.push_back((item, bytes));
        state.bytes += bytes;
        let wake = state.wanted > 0 && state.items.len() >= state.wanted;
        if wake {
            state.wanted = 0;
        }
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
    }

    /// Wakes the writer without an item.
    pub(crate) fn ping(&self) {
        let mut state = self.lock();
        state.pinged = true;
        state.wanted = 0;
        drop(state);
        self.arrived.notify_one();
    }

    /// Closes the inbox to new items. Items in it can still be taken.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.wanted = 0;
        let blocked = std::mem::take(&mut state.blocked);
        drop(state);
        self.arrived.notify_one();
        blocked.into_iter().for_each(Waker::wake);
    }

    /// Waits for an item, a ping, the close or the instant `until`. Then waits up to `patience` for
    /// `expected` items, and takes all items. Returns `false` if the inbox is closed and empty.
    pub(crate) fn take(
        &self,
        taken: &mut Vec<T>,
        until: Option<Instant>,
        expected: usize,
        patience: Duration,
    ) -> bool {
        let mut state = self.lock();
        while state.items.is_empty() && !state.pinged && !state.closed {
            let Some(next) = self.sleep(state, 1, until) else { return true };
            state = next;
        }
        if expected > 1 && !state.pinged && !patience.is_zero() {
            let until = Some(instant_now() + patience);
            // The inbox never holds more than `max_items`.
            let expected = expected.min(self.max_items);
            while state.items.len() < expected && !state.pinged && !state.closed {
                let Some(next) = self.sleep(state, expected, until) else {
                    state = self.lock();
                    break;
                };
                state = next;
            }
        }
        state.pinged = false;
        state.wanted = 0;
        state.held.0 += state.items.len();
        state.held.1 += std::mem::take(&mut state.bytes);
        taken.extend(state.items.drain(..).map(|(item, _)| item));
        !(state.closed && taken.is_empty())
    }

    /// Sets how many items, with how many bytes, the writer still holds of what it has taken.
    pub(crate) fn hold(&self, items: usize, bytes: usize) {
        let mut state = self.lock();
        state.held = (items, bytes);
        let blocked = std::mem::take(&mut state.blocked);
        drop(state);
        blocked.into_iter().for_each(Waker::wake);
    }

    /// Sleeps until there may be `wanted` items. Returns `None` once `until` has passed.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, Contents<T>>,
        wanted: usize,
        until: Option<Instant>,
    ) -> Option<MutexGuard<'a, Contents<T>>> {
        state.wanted = wanted;
        let Some(until) = until else {
            return Some(self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner));
        };
        let left = until.saturating_duration_since(instant_now());
        if left.is_zero() {
            state.wanted = 0;
            return None;
        }
        let (state, _) =
            self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_full_inbox_makes_callers_wait() {
        let inbox = Inbox::new(2, 100);
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        let push = |item| inbox.poll_push(&mut Some(item), 10, &waker);
        assert_eq!(push(1), Poll::Ready(Ok(())));
        assert_eq!(push(2), Poll::Ready(Ok(())));
        assert_eq!(push(3), Poll::Pending);
        let mut taken = Vec::new();
        assert!(inbox.take(&mut taken, None, 1, Duration::ZERO));
        assert_eq!((push(3), counter.0.load(Ordering::Relaxed)), (Poll::Pending, 0));
        inbox.hold(0, 0);
        assert_eq!((taken, counter.0.load(Ordering::Relaxed)), (vec![1, 2], 1));
        assert_eq!(push(3), Poll::Ready(Ok(())));
    }

    #[test]
    fn an_item_over_the_bound_is_accepted_alone() {
        let inbox = Inbox::new(9, 100);
        let push = |bytes| inbox.poll_push(&mut Some(()), bytes, Waker::noop());
        assert_eq!(push(1_000), Poll::Ready(Ok(())));
        assert_eq!(push(1), Poll::Pending);
        inbox.take(&mut Vec::new(), None, 1, Duration::ZERO);
        inbox.hold(0, 0);
        assert_eq!(push(60), Poll::Ready(Ok(())));
        assert_eq!(push(60), Poll::Pending);
    }

    #[test]
    fn items_that_the_writer_holds_leave_less_room() {
        let inbox = Inbox::new(3, 100);
        let push = |bytes| inbox.poll_push(&mut Some(()), bytes, Waker::noop());
        assert_eq!((push(40), push(40)), (Poll::Ready(Ok(())), Poll::Ready(Ok(()))));
        inbox.take(&mut Vec::new(), None, 1, Duration::ZERO);
        assert_eq!(push(40), Poll::Pending);
        inbox.hold(1, 40);
        assert_eq!((push(40), push(40)), (Poll::Ready(Ok(())), Poll::Pending));
        inbox.take(&mut Vec::new(), None, 1, Duration::ZERO);
        inbox.hold(2, 0);
        assert_eq!((push(1), push(1)), (Poll::Ready(Ok(())), Poll::Pending));
    }

    #[test]
    fn the_writer_waits_for_no_more_items_than_fit() {
        let inbox = Inbox::new(2, 100);
        let (took, taken) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut taken = Vec::new();
                inbox.take(&mut taken, None, 3, Duration::from_secs(60));
                took.send(taken).unwrap();
            });
            assert!(inbox.push_now(1, 1) && inbox.push_now(2, 1));
            assert_eq!(taken.recv_timeout(Duration::from_secs(30)), Ok(vec![1, 2]));
        });
    }

    #[test]
    fn items_of_a_closed_inbox_are_still_taken() {
        let inbox = Inbox::new(9, 100);
        assert!(inbox.push_now(1, 1));
        inbox.close();
        assert!(!inbox.push_now(2, 1));
        assert_eq!(inbox.poll_push(&mut Some(3), 1, Waker::noop()), Poll::Ready(Err(Closed)));
        let mut taken = Vec::new();
        assert!(inbox.take(&mut taken, None, 1, Duration::ZERO));
        assert_eq!(std::mem::take(&mut taken), [1]);
        assert!(!inbox.take(&mut taken, None, 1, Duration::ZERO));
    }

    #[test]
    fn every_item_of_many_threads_is_taken_once() {
        const THREADS: usize = 8;
        const ITEMS: usize = 2_000;
        let inbox = Inbox::new(16, usize::MAX);
        let mut taken = Vec::new();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let inbox = &inbox;
                scope.spawn(move || {
                    let waker = crate::runtime::reply::thread_waker();
                    for item in 0..ITEMS {
                        let mut item = Some(thread * ITEMS + item);
                        while inbox.poll_push(&mut item, 1, &waker).is_pending() {
                            std::thread::park();
                        }
                    }
                });
            }
            while taken.len() < THREADS * ITEMS {
                assert!(inbox.take(&mut taken, None, 16, Duration::from_micros(50)));
                inbox.hold(0, 0);
            }
        });
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..THREADS * ITEMS));
    }
}
