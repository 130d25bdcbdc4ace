//! The promises of the delay queue, one by one, on a manual clock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
#[cfg(feature = "stream")]
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::rig::*;
use crate::wakers::*;
use tickwheel::{DelayQueue, ItemKey, PushError, Timer, WheelKind};

type Future<R> = Pin<Box<dyn std::future::Future<Output = R> + Send>>;

fn pop<T: Send + 'static>(queue: &DelayQueue<T>) -> Future<Option<T>> {
    let queue = queue.clone();
    Box::pin(async move { queue.pop().await })
}

fn is_send_sync<T: Send + Sync + 'static>() {}

#[test]
fn a_queue_is_for_many_threads_also_where_its_items_are_not() {
    is_send_sync::<DelayQueue<std::cell::Cell<u8>>>();
    is_send_sync::<ItemKey>();
}

fn new_rig() -> Rig {
    Rig::new(WheelKind::default())
}

fn queue<T: Send + 'static>(rig: &Rig) -> DelayQueue<T> {
    DelayQueue::new(&rig.timer)
}

#[test]
fn items_come_out_when_they_are_due() {
    let rig = &new_rig();
    let queue = queue(rig);
    queue.push("b", 2 * S).unwrap();
    queue.push("a", rig.start + S).unwrap();
    rig.clock.advance(999 * MS);
    assert_eq!(queue.try_pop(), None);
    rig.clock.advance(MS);
    assert_eq!((queue.try_pop(), queue.try_pop()), (Some("a"), None));
    rig.clock.advance(9 * S);
    assert_eq!(queue.try_pop_batch(9), ["b"]);
    assert!(queue.is_empty());
}

#[test]
fn items_of_a_tick_come_out_in_the_order_of_pushing() {
    let rig = &new_rig();
    let queue = queue(rig);
    for number in 0..100 {
        queue.push(number, S).unwrap();
    }
    rig.clock.advance(S);
    assert_eq!(queue.try_pop_batch(usize::MAX), (0..100).collect::<Vec<_>>());
}

#[test]
fn late_items_come_out_by_deadline() {
    let rig = &new_rig();
    let queue = queue(rig);
    rig.clock.advance(10 * S);
    queue.push(3, Duration::ZERO).unwrap();
    queue.push(2, rig.start + 2 * S).unwrap();
    queue.push(1, rig.start + S).unwrap();
    assert_eq!(queue.try_pop_batch(9), [1, 2, 3]);
}

#[test]
fn any_delay_will_do() {
    let rig = &new_rig();
    let queue = queue(rig);
    let century = 100 * 365 * 86_400 * S;
    queue.push("never", Duration::MAX).unwrap();
    queue.push("in a century", century).unwrap();
    queue.push("now", Duration::ZERO).unwrap();
    assert_eq!((queue.try_pop(), queue.try_pop()), (Some("now"), None));
    let (count, waker) = Count::new();
    let mut consumer = pop(&queue);
    assert!(poll(&mut consumer, &waker).is_pending());
    rig.clock.advance(century.checked_sub(MS).unwrap());
    assert!(poll(&mut consumer, &waker).is_pending());
    rig.clock.advance(MS);
    assert!(count.woken() > 0);
    assert_eq!(poll(&mut consumer, &waker), Poll::Ready(Some("in a century")));
    rig.clock.advance(4 * century);
    assert_eq!((queue.try_pop(), queue.next_deadline()), (None, None));
    assert_eq!(queue.close(), ["never"]);
}

/// The alarm for the old deadline must not wake a consumer that would find nothing.
#[test]
fn an_item_reset_to_later_wakes_its_consumer_once() {
    let rig = &new_rig();
    let queue = queue(rig);
    let key = queue.push("moved", S).unwrap();
    let (count, waker) = Count::new();
    let mut consumer = pop(&queue);
    assert!(poll(&mut consumer, &waker).is_pending());
    assert!(queue.reset(key, 5 * S));
    for _ in 0..4 {
        rig.clock.advance(S);
        assert_eq!(count.woken(), 0, "woken for the old deadline");
    }
    rig.clock.advance(S);
    assert_eq!(count.woken(), 1);
    assert_eq!(poll(&mut consumer, &waker), Poll::Ready(Some("moved")));
}

