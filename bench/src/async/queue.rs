//! Two delay queues, each used by one task, because tokio-util's queue allows only one.

use std::future::poll_fn;
use std::pin::Pin;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tickwheel::{DelayQueue, ItemKey, Timer};
use tokio::runtime::Runtime;
use tokio_util::time::delay_queue;

use crate::meter::{Meter, Reading};
use crate::suite::Outcome;
use crate::work::{self, Checksum, Size};

/// The time until all items that are popped are due.
const SPAN_MS: u64 = 1_000;

/// A queue of numbers.
pub(super) trait Queue {
    type Key;

    fn push(&mut self, item: u64, delay: Duration) -> Self::Key;
    fn reset(&mut self, key: &Self::Key, delay: Duration);
    fn remove(&mut self, key: &Self::Key) -> Option<u64>;
    async fn pop(&mut self) -> Option<u64>;
}

pub(super) struct OurQueue(DelayQueue<u64>);

impl OurQueue {
    pub(super) fn new(timer: &Timer) -> Self {
        Self(DelayQueue::new(timer))
    }
}

impl Queue for OurQueue {
    type Key = ItemKey;

    fn push(&mut self, item: u64, delay: Duration) -> ItemKey {
        self.0.push(item, delay).expect("the queue is open and has no limit")
    }

    fn reset(&mut self, key: &ItemKey, delay: Duration) {
        self.0.reset(*key, delay);
    }

    fn remove(&mut self, key: &ItemKey) -> Option<u64> {
        self.0.remove(*key)
    }

    async fn pop(&mut self) -> Option<u64> {
        self.0.pop().await
    }
}

pub(super) struct TheirQueue(delay_queue::DelayQueue<u64>);

impl TheirQueue {
    pub(super) fn new() -> Self {
        Self(delay_queue::DelayQueue::new())
    }
}

impl Queue for TheirQueue {
    type Key = delay_queue::Key;

    fn push(&mut self, item: u64, delay: Duration) -> Self::Key {
        self.0.insert(item, delay)
    }

    fn reset(&mut self, key: &Self::Key, delay: Duration) {
        self.0.reset(key, delay);
    }

    fn remove(&mut self, key: &Self::Key) -> Option<u64> {
        self.0.try_remove(key).map(delay_queue::Expired::into_inner)
    }

    async fn pop(&mut self) -> Option<u64> {
        let mut queue = Pin::new(&mut self.0);
        poll_fn(|cx| queue.as_mut().poll_expired(cx)).await.map(delay_queue::Expired::into_inner)
    }
}

fn time<T>(work: impl FnOnce() -> T) -> (T, Reading) {
    let meter = Meter::start();
    let done = work();
    (done, meter.stop())
}

fn push_all<Q: Queue>(queue: &mut Q, delays: &[Duration], keys: &mut Vec<Q::Key>) {
    keys.extend((0..).zip(delays).map(|(item, &delay)| queue.push(item, delay)));
}

/// Measures all operations of a queue, one kind after the other.
pub(super) fn all<Q: Queue>(mut queue: Q, size: &Size, runtime: &Runtime) -> Result<Outcome> {
    let (far, order, moves) = (work::far(size), work::order(size), work::moves(size));
    let soon = work::soon(&Size { lead_ms: 0, span_ms: SPAN_MS, ..*size });
    let sum = (0..size.timers as u64).sum::<u64>();
    let mut keys = Vec::with_capacity(size.timers);
    let ((), push) = time(|| push_all(&mut queue, &far, &mut keys));
    let ((), reset) = time(|| {
        for step in &moves {
            queue.reset(&keys[step.index as usize], step.delay());
        }
    });
    let (removed, remove) =
        time(|| -> Option<u64> { order.iter().map(|&at| queue.remove(&keys[at as usize])).sum() });
    ensure!(removed == Some(sum), "not every item was removed once");
    keys.clear();
    push_all(&mut queue, &soon, &mut keys);
    // The last item is due a tick earlier.
    thread::sleep(Duration::from_millis(SPAN_MS + 2));
    let (popped, pop) = time(|| {
        runtime.block_on(async {
            let mut popped = 0;
            for _ in 0..size.timers {
                popped += queue.pop().await.context("an item is missing")?;
            }
            anyhow::Ok(popped)
        })
    });
    ensure!(popped? == sum, "not every item was popped once");
    let figures = [
        push.each(["push-cpu", "push-wall"], size.timers),
        reset.each(["queue-reset-cpu", "queue-reset-wall"], moves.len()),
        remove.each(["remove-cpu", "remove-wall"], size.timers),
        pop.each(["pop-cpu", "pop-wall"], size.timers),
    ];
    let checksum = Checksum::default().delays(&far).order(&order).moves(&moves).delays(&soon);
    Ok(checksum.outcome(figures.into_iter().flatten()))
}
