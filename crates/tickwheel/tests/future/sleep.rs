//! Sleeps on a manual clock: when they are ready, which wakers are woken, and what remains.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::rig::*;
use crate::wakers::*;
use tickwheel::{ScheduleError, Sleep, Timer, TimerState};

fn is_send_sync_unpin<T: Send + Sync + Unpin + 'static>() {}

#[test]
fn a_sleep_can_be_sent_shared_and_moved() {
    is_send_sync_unpin::<Sleep>();
    is_send_sync_unpin::<tickwheel::Interval>();
    is_send_sync_unpin::<tickwheel::TimeoutFuture<std::future::Ready<()>>>();
    assert!(size_of::<Sleep>() <= 64, "{} bytes", size_of::<Sleep>());
}

on_both_wheels!(
    a_sleep_is_ready_at_its_deadline_and_not_before,
    a_sleep_is_pending_while_it_waits_and_gone_when_dropped,
    a_sleep_that_was_never_polled_is_not_on_the_wheel,
    a_sleep_whose_time_came_before_it_was_polled_is_ready_at_once,
    zero_is_ready_at_once_and_max_is_never,
    a_deadline_within_a_tick_is_rounded_up,
    a_waker_is_replaced_only_when_it_differs,
    a_reset_moves_the_deadline_either_way,
    a_reset_wakes_without_another_poll,
    a_reset_to_the_past_wakes_at_once,
    a_reset_to_a_time_within_the_tick_that_has_passed_is_ready,
    an_interval_that_is_reset_to_the_past_ticks_at_once,
    a_reset_after_the_deadline_begins_anew,
    a_reset_between_waking_and_polling_begins_anew,
    many_sleeps_are_woken_in_order,
    a_sleep_that_is_polled_while_others_are_woken_is_not_lost,
    futures_do_not_count_to_max_pending,
    futures_and_tasks_come_in_order_of_deadline,
    statistics_count_futures,
    a_waker_may_call_back,
    a_waker_that_panics_stops_nobody,
    a_sleep_goes_on_when_its_timer_is_stopped,
    a_sleep_begins_on_a_stopped_timer,
    a_sleep_keeps_its_timer,
    draining_does_not_wait_for_futures,
    a_sleep_may_be_pinned_as_others_are,
);

fn a_sleep_is_ready_at_its_deadline_and_not_before(rig: &Rig) {
    let (count, waker) = Count::new();
    let mut sleep = rig.timer.sleep(5 * S);
    assert_eq!(sleep.deadline(), Some(rig.start + 5 * S));
    assert!(poll(&mut sleep, &waker).is_pending());
    rig.clock.advance(4_999 * MS);
    assert_eq!(count.woken(), 0);
    assert!(!sleep.is_elapsed() && poll(&mut sleep, &waker).is_pending());
    rig.clock.advance(MS);
    assert_eq!(count.woken(), 1);
    assert!(sleep.is_elapsed() && poll(&mut sleep, &waker).is_ready());
    assert!(poll(&mut sleep, &waker).is_ready(), "it stays ready");
    assert_eq!((rig.timer.pending(), held(&count)), (0, 0));
}

fn a_sleep_is_pending_while_it_waits_and_gone_when_dropped(rig: &Rig) {
    let (count, waker) = Count::new();
    let mut sleep = rig.timer.sleep(S);
    assert_eq!(rig.timer.pending(), 0, "it begins with the first poll");
    assert!(poll(&mut sleep, &waker).is_pending());
    assert_eq!((rig.timer.pending(), held(&count)), (1, 1));
    drop(sleep);
    assert_eq!((rig.timer.pending(), held(&count)), (0, 0));
    rig.clock.advance(2 * S);
    assert_eq!(count.woken(), 0);
}

fn a_sleep_that_was_never_polled_is_not_on_the_wheel(rig: &Rig) {
    let sleep = rig.timer.sleep(S);
    assert_eq!(rig.timer.next_deadline(), None);
    drop(sleep);
    assert_eq!(rig.timer.stats().scheduled, 0);
}