#[test]
fn stale_keys_are_harmless() {
    let rig = &new_rig();
    let queue = queue(rig);
    let popped = queue.push(1, Duration::ZERO).unwrap();
    let removed = queue.push(2, S).unwrap();
    assert_eq!((queue.try_pop(), queue.remove(removed)), (Some(1), Some(2)));
    let fresh = queue.push(3, S).unwrap();
    for stale in [popped, removed] {
        assert_ne!(stale, fresh);
        assert_eq!(queue.remove(stale), None);
        assert!(!queue.reset(stale, Duration::ZERO));
        assert_eq!(queue.deadline(stale), None);
    }
    assert_eq!(queue.deadline(fresh), Some(rig.start + S));
    queue.close();
    assert_eq!((queue.remove(fresh), queue.reset(fresh, S)), (None, false));
}

#[test]
fn a_key_of_another_queue_is_stale() {
    let rig = &new_rig();
    let (one, other) = (queue(rig), queue(rig));
    let key = one.push(1, S).unwrap();
    other.push(2, S).unwrap();
    assert_eq!((other.remove(key), other.reset(key, 9 * S)), (None, false));
    assert_eq!((one.len(), other.len()), (1, 1));
}

#[test]
fn a_name_has_one_item() {
    let rig = &new_rig();
    let queue = queue(rig);
    assert_eq!(queue.key("a").push(1, S).unwrap(), None);
    assert_eq!(queue.key("a").push(2, 9 * S).unwrap(), Some(1));
    assert_eq!(queue.key("b").push(3, 9 * S).unwrap(), None);
    assert_eq!(queue.key(7).push(4, 9 * S).unwrap(), None);
    assert!(queue.key("b").reset(8 * S) && !queue.key("c").reset(S));
    assert_eq!((queue.key(7).remove(), queue.key(7).remove()), (Some(4), None));
    rig.clock.advance(9 * S);
    assert_eq!(queue.try_pop_batch(9), [3, 2]);
    assert_eq!(queue.key("a").remove(), None, "a popped item has no name");
    assert_eq!(queue.key("a").push(5, S).unwrap(), None);
    assert_eq!(queue.key("a").push(6, S).unwrap(), Some(5));
    queue.close();
    assert_eq!(queue.key("a").push(7, S), Err(PushError::Closed { value: 7 }));
    assert!(!queue.key("a").reset(S));
}

#[test]
fn an_item_wakes_one_consumer() {
    let rig = &new_rig();
    let queue = queue(rig);
    let (count, waker) = Count::new();
    let mut consumers: Vec<_> = (0..10).map(|_| pop(&queue)).collect();
    assert!(consumers.iter_mut().all(|consumer| poll(consumer, &waker).is_pending()));
    queue.push(7, 3 * MS).unwrap();
    rig.clock.advance(2 * MS);
    assert_eq!(count.woken(), 0);
    rig.clock.advance(S);
    assert_eq!(count.woken(), 1);
    assert_eq!(poll(&mut consumers[0], &waker), Poll::Ready(Some(7)));
    assert_eq!(count.woken(), 1);
}

#[test]
fn more_due_items_wake_more_consumers() {
    let rig = &new_rig();
    let queue = queue(rig);
    let (count, waker) = Count::new();
    let mut consumers: Vec<_> = (0..10).map(|_| pop(&queue)).collect();
    assert!(consumers.iter_mut().all(|consumer| poll(consumer, &waker).is_pending()));
    for number in 0..3 {
        queue.push(number, S).unwrap();
    }
    rig.clock.advance(S);
    for (number, consumer) in consumers.iter_mut().enumerate().take(3) {
        assert_eq!(count.woken(), number + 1, "who takes one wakes the next");
        assert_eq!(poll(consumer, &waker), Poll::Ready(Some(number)));
    }
    assert_eq!(count.woken(), 3);
}

