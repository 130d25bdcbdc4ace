//! The delay queue against a plain map, on a manual clock: pushes, pops, removals and resets in any
//! order, with consumers and producers that wait, are woken or give up.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tickwheel::{Deadline, DelayQueue, ItemKey, ManualClock, PushError, Timer};

const TICK: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
enum Step {
    Push {
        when: When,
        name: Option<u8>,
    },
    /// Pushes when there is room.
    PushWait {
        when: When,
        name: Option<u8>,
    },
    Remove(usize),
    RemoveNamed(u8),
    Reset(usize, When),
    ResetNamed(u8, When),
    TryPop,
    TryPopBatch(usize),
    /// A consumer begins to wait; for a batch, with the maximum number of items.
    Pop(Option<usize>),
    Advance(u64),
    /// Polls a waiting consumer that was not woken, with another waker.
    Disturb(usize),
    /// Drops a consumer that waits, or that was woken and has not polled yet.
    GiveUp(usize),
    /// Polls every consumer that was woken.
    Settle,
    StopTimer,
    Close,
}

#[derive(Clone, Copy, Debug)]
enum When {
    After(u64),
    /// This long after the start, in the past or the future.
    At(u64),
    Never,
}

fn when() -> impl Strategy<Value = When> {
    let nanos = || prop_oneof![0..5 * TICK, 0..2_000 * TICK, 0..u64::from(u32::MAX) * 1_000];
    prop_oneof![
        4 => nanos().prop_map(When::After),
        2 => nanos().prop_map(When::At),
        1 => Just(When::After(0)),
        1 => Just(When::Never),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let name = || prop_oneof![2 => Just(None), 1 => (0_u8..4).prop_map(Some)];
    prop_oneof![
        8 => (when(), name()).prop_map(|(when, name)| Step::Push { when, name }),
        3 => (when(), name()).prop_map(|(when, name)| Step::PushWait { when, name }),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => (0_u8..4).prop_map(Step::RemoveNamed),
        3 => (any::<usize>(), when()).prop_map(|(which, when)| Step::Reset(which, when)),
        1 => (0_u8..4, when()).prop_map(|(name, when)| Step::ResetNamed(name, when)),
        2 => Just(Step::TryPop),
        1 => (0_usize..4).prop_map(Step::TryPopBatch),
        5 => prop_oneof![2 => Just(None), 1 => (1_usize..4).prop_map(Some)].prop_map(Step::Pop),
        6 => prop_oneof![0..3 * TICK, 0..500 * TICK, 0..1_u64 << 42].prop_map(Step::Advance),
        2 => any::<usize>().prop_map(Step::Disturb),
        4 => any::<usize>().prop_map(Step::GiveUp),
        5 => Just(Step::Settle),
        1 => prop_oneof![9 => Just(Step::Settle), 1 => Just(Step::StopTimer)],
        1 => prop_oneof![30 => Just(Step::Settle), 1 => Just(Step::Close)],
    ]
}

/// A waker that records its call.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A waiting future that records whether it was woken.
struct Waiting<R> {
    future: Pin<Box<dyn Future<Output = R>>>,
    flag: Arc<Flag>,
}

impl<R> Waiting<R> {
    fn new(future: impl Future<Output = R> + 'static) -> Self {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        Self { future: Box::pin(future), flag }
    }

    fn is_woken(&self) -> bool {
        self.flag.0.load(Ordering::SeqCst)
    }

    fn poll(&mut self) -> Poll<R> {
        self.flag.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(self.flag.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

type Pushed = Result<Option<u64>, PushError<u64>>;

struct Producer {
    id: u64,
    tick: u64,
    name: Option<u8>,
    /// Yields the key of the item, or the item that it replaced.
    waiting: Waiting<(Option<ItemKey>, Pushed)>,
}

struct World {
    clock: ManualClock,
    start: Instant,
    timer: Timer,
    queue: DelayQueue<u64>,
    now: u64,
    capacity: usize,
    closed: bool,
    items: BTreeMap<u64, u64>,
    names: HashMap<u8, u64>,
    keys: Vec<(ItemKey, u64)>,
    ids: u64,
    consumers: Vec<Waiting<Vec<u64>>>,
    producers: Vec<Producer>,
}

impl World {
    fn new(capacity: Option<usize>) -> Self {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(clock.clone()).build().unwrap();
        let queue = match capacity {
            Some(capacity) => DelayQueue::bounded(&timer, capacity),
            None => DelayQueue::new(&timer),
        };
        Self {
            start: clock.now(),
            clock,
            timer,
            queue,
            now: 0,
            capacity: capacity.unwrap_or(usize::MAX),
            closed: false,
            items: BTreeMap::new(),
            names: HashMap::new(),
            keys: Vec::new(),
            ids: 0,
            consumers: Vec::new(),
            producers: Vec::new(),
        }
    }

    /// Returns the deadline for the queue, and the tick at which the item should be due.
    fn deadline(&self, when: When) -> (Deadline, u64) {
        let (deadline, at) = match when {
            When::Never => return (Duration::MAX.into(), u64::MAX),
            When::After(delay) => (Duration::from_nanos(delay).into(), self.now + delay),
            When::At(at) => ((self.start + Duration::from_nanos(at)).into(), at),
        };
        let tick = at.div_ceil(TICK);
        (deadline, if at <= self.now { tick.min(self.now / TICK) } else { tick })
    }

    fn first_tick(&self) -> Option<u64> {
        self.items.values().min().copied()
    }

    fn is_due(&self) -> bool {
        self.first_tick().is_some_and(|tick| tick <= self.now / TICK)
    }

    fn has_room(&self, name: Option<u8>) -> bool {
        self.items.len() < self.capacity || name.is_some_and(|name| self.names.contains_key(&name))
    }

    /// Checks an item that was popped.
    fn popped(&mut self, id: u64) {
        let tick = self.items[&id];
        assert!(tick <= self.now / TICK, "{id} is early");
        assert_eq!(Some(tick), self.first_tick(), "{id} is not the first");
        self.forget(id);
    }

    fn forget(&mut self, id: u64) {
        self.items.remove(&id).expect("an item has one fate");
        self.names.retain(|_, named| *named != id);
    }

    fn pushed(&mut self, id: u64, tick: u64, name: Option<u8>, pushed: Pushed) {
        if self.closed {
            assert_eq!(pushed, Err(PushError::Closed { value: id }));
            return;
        }
        assert!(self.has_room(name), "pushed into a full queue");
        let replaced = name.and_then(|name| self.names.get(&name)).copied();
        assert_eq!(pushed, Ok(replaced));
        if let Some(replaced) = replaced {
            self.forget(replaced);
        }
        self.items.insert(id, tick);
        if let Some(name) = name {
            self.names.insert(name, id);
        }
    }

    fn push(&mut self, when: When, name: Option<u8>) {
        let (deadline, tick) = self.deadline(when);
        self.ids += 1;
        let id = self.ids;
        let full = Err(PushError::Full { value: id, limit: self.capacity });
        let pushed = match name {
            Some(name) => self.queue.key(name).push(id, deadline),
            None => self.queue.push(id, deadline).map(|key| {
                self.keys.push((key, id));
                None
            }),
        };
        if self.closed || self.has_room(name) {
            self.pushed(id, tick, name, pushed);
        } else {
            assert_eq!(pushed, full);
        }
    }

    fn push_wait(&mut self, when: When, name: Option<u8>) {
        let (deadline, tick) = self.deadline(when);
        self.ids += 1;
        let (id, queue) = (self.ids, self.queue.clone());
        let waiting = match name {
            Some(name) => {
                Waiting::new(async move { (None, queue.key(name).push_wait(id, deadline).await) })
            }
            None => Waiting::new(async move {
                match queue.push_wait(id, deadline).await {
                    Ok(key) => (Some(key), Ok(None)),
                    Err(error) => (None, Err(error)),
                }
            }),
        };
        // The deadline counts from now, but the item exists only once the future is polled.
        self.producers.push(Producer { id, tick, name, waiting });
        self.poll_producer(self.producers.len() - 1);
    }

    fn poll_producer(&mut self, which: usize) {
        let producer = &mut self.producers[which];
        if let Poll::Ready((key, pushed)) = producer.waiting.poll() {
            let Producer { id, tick, name, .. } = self.producers.remove(which);
            self.keys.extend(key.filter(|_| !self.closed).map(|key| (key, id)));
            self.pushed(id, tick, name, pushed);
        } else {
            let name = self.producers[which].name;
            assert!(!self.closed && !self.has_room(name), "a producer waits though there is room");
        }
    }

    fn poll_consumer(&mut self, which: usize) {
        match self.consumers[which].poll() {
            Poll::Ready(batch) => {
                assert_eq!(batch.is_empty(), self.closed);
                for id in batch {
                    self.popped(id);
                }
                drop(self.consumers.remove(which));
            }
            Poll::Pending => {
                assert!(!self.closed && !self.is_due(), "a consumer waits though an item is due");
            }
        }
    }

    fn settle(&mut self) {
        loop {
            if let Some(which) = self.consumers.iter().position(Waiting::is_woken) {
                self.poll_consumer(which);
            } else if let Some(which) = self.producers.iter().position(|p| p.waiting.is_woken()) {
                self.poll_producer(which);
            } else {
                break;
            }
        }
        let waits = !self.consumers.is_empty();
        assert!(!waits || !self.is_due(), "an item is due, and a consumer was not woken");
        // A push that replaces an item needs no room, so it does not wait.
        let waits = !self.producers.is_empty();
        assert!(!waits || self.items.len() >= self.capacity, "a producer was not woken");
        assert!(!self.closed || (self.consumers.is_empty() && self.producers.is_empty()));
        assert_eq!(self.queue.len(), self.items.len());
        let next = self.queue.next_deadline();
        if let Some(first) = self.first_tick().filter(|&tick| tick < u64::MAX) {
            assert!(next.unwrap() <= self.start + Duration::from_nanos(first.saturating_mul(TICK)));
        }
        for &(key, id) in &self.keys {
            assert_eq!(
                self.queue.deadline(key).is_some(),
                self.items.get(&id).is_some_and(|&tick| tick < u64::MAX)
            );
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Push { when, name } => self.push(when, name),
            Step::PushWait { when, name } => self.push_wait(when, name),
            Step::Remove(which) => self.remove(which),
            Step::RemoveNamed(name) => {
                let removed = self.queue.key(name).remove();
                assert_eq!(removed, self.names.get(&name).copied());
                if let Some(id) = removed {
                    self.forget(id);
                }
            }
            Step::Reset(which, when) => self.reset(which, when),
            Step::ResetNamed(name, when) => {
                let (deadline, tick) = self.deadline(when);
                let id = self.names.get(&name).copied();
                assert_eq!(self.queue.key(name).reset(deadline), id.is_some());
                if let Some(id) = id {
                    self.items.insert(id, tick);
                }
            }
            Step::TryPop => {
                let popped = self.queue.try_pop();
                assert_eq!(popped.is_some(), self.is_due());
                if let Some(id) = popped {
                    self.popped(id);
                }
            }
            Step::TryPopBatch(max) => {
                let batch = self.queue.try_pop_batch(max);
                let full = batch.len() == max;
                for id in batch {
                    self.popped(id);
                }
                assert!(full || !self.is_due());
            }
            Step::Pop(max) => self.pop(max),
            Step::Advance(by) => {
                self.now += by;
                self.clock.advance(Duration::from_nanos(by));
            }
            Step::Disturb(which) => self.disturb(which),
            Step::GiveUp(which) => self.give_up(which),
            Step::Settle => self.settle(),
            Step::StopTimer => assert_eq!(self.timer.stop().len(), 0),
            Step::Close => self.close(),
        }
    }

    fn remove(&mut self, which: usize) {
        let Some(which) = which.checked_rem(self.keys.len()) else { return };
        let (key, id) = self.keys[which];
        let removed = self.queue.remove(key);
        assert_eq!(removed, self.items.contains_key(&id).then_some(id));
        if removed.is_some() {
            self.forget(id);
        }
    }

    fn reset(&mut self, which: usize, when: When) {
        let Some(which) = which.checked_rem(self.keys.len()) else { return };
        let (key, id) = self.keys[which];
        let (deadline, tick) = self.deadline(when);
        assert_eq!(self.queue.reset(key, deadline), self.items.contains_key(&id));
        self.items.entry(id).and_modify(|known| *known = tick);
    }

    fn pop(&mut self, max: Option<usize>) {
        let queue = self.queue.clone();
        self.consumers.push(match max {
            Some(max) => Waiting::new(async move { queue.pop_batch(max).await }),
            None => Waiting::new(async move { queue.pop().await.into_iter().collect() }),
        });
        self.poll_consumer(self.consumers.len() - 1);
    }

    fn disturb(&mut self, which: usize) {
        let Some(which) = which.checked_rem(self.consumers.len()) else { return };
        let woken = self.consumers[which].is_woken();
        self.consumers[which].flag = Arc::new(Flag(AtomicBool::new(woken)));
        self.poll_consumer(which);
    }

    fn give_up(&mut self, which: usize) {
        let consumers = self.consumers.len();
        let Some(which) = which.checked_rem(consumers + self.producers.len()) else { return };
        if which < consumers {
            drop(self.consumers.remove(which));
        } else {
            drop(self.producers.remove(which - consumers));
        }
    }

    fn close(&mut self) {
        let rest = self.queue.close();
        assert!(rest.iter().map(|id| self.items[id]).is_sorted());
        assert_eq!(rest.len(), self.items.len());
        for id in rest {
            self.forget(id);
        }
        self.closed = true;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_queue_does_what_a_plain_map_does(
        capacity in proptest::option::weighted(0.4, 1_usize..6),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(capacity);
        for step in steps {
            world.take(step);
        }
        world.settle();
        world.take(Step::Close);
        world.settle();
        prop_assert_eq!(world.timer.pending(), 0, "nothing is left on the timer");
    }
}