fn a_sleep_whose_time_came_before_it_was_polled_is_ready_at_once(rig: &Rig) {
    let mut sleep = rig.timer.sleep(S);
    let mut past = rig.timer.sleep_until(rig.start);
    rig.clock.advance(S);
    assert!(poll(&mut sleep, Waker::noop()).is_ready());
    assert!(poll(&mut past, Waker::noop()).is_ready());
    let mut within_a_tick = rig.timer.sleep_until(rig.clock.now() + 100 * US);
    rig.clock.advance(200 * US);
    assert!(poll(&mut within_a_tick, Waker::noop()).is_ready());
    assert_eq!(rig.timer.stats().scheduled, 0, "none of them was on the wheel");
}

fn zero_is_ready_at_once_and_max_is_never(rig: &Rig) {
    assert!(poll(&mut rig.timer.sleep(Duration::ZERO), Waker::noop()).is_ready());
    assert_eq!(rig.timer.stats().scheduled, 0);
    let mut never = rig.timer.sleep(Duration::MAX);
    assert_eq!(never.deadline(), None);
    assert!(poll(&mut never, Waker::noop()).is_pending());
    rig.clock.advance(100 * 365 * 86_400 * S);
    assert!(poll(&mut never, Waker::noop()).is_pending());
    assert!(!never.is_elapsed());
    assert_eq!(rig.timer.next_deadline(), None, "nothing to wake up for");
    never.reset(S);
    rig.clock.advance(S);
    assert!(poll(&mut never, Waker::noop()).is_ready());
    rig.clock.advance(Duration::MAX);
    assert!(poll(&mut rig.timer.sleep(Duration::MAX), Waker::noop()).is_pending());
}

fn a_deadline_within_a_tick_is_rounded_up(rig: &Rig) {
    let (count, waker) = Count::new();
    let mut sleep = rig.timer.sleep(1_500 * US);
    assert!(poll(&mut sleep, &waker).is_pending());
    rig.clock.advance(1_999 * US);
    assert!(poll(&mut sleep, &waker).is_pending() && !sleep.is_elapsed());
    rig.clock.advance(US);
    assert!(sleep.is_elapsed());
    assert_eq!((count.woken(), poll(&mut sleep, &waker)), (1, Poll::Ready(())));
}

fn a_waker_is_replaced_only_when_it_differs(rig: &Rig) {
    let (first, waker) = Count::new();
    let mut sleep = rig.timer.sleep(S);
    for _ in 0..3 {
        assert!(poll(&mut sleep, &waker).is_pending());
        assert_eq!(held(&first), 1);
    }
    let (second, other) = Count::new();
    assert!(poll(&mut sleep, &other).is_pending());
    assert_eq!((held(&first), held(&second)), (0, 1));
    rig.clock.advance(S);
    assert_eq!((first.woken(), second.woken()), (0, 1));
    assert_eq!(held(&second), 0);
}

fn a_reset_moves_the_deadline_either_way(rig: &Rig) {
    let (count, waker) = Count::new();
    let mut sleep = rig.timer.sleep(5 * S);
    assert!(poll(&mut sleep, &waker).is_pending());
    sleep.reset(9 * S);
    rig.clock.advance(8 * S);
    assert!(poll(&mut sleep, &waker).is_pending());
    sleep.reset(rig.clock.now() + 500 * MS);
    assert_eq!(sleep.deadline(), Some(rig.clock.now() + 500 * MS));
    rig.clock.advance(499 * MS);
    assert!(poll(&mut sleep, &waker).is_pending());
    rig.clock.advance(MS);
    assert_eq!((count.woken(), poll(&mut sleep, &waker)), (1, Poll::Ready(())));
    assert_eq!(rig.timer.stats().scheduled, 1);
}

fn a_reset_wakes_without_another_poll(rig: &Rig) {
    let (count, waker) = Count::new();
    let mut sleep = rig.timer.sleep(Duration::MAX);
    assert!(poll(&mut sleep, &waker).is_pending());
    sleep.reset(S);
    rig.clock.advance(S);
    assert_eq!(count.woken(), 1);
}