#[test]
fn a_wake_up_that_was_given_up_goes_to_the_next() {
    let rig = &new_rig();
    let queue = queue(rig);
    let (first, waker) = Count::new();
    let mut given_up = pop(&queue);
    assert!(poll(&mut given_up, &waker).is_pending());
    let (second, waker) = Count::new();
    let mut next = pop(&queue);
    assert!(poll(&mut next, &waker).is_pending());
    queue.push(7, S).unwrap();
    rig.clock.advance(S);
    assert_eq!((first.woken(), second.woken()), (1, 0));
    drop(given_up);
    assert_eq!(second.woken(), 1);
    assert_eq!(poll(&mut next, &waker), Poll::Ready(Some(7)));
}

#[test]
fn consumers_are_served_in_order() {
    let rig = &new_rig();
    let queue = queue(rig);
    let (first, waker) = Count::new();
    let mut one = pop(&queue);
    assert!(poll(&mut one, &waker).is_pending());
    let (second, other_waker) = Count::new();
    let mut other = pop(&queue);
    assert!(poll(&mut other, &other_waker).is_pending());
    queue.push(1, S).unwrap();
    rig.clock.advance(S);
    assert_eq!(queue.try_pop(), Some(1), "somebody was quicker");
    assert!(poll(&mut one, &waker).is_pending());
    queue.push(2, S).unwrap();
    rig.clock.advance(S);
    assert_eq!((first.woken(), second.woken()), (2, 0), "it kept its place in line");
}

#[test]
fn an_earlier_item_wakes_earlier() {
    let rig = &new_rig();
    let queue = queue(rig);
    let (count, waker) = Count::new();
    let mut consumer = pop(&queue);
    assert!(poll(&mut consumer, &waker).is_pending());
    let late = queue.push(1, 60 * S).unwrap();
    queue.push(2, 30 * S).unwrap();
    queue.reset(late, 10 * S);
    rig.clock.advance(9_999 * MS);
    assert_eq!(count.woken(), 0);
    rig.clock.advance(MS);
    assert_eq!((count.woken(), poll(&mut consumer, &waker)), (1, Poll::Ready(Some(1))));
    assert_eq!(queue.try_pop(), None);
}

#[test]
fn a_full_queue_refuses_or_waits() {
    let rig = &new_rig();
    let queue = DelayQueue::bounded(&rig.timer, 2);
    queue.push(1, S).unwrap();
    let second = queue.push(2, 2 * S).unwrap();
    let error = queue.push(3, S).unwrap_err();
    assert_eq!(error, PushError::Full { value: 3, limit: 2 });
    assert!(error.to_string().contains("limit: 2"), "{error}");
    assert_eq!(format!("{error:?}"), "Full { limit: 2, .. }");
    let (count, waker) = Count::new();
    let mut waits = Box::pin(queue.push_wait(3, S));
    assert!(poll(&mut waits, &waker).is_pending());
    assert_eq!(queue.remove(second), Some(2));
    assert_eq!(count.woken(), 1);
    assert!(poll(&mut waits, &waker).is_ready());
    let mut waits = Box::pin(queue.push_wait(4, S));
    assert!(poll(&mut waits, &waker).is_pending());
    rig.clock.advance(S);
    assert_eq!(count.woken(), 1, "what is due still takes room");
    assert_eq!(queue.try_pop(), Some(1));
    assert_eq!(count.woken(), 2);
    assert!(matches!(poll(&mut waits, &waker), Poll::Ready(Ok(_))));
    assert_eq!(queue.len(), 2);
}

#[test]
fn a_replacement_needs_no_room() {
    let rig = &new_rig();
    let queue = DelayQueue::bounded(&rig.timer, 1);
    queue.key("a").push(1, S).unwrap();
    assert_eq!(queue.key("a").push(2, S).unwrap(), Some(1));
    assert_eq!(block_on(queue.key("a").push_wait(3, S)).unwrap(), Some(2));
    assert_eq!(queue.key("a").push_blocking(4, S).unwrap(), Some(3));
    assert!(queue.key("b").push(5, S).is_err());
}

