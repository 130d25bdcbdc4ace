//! The delay queue with real threads and the real clock: each item goes to exactly one consumer, no
//! item is early, and every waiting consumer is woken.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::patience::*;
use crate::random::Random;
use crate::wakers::*;
use tickwheel::{DelayQueue, PushError, Timer};

/// An item that records its due time and its fate.
struct Item {
    due: Instant,
    fates: Arc<AtomicU8>,
}

impl Item {
    fn new(delay: Duration, all: &mut Vec<Arc<AtomicU8>>) -> Self {
        let fates = Arc::new(AtomicU8::new(0));
        all.push(fates.clone());
        Self { due: Instant::now() + delay, fates }
    }

    fn end(self) {
        self.fates.fetch_add(1, Ordering::SeqCst);
    }

    fn pop(self, popped: &AtomicUsize) {
        assert!(Instant::now() >= self.due, "an item was early");
        popped.fetch_add(1, Ordering::SeqCst);
        self.end();
    }
}

/// Pushes items in every way; removes, replaces and resets some.
fn produce(queue: &DelayQueue<Item>, timer: &Timer, seed: u64) -> Vec<Arc<AtomicU8>> {
    let mut random = Random(seed);
    let mut all = Vec::new();
    for _ in 0..3_000 {
        let delay = random.below(4_000) as u32 * US;
        let item = Item::new(delay, &mut all);
        match random.below(10) {
            0..=3 => match queue.push(item, delay) {
                Ok(key) if random.below(8) == 0 => {
                    queue.remove(key).into_iter().for_each(Item::end);
                }
                Ok(key) if random.below(8) == 0 => {
                    queue.reset(key, delay + MS);
                }
                Ok(_) => {}
                Err(error) => error.into_value().end(),
            },
            4 | 5 => {
                let replaced = queue.key(random.below(50)).push(item, delay);
                replaced
                    .unwrap_or_else(|error| Some(error.into_value()))
                    .into_iter()
                    .for_each(Item::end);
            }
            6 => {
                queue.key(random.below(50)).remove().into_iter().for_each(Item::end);
                item.end();
            }
            7 => drop(queue.push_blocking(item, delay).map_err(|error| error.into_value().end())),
            8 => drop(
                block_on(queue.push_wait(item, delay)).map_err(|error| error.into_value().end()),
            ),
            _ => {
                // Gives up if there is no room at once.
                let fates = item.fates.clone();
                let pushed = block_on(timer.timeout(Duration::ZERO, queue.push_wait(item, delay)));
                match pushed {
                    Ok(pushed) => drop(pushed.map_err(|error| error.into_value().end())),
                    Err(_) => drop(fates.fetch_add(1, Ordering::SeqCst)),
                }
            }
        }
    }
    all
}

/// Pops items in every way, until the queue is closed.
fn consume(queue: &DelayQueue<Item>, timer: &Timer, seed: u64, popped: &AtomicUsize) {
    let mut random = Random(seed);
    while !queue.is_closed() {
        match random.below(6) {
            0 => queue.pop_blocking().into_iter().for_each(|item| item.pop(popped)),
            1 => block_on(queue.pop()).into_iter().for_each(|item| item.pop(popped)),
            2 => queue.pop_timeout(200 * US).into_iter().for_each(|item| item.pop(popped)),
            3 => block_on(queue.pop_batch(5)).into_iter().for_each(|item| item.pop(popped)),
            4 => queue.try_pop_batch(3).into_iter().for_each(|item| item.pop(popped)),
            _ => {
                // Gives up, possibly at the moment of its wake-up.
                let limit = random.below(1_000) as u32 * US;
                let item = block_on(timer.timeout(limit, queue.pop()));
                item.ok().flatten().into_iter().for_each(|item| item.pop(popped));
            }
        }
    }
}