fn a_reset_to_the_past_wakes_at_once(rig: &Rig) {
    let (count, waker) = Count::new();
    rig.clock.advance(10 * S);
    let mut sleep = rig.timer.sleep(5 * S);
    assert!(poll(&mut sleep, &waker).is_pending());
    sleep.reset(rig.start + S);
    assert_eq!(count.woken(), 1, "without a move of the clock");
    assert!(sleep.is_elapsed() && poll(&mut sleep, &waker).is_ready());
    assert_eq!((rig.timer.pending(), held(&count)), (0, 0));
}

fn a_reset_to_a_time_within_the_tick_that_has_passed_is_ready(rig: &Rig) {
    let (count, waker) = Count::new();
    let mut sleep = rig.timer.sleep(5 * S);
    assert!(poll(&mut sleep, &waker).is_pending());
    rig.clock.advance(10_500 * US);
    sleep.reset(rig.start + 10_501 * US);
    assert!(poll(&mut sleep, &waker).is_pending(), "never early");
    sleep.reset(rig.start + 10_200 * US);
    assert_eq!((count.woken(), poll(&mut sleep, &waker)), (1, Poll::Ready(())));
    assert_eq!((rig.timer.pending(), held(&count)), (0, 0));
}

fn an_interval_that_is_reset_to_the_past_ticks_at_once(rig: &Rig) {
    let (count, waker) = Count::new();
    let mut cx = Context::from_waker(&waker);
    rig.clock.advance(5 * S);
    let mut ticks = rig.timer.interval(10 * S);
    assert!(ticks.poll_tick(&mut cx).is_ready());
    assert!(ticks.poll_tick(&mut cx).is_pending());
    let past = rig.start + 3 * S;
    ticks.reset(past);
    assert_eq!((count.woken(), ticks.poll_tick(&mut cx)), (1, Poll::Ready(past)));
}

fn a_reset_after_the_deadline_begins_anew(rig: &Rig) {
    let (count, waker) = Count::new();
    let mut sleep = rig.timer.sleep(S);
    assert!(poll(&mut sleep, &waker).is_pending());
    rig.clock.advance(S);
    assert!(poll(&mut sleep, &waker).is_ready());
    sleep.reset(S);
    assert!(!sleep.is_elapsed() && poll(&mut sleep, &waker).is_pending());
    rig.clock.advance(S);
    assert_eq!((count.woken(), poll(&mut sleep, &waker)), (2, Poll::Ready(())));
}

fn a_reset_between_waking_and_polling_begins_anew(rig: &Rig) {
    let (count, waker) = Count::new();
    let mut sleep = rig.timer.sleep(S);
    assert!(poll(&mut sleep, &waker).is_pending());
    rig.clock.advance(S);
    assert_eq!(count.woken(), 1);
    sleep.reset(S);
    assert!(poll(&mut sleep, &waker).is_pending(), "the old wake-up does not count");
    rig.clock.advance(S);
    assert_eq!((count.woken(), poll(&mut sleep, &waker)), (2, Poll::Ready(())));
}

fn many_sleeps_are_woken_in_order(rig: &Rig) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut sleeps = Vec::new();
    // More sleeps than one batch for each of a few deadlines.
    for number in 0..1_000_u32 {
        let log = log.clone();
        let mut sleep = rig.timer.sleep(MS * (10 - number % 10));
        let waker = Call::waker(move || log.lock().unwrap().push(10 - number % 10));
        assert!(poll(&mut sleep, &waker).is_pending());
        sleeps.push(sleep);
    }
    rig.clock.advance(S);
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 1_000);
    assert!(log.is_sorted());
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep, Waker::noop()).is_ready()));
}