#[test]
fn room_that_was_given_up_goes_to_the_next() {
    let rig = &new_rig();
    let queue = DelayQueue::bounded(&rig.timer, 1);
    queue.push(0, Duration::ZERO).unwrap();
    let (part, drops) = counted();
    let mut given_up = Box::pin(async {
        let _part = part;
        queue.push_wait(1, S).await
    });
    let (first, waker) = Count::new();
    assert!(poll(&mut given_up, &waker).is_pending());
    let (second, waker) = Count::new();
    let mut next = Box::pin(queue.push_wait(2, S));
    assert!(poll(&mut next, &waker).is_pending());
    assert_eq!(queue.try_pop(), Some(0));
    assert_eq!((first.woken(), second.woken()), (1, 0));
    drop(given_up);
    assert_eq!((second.woken(), drops.load(Ordering::SeqCst)), (1, 1));
    assert!(poll(&mut next, &waker).is_ready());
    assert_eq!(queue.close(), [2]);
}

#[test]
fn a_delay_counts_from_the_call() {
    let rig = &new_rig();
    let queue = DelayQueue::bounded(&rig.timer, 1);
    queue.push(1, 2 * S).unwrap();
    let mut waits = Box::pin(queue.push_wait(2, 3 * S));
    rig.clock.advance(S);
    assert!(poll(&mut waits, Waker::noop()).is_pending());
    rig.clock.advance(S);
    assert_eq!(queue.try_pop(), Some(1));
    assert!(poll(&mut waits, Waker::noop()).is_ready());
    assert_eq!(queue.try_pop(), None);
    rig.clock.advance(S);
    assert_eq!(queue.try_pop(), Some(2));
}

#[test]
fn closing_hands_back_and_ends_the_waiting() {
    let rig = &new_rig();
    let queue = DelayQueue::bounded(&rig.timer, 3);
    let (count, waker) = Count::new();
    let mut consumers: Vec<_> = (0..3).map(|_| pop(&queue)).collect();
    assert!(consumers.iter_mut().all(|consumer| poll(consumer, &waker).is_pending()));
    for number in [3, 1, 2] {
        queue.push(number, number * S).unwrap();
    }
    let mut producers: Vec<_> = (0..3).map(|n| Box::pin(queue.push_wait(n, S))).collect();
    assert!(producers.iter_mut().all(|producer| poll(producer, &waker).is_pending()));
    assert_eq!(queue.close(), [1, 2, 3]);
    assert_eq!(count.woken(), 6);
    for consumer in &mut consumers {
        assert_eq!(poll(consumer, &waker), Poll::Ready(None));
    }
    for (number, producer) in (0..).zip(&mut producers) {
        let closed = PushError::Closed { value: number };
        assert_eq!(poll(producer, &waker), Poll::Ready(Err(closed)));
    }
    assert!(queue.is_closed() && queue.close().is_empty());
    assert_eq!((queue.try_pop(), queue.pop_blocking(), queue.pop_timeout(S)), (None, None, None));
    assert!(block_on(queue.pop_batch(9)).is_empty());
    assert_eq!(rig.timer.pending(), 0);
}

#[test]
fn items_are_dropped_with_the_queue() {
    let rig = &new_rig();
    let queue = queue(rig);
    let (part, drops) = counted();
    queue.push(part, S).unwrap();
    let mut consumer = pop(&queue);
    assert!(poll(&mut consumer, Waker::noop()).is_pending());
    assert_eq!(rig.timer.pending(), 1, "the alarm");
    drop(queue);
    assert_eq!(dropped(&drops), 0, "a consumer is left");
    drop(consumer);
    assert_eq!((dropped(&drops), rig.timer.pending()), (1, 0));
}

