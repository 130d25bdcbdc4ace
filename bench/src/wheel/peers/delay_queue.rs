//! `tokio_util::time::DelayQueue`, driven without real time.
//!
//! The queue reads tokio's clock, which is paused here and moved by hand. Moving it takes a turn of
//! the runtime. That turn replaces the passing of real time, so it is timed and subtracted from the
//! figures. All other costs are as low as the queue allows: the runtime is entered once; deadlines
//! are passed as instants, so that no clock is read; the queue is polled directly with a no-op
//! waker, and outside a task, so no polling budget applies. It is polled only to pop: a queue that
//! a task waits on would also update its sleep in the runtime's own wheel with each removal and
//! reset.

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::meter::reading_cost;
use crate::wheel::contender::Contender;

pub(in crate::wheel) struct TokioDelayQueue {
    queue: DelayQueue<u64>,
    runtime: &'static Runtime,
    start: tokio::time::Instant,
    now: u64,
    clock_time: Duration,
    reading_cost: Duration,
    _entered: EnterGuard<'static>,
}

impl TokioDelayQueue {
    fn instant(&self, tick: u64) -> tokio::time::Instant {
        self.start + Duration::from_millis(tick)
    }

    fn move_clock(&mut self, now: u64) {
        let started = Instant::now();
        let step = Duration::from_millis(now - self.now);
        self.runtime.block_on(tokio::time::advance(step));
        self.now = now;
        // The time between two readings of the clock contains only one of them.
        self.clock_time += started.elapsed() + self.reading_cost;
    }
}

impl Contender for TokioDelayQueue {
    type Key = Key;
    const KEEPS_KEYS: bool = true;

    fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without threads or sockets can always be built");
        // The runtime stays entered until the process ends.
        let runtime: &'static Runtime = Box::leak(Box::new(runtime));
        let entered = runtime.enter();
        Self {
            queue: DelayQueue::new(),
            runtime,
            start: tokio::time::Instant::now(),
            now: 0,
            clock_time: Duration::ZERO,
            reading_cost: reading_cost(),
            _entered: entered,
        }
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Key {
        let deadline = self.instant(deadline);
        self.queue.insert_at(value, deadline)
    }

    fn remove(&mut self, key: Key) -> u64 {
        self.queue.remove(&key).into_inner()
    }

    fn reset(&mut self, key: &mut Key, deadline: u64) {
        let deadline = self.instant(deadline);
        self.queue.reset_at(key, deadline);
    }

    fn pop_due(&mut self, now: u64, mut due: impl FnMut(u64)) {
        self.move_clock(now);
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(expired)) = self.queue.poll_expired(&mut context) {
            due(expired.into_inner());
        }
    }

    fn clock_time(&self) -> Duration {
        self.clock_time
    }
}