/// More sleeps are due at once than one batch wakes. Each woken sleep polls another one, which may
/// be in the same batch or in a later one.
fn a_sleep_that_is_polled_while_others_are_woken_is_not_lost(rig: &Rig) {
    const MANY: usize = 1_000;
    type Polled = (Sleep, Waker, bool);
    let all: Arc<Mutex<Vec<Polled>>> = Arc::default();
    let counts: Vec<_> = (0..MANY)
        .map(|number| {
            let (count, waker) = Count::new();
            let others = all.clone();
            let call = Call::waker(move || {
                waker.wake_by_ref();
                let (sleep, waker, ready) = &mut others.lock().unwrap()[number * 7 % MANY];
                *ready |= poll(sleep, waker).is_ready();
            });
            let mut sleep = rig.timer.sleep(S);
            assert!(poll(&mut sleep, &call).is_pending());
            all.lock().unwrap().push((sleep, call, false));
            count
        })
        .collect();
    rig.clock.advance(S);
    for ((sleep, waker, _), count) in all.lock().unwrap().iter_mut().zip(counts) {
        assert_eq!(count.woken(), 1);
        assert!(poll(sleep, waker).is_ready());
    }
    // Each waker holds the list that contains it.
    all.lock().unwrap().clear();
}

fn futures_do_not_count_to_max_pending(rig: &Rig) {
    let rig = rig.again(|builder| builder.max_pending(2));
    let mut sleeps: Vec<_> = (0..5).map(|_| rig.timer.sleep(S)).collect();
    let mut wait = |n: usize| assert!(poll(&mut sleeps[n], Waker::noop()).is_pending());
    wait(0);
    wait(1);
    wait(2);
    rig.timer.after(S, || {}).unwrap();
    rig.timer.after(S, || {}).unwrap();
    wait(3);
    let error = rig.timer.after(S, || {}).unwrap_err();
    assert_eq!(error, ScheduleError::Full { limit: 2, pending: 2 });
    assert_eq!(rig.timer.pending(), 6);
    rig.clock.advance(S);
    assert!(sleeps.iter().all(Sleep::is_elapsed));
}

fn futures_and_tasks_come_in_order_of_deadline(rig: &Rig) {
    let mut sleeps = Vec::new();
    for number in (1..=20).rev() {
        if number % 2 == 0 {
            rig.timer.after(number * S, rig.note(number)).unwrap();
        } else {
            let mut sleep = rig.timer.sleep(number * S);
            assert!(poll(&mut sleep, &Call::waker(rig.note(number))).is_pending());
            sleeps.push(sleep);
        }
    }
    rig.clock.advance(30 * S);
    assert_eq!(rig.noted(), (1..=20).map(|n| (n, n * S)).collect::<Vec<_>>());
}

fn statistics_count_futures(rig: &Rig) {
    let mut fires = rig.timer.sleep(S);
    let mut dropped = rig.timer.sleep(9 * S);
    let mut waits = rig.timer.sleep(9 * S);
    for sleep in [&mut fires, &mut dropped, &mut waits] {
        assert!(poll(sleep, Waker::noop()).is_pending());
    }
    drop(dropped);
    rig.clock.advance(2 * S);
    let stats = rig.timer.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.cancelled, stats.pending), (3, 1, 1, 1));
    assert_eq!(stats.lateness.count(), 1);
}

fn a_waker_may_call_back(rig: &Rig) {
    let other = Arc::new(Mutex::new(rig.timer.sleep(5 * S)));
    assert!(poll(&mut *other.lock().unwrap(), Waker::noop()).is_pending());
    let (timer, note) = (rig.timer.clone(), rig.note(7));
    let mut sleep = rig.timer.sleep(S);
    let waker = Call::waker(move || {
        other.lock().unwrap().reset(2 * S);
        let mut dropped = timer.sleep(S);
        assert!(poll(&mut dropped, Waker::noop()).is_pending());
        timer.after(S, note.clone()).unwrap();
    });
    assert!(poll(&mut sleep, &waker).is_pending());
    rig.clock.advance(2 * S);
    assert_eq!(rig.noted(), [(7, 2 * S)]);
}

fn a_waker_that_panics_stops_nobody(rig: &Rig) {
    let mut sleeps: Vec<_> = (0..300).map(|_| rig.timer.sleep(S)).collect();
    let (count, good) = Count::new();
    let bad = Call::waker(|| panic!("a waker that panics"));
    for (number, sleep) in sleeps.iter_mut().enumerate() {
        let waker = if number % 3 == 0 { &bad } else { &good };
        assert!(poll(sleep, waker).is_pending());
    }
    rig.clock.advance(S);
    assert_eq!(count.woken(), 200);
    assert_eq!(rig.timer.stats().panicked, 100);
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep, &good).is_ready()));
}