#[test]
fn a_removed_item_is_not_kept() {
    let rig = &new_rig();
    let queue = queue(rig);
    let (part, drops) = counted();
    let key = queue.push(part.clone(), S).unwrap();
    queue.key("a").push(part.clone(), S).unwrap();
    drop(queue.remove(key));
    assert_eq!(dropped(&drops), 1);
    drop(queue.key("a").push(part, S).unwrap());
    assert_eq!(dropped(&drops), 2);
    drop(queue.close());
    assert_eq!(dropped(&drops), 3);
}

#[test]
fn a_queue_that_nobody_waits_for_is_no_work_for_the_timer() {
    let rig = &new_rig();
    let queue = queue(rig);
    for number in 0..100 {
        queue.push(number, number * MS).unwrap();
    }
    rig.clock.advance(50 * MS);
    assert_eq!(queue.try_pop_batch(9).len(), 9);
    assert_eq!((rig.timer.stats().scheduled, rig.timer.next_deadline()), (0, None));
}

#[test]
fn a_queue_goes_on_when_its_timer_is_stopped() {
    let rig = &new_rig();
    let queue = queue(rig);
    let (count, waker) = Count::new();
    let mut consumer = pop(&queue);
    queue.push(7, 5 * S).unwrap();
    assert!(poll(&mut consumer, &waker).is_pending());
    assert_eq!(rig.timer.stop().len(), 0);
    queue.push(8, 3 * S).unwrap();
    rig.clock.advance(3 * S);
    assert_eq!((count.woken(), poll(&mut consumer, &waker)), (1, Poll::Ready(Some(8))));
    let mut consumer = pop(&queue);
    assert!(poll(&mut consumer, &waker).is_pending());
    rig.clock.advance(2 * S);
    assert_eq!((count.woken(), poll(&mut consumer, &waker)), (2, Poll::Ready(Some(7))));
}

#[test]
fn a_waker_may_use_the_queue() {
    let rig = &new_rig();
    let queue = queue(rig);
    let taken = Arc::new(Mutex::new(Vec::new()));
    let waker = {
        let (queue, taken) = (queue.clone(), taken.clone());
        Call::waker(move || {
            queue.push(2, Duration::ZERO).unwrap();
            taken.lock().unwrap().extend(queue.try_pop_batch(9));
        })
    };
    let mut consumer = pop(&queue);
    assert!(poll(&mut consumer, &waker).is_pending());
    queue.push(1, S).unwrap();
    rig.clock.advance(S);
    assert_eq!(*taken.lock().unwrap(), [1, 2]);
    assert!(poll(&mut consumer, &waker).is_pending());
}

#[test]
fn a_waker_that_panics_harms_nobody() {
    let rig = &new_rig();
    let queue = queue(rig);
    let bad = Call::waker(|| panic!("a waker that panics"));
    let (count, good) = Count::new();
    let mut first = pop(&queue);
    let mut second = pop(&queue);
    assert!(poll(&mut first, &bad).is_pending() && poll(&mut second, &good).is_pending());
    queue.push(1, S).unwrap();
    rig.clock.advance(S);
    queue.push(2, Duration::ZERO).unwrap();
    drop(first);
    assert_eq!((count.woken(), poll(&mut second, &good)), (1, Poll::Ready(Some(1))));
    let mut first = pop(&queue);
    assert_eq!(poll(&mut first, &bad), Poll::Ready(Some(2)));
    let mut first = pop(&queue);
    assert!(poll(&mut first, &bad).is_pending());
    let key = queue.push(3, Duration::ZERO).expect("a push does not fail by who is woken");
    assert_eq!(queue.remove(key), Some(3));
}

#[test]
fn a_waker_is_replaced_only_when_it_differs() {
    let rig = &new_rig();
    let queue = queue::<u8>(rig);
    let (first, waker) = Count::new();
    let mut consumer = pop(&queue);
    for _ in 0..3 {
        assert!(poll(&mut consumer, &waker).is_pending());
        assert_eq!(held(&first), 1);
    }
    let (second, other) = Count::new();
    assert!(poll(&mut consumer, &other).is_pending());
    assert_eq!((held(&first), held(&second)), (0, 1));
    queue.push(7, Duration::ZERO).unwrap();
    assert_eq!((first.woken(), second.woken(), held(&second)), (0, 1, 0));
}