fn storm(timer: &Timer, queue: &DelayQueue<Item>, close_early: bool) {
    let popped = AtomicUsize::new(0);
    let all: Vec<_> = thread::scope(|scope| {
        for seed in 0..4 {
            let (popped, queue) = (&popped, &queue);
            scope.spawn(move || consume(queue, timer, 100 + seed, popped));
        }
        let producers: Vec<_> =
            (0..4).map(|seed| scope.spawn(move || produce(queue, timer, seed))).collect();
        if close_early {
            thread::sleep(30 * MS);
        } else {
            until("all are pushed", || producers.iter().all(thread::ScopedJoinHandle::is_finished));
            until("all are popped", || queue.is_empty());
        }
        queue.close().into_iter().for_each(Item::end);
        producers.into_iter().flat_map(|producer| producer.join().unwrap()).collect()
    });
    assert_eq!(all.len(), 12_000);
    assert!(all.iter().all(|fates| fates.load(Ordering::SeqCst) == 1), "an item has one fate");
    assert!(popped.load(Ordering::SeqCst) > 100, "that was no storm");
    assert!(queue.is_empty());
}

#[test]
fn each_item_has_one_fate_in_a_storm() {
    in_time("a storm at a queue", || {
        let timer = Timer::builder().tick(50 * US).build().unwrap();
        storm(&timer, &DelayQueue::new(&timer), false);
        storm(&timer, &DelayQueue::bounded(&timer, 20), false);
        assert_eq!(timer.pending(), 0);
    });
}

#[test]
fn each_item_has_one_fate_when_the_queue_is_closed_in_a_storm() {
    in_time("a storm at a queue that is closed", || {
        let timer = Timer::new();
        for _ in 0..5 {
            storm(&timer, &DelayQueue::bounded(&timer, 100), true);
        }
    });
}

#[test]
fn a_wake_up_is_not_lost_with_who_got_it() {
    in_time("a race for a wake-up", || {
        let timer = Timer::builder().tick(US).build().unwrap();
        let queue = DelayQueue::new(&timer);
        for round in 0..3_000_u32 {
            let delay = 20 * US;
            queue.push(round, delay).unwrap();
            thread::scope(|scope| {
                // Gives up at about the moment when the item is due.
                let gives_up = scope.spawn(|| queue.pop_timeout(delay));
                let stays = scope.spawn(|| queue.pop_blocking());
                let taken = gives_up.join().unwrap();
                if taken.is_some() {
                    queue.push(round, Duration::ZERO).unwrap();
                }
                assert_eq!(stays.join().unwrap(), Some(round));
            });
        }
    });
}

#[test]
fn consumers_on_a_runtime_share_the_work() {
    in_time("a queue on tokio", || {
        let timer = Timer::new();
        let queue = DelayQueue::bounded(&timer, 64);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build();
        let seen = runtime.unwrap().block_on(async {
            let consumers: Vec<_> = (0..8)
                .map(|_| {
                    let queue = queue.clone();
                    tokio::spawn(async move {
                        let mut seen = Vec::new();
                        while let Some(item) = queue.pop().await {
                            seen.push(item);
                        }
                        seen
                    })
                })
                .collect();
            let producers: Vec<_> = (0..4)
                .map(|producer| {
                    let queue = queue.clone();
                    tokio::spawn(async move {
                        for number in 0..500_u32 {
                            let item = producer * 500 + number;
                            queue.push_wait(item, item % 5 * MS).await.unwrap();
                        }
                    })
                })
                .collect();
            for producer in producers {
                producer.await.unwrap();
            }
            while !queue.is_empty() {
                timer.sleep(MS).await;
            }
            assert!(queue.close().is_empty());
            let mut seen = Vec::new();
            for consumer in consumers {
                seen.extend(consumer.await.unwrap());
            }
            seen
        });
        assert_eq!(seen.len(), 2_000);
        assert_eq!(seen.into_iter().collect::<HashSet<_>>().len(), 2_000);
    });
}

#[test]
fn closing_wakes_threads_that_wait() {
    in_time("closing a queue", || {
        let queue = DelayQueue::bounded(&Timer::new(), 1);
        queue.push(1, Duration::MAX).unwrap();
        thread::scope(|scope| {
            let pops = scope.spawn(|| queue.pop_blocking());
            let waits = scope.spawn(|| queue.pop_timeout(PATIENCE));
            let pushes = scope.spawn(|| queue.push_blocking(2, Duration::ZERO));
            thread::sleep(5 * MS);
            assert_eq!(queue.close(), [1]);
            assert_eq!((pops.join().unwrap(), waits.join().unwrap()), (None, None));
            assert_eq!(pushes.join().unwrap(), Err(PushError::Closed { value: 2 }));
        });
    });
}