fn a_sleep_goes_on_when_its_timer_is_stopped(rig: &Rig) {
    let (count, waker) = Count::new();
    let mut sleep = rig.timer.sleep(5 * S);
    let mut other = rig.timer.sleep(6 * S);
    assert!(poll(&mut sleep, &waker).is_pending() && poll(&mut other, &waker).is_pending());
    rig.timer.after(7 * S, || {}).unwrap();
    assert_eq!(rig.timer.stop().len(), 1, "futures are not handed back");
    assert_eq!(rig.timer.pending(), 0);
    assert_eq!(count.woken(), 2, "they are woken, to go on elsewhere");
    assert!(poll(&mut sleep, &waker).is_pending() && poll(&mut other, &waker).is_pending());
    rig.clock.advance(4_999 * MS);
    assert!(poll(&mut sleep, &waker).is_pending());
    rig.clock.advance(MS);
    assert_eq!((count.woken(), poll(&mut sleep, &waker)), (3, Poll::Ready(())));
    drop(other);
    assert_eq!(held(&count), 0);
    assert_eq!(rig.timer.state(), TimerState::Stopped);
}

fn a_sleep_begins_on_a_stopped_timer(rig: &Rig) {
    rig.timer.stop();
    let (count, waker) = Count::new();
    let mut sleep = rig.timer.sleep(S);
    assert!(poll(&mut sleep, &waker).is_pending());
    sleep.reset(2 * S);
    rig.clock.advance(2 * S);
    assert_eq!((count.woken(), poll(&mut sleep, &waker)), (1, Poll::Ready(())));
}

fn a_sleep_keeps_its_timer(rig: &Rig) {
    let clock = rig.clock.clone();
    let timer = Timer::builder().clock(clock.clone()).wheel(rig.kind).build().unwrap();
    timer.after(S, rig.note(1)).unwrap();
    let (count, waker) = Count::new();
    let mut sleep = timer.sleep(2 * S);
    drop(timer);
    assert!(poll(&mut sleep, &waker).is_pending());
    clock.advance(2 * S);
    assert_eq!(count.woken(), 1);
    assert_eq!(rig.numbers(), [1], "so its tasks ran as well");
}

fn draining_does_not_wait_for_futures(rig: &Rig) {
    let mut sleep = rig.timer.sleep(S);
    assert!(poll(&mut sleep, Waker::noop()).is_pending());
    assert_eq!(rig.timer.drain(Duration::MAX).len(), 0);
    assert!(poll(&mut sleep, Waker::noop()).is_pending());
}

fn a_sleep_may_be_pinned_as_others_are(rig: &Rig) {
    let mut sleep = pin!(rig.timer.sleep(S));
    sleep.as_mut().reset(2 * S);
    rig.clock.advance(2 * S);
    block_on(sleep.as_mut());
    assert!(sleep.is_elapsed());
}

#[test]
fn a_thread_that_cannot_be_started_is_not_a_silent_hang() {
    let timer = Timer::builder()
        .thread_hook(|_| Err(std::io::Error::other("no threads today")))
        .build()
        .unwrap();
    let mut sleep = timer.sleep(S);
    let (count, waker) = Count::new();
    let polled = catch_unwind(AssertUnwindSafe(|| poll(&mut sleep, &waker)));
    let message = *polled.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("no threads today"), "{message}");
    assert_eq!((timer.pending(), held(&count)), (0, 0));
}

/// More sleeps in one slot of the wheel than are moved without releasing the lock.
#[test]
fn every_sleep_of_a_crowded_slot_is_woken() {
    const SLEEPS: usize = 20_000;
    let rig = &Rig::new(tickwheel::WheelKind::default());
    let (count, waker) = Count::new();
    let mut sleeps: Vec<Sleep> = (0..SLEEPS).map(|_| rig.timer.sleep(300 * S)).collect();
    for sleep in &mut sleeps {
        assert!(poll(sleep, &waker).is_pending());
    }
    rig.clock.advance(300 * S);
    assert_eq!(count.woken(), SLEEPS);
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep, &waker).is_ready()));
}