#[test]
fn what_the_queue_says_of_itself() {
    let rig = &new_rig();
    let queue = DelayQueue::bounded(&rig.timer, 5);
    queue.push(1, S).unwrap();
    assert_eq!((queue.len(), queue.is_empty(), queue.capacity()), (1, false, Some(5)));
    assert_eq!(queue.next_deadline(), Some(rig.start + S));
    let said = format!("{queue:?}");
    assert_eq!(said, "DelayQueue { len: 1, capacity: Some(5), closed: false, .. }");
    assert_eq!(DelayQueue::<u8>::default().capacity(), None);
}

#[test]
fn a_thread_that_cannot_be_started_is_not_a_silent_hang() {
    let allowed = Arc::new(AtomicBool::new(false));
    let hook = {
        let allowed = allowed.clone();
        move |body: tickwheel::ThreadBody| {
            if !allowed.load(Ordering::SeqCst) {
                return Err(std::io::Error::other("no threads today"));
            }
            std::thread::Builder::new().spawn(body).map(drop)
        }
    };
    let queue = DelayQueue::new(&Timer::builder().thread_hook(hook).build().unwrap());
    queue.push(1, 5 * MS).unwrap();
    let mut consumer = pop(&queue);
    let (count, waker) = Count::new();
    let polled = catch_unwind(AssertUnwindSafe(|| poll(&mut consumer, &waker)));
    let message = *polled.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("no threads today"), "{message}");
    drop(consumer);
    assert_eq!(held(&count), 0);
    allowed.store(true, Ordering::SeqCst);
    assert_eq!(queue.pop_blocking(), Some(1));
}

#[test]
fn a_thread_hook_may_use_the_queue() {
    let known = Arc::new(Mutex::new(None::<DelayQueue<u8>>));
    let hook = {
        let known = known.clone();
        move |body: tickwheel::ThreadBody| {
            if let Some(queue) = &*known.lock().unwrap() {
                queue.push(1, MS).unwrap();
            }
            std::thread::Builder::new().spawn(body).map(drop)
        }
    };
    let queue = DelayQueue::new(&Timer::builder().thread_hook(hook).build().unwrap());
    *known.lock().unwrap() = Some(queue.clone());
    queue.push(2, 5 * MS).unwrap();
    assert_eq!((queue.pop_blocking(), queue.pop_blocking()), (Some(1), Some(2)));
    known.lock().unwrap().take();
}

#[test]
#[should_panic(expected = "capacity must be at least 1, got 0")]
fn a_queue_for_nothing_is_refused() {
    DelayQueue::<u8>::bounded(&Timer::new(), 0);
}

#[cfg(feature = "stream")]
#[test]
fn streams_share_a_queue() {
    use futures::StreamExt;

    let rig = &new_rig();
    let queue = queue(rig);
    let (mut one, mut other) = (queue.stream(), queue.stream());
    let (count, waker) = Count::new();
    assert!(poll(&mut one.next(), &waker).is_pending());
    assert!(poll(&mut other.next(), &waker).is_pending());
    queue.push(1, S).unwrap();
    rig.clock.advance(S);
    assert_eq!(count.woken(), 1);
    drop(one);
    assert_eq!(count.woken(), 2, "a stream that is dropped passes its wake-up on");
    assert_eq!(poll(&mut other.next(), &waker), Poll::Ready(Some(1)));
    queue.close();
    assert_eq!(poll(&mut other.next(), &waker), Poll::Ready(None));
    let mut ticks = pin!(rig.timer.interval(S).take(3).map(|tick| tick - rig.start));
    assert_eq!(poll(&mut ticks.next(), &waker), Poll::Ready(Some(S)));
    assert!(poll(&mut ticks.next(), &waker).is_pending());
    rig.clock.advance(S);
    assert_eq!(poll(&mut ticks.next(), &waker), Poll::Ready(Some(2 * S)));
}
