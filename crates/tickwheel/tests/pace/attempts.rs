//! Tasks that are retried, such as a call that the partner answers with status 429.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::patience::{MS, S, in_time};
use crate::rig::{Rig, counted, dropped};
use tickwheel::pace::{Attempt, KeyedPacer, Pacer, Unstarted};
use tickwheel::{Timer, WheelKind};

fn rig() -> Rig {
    Rig::new(WheelKind::Hierarchical)
}

/// Returns a task that records every attempt, and asks for a retry this many times.
fn refused(rig: &Rig, number: u32, times: u32, delay: Duration) -> impl FnMut() -> Attempt + use<> {
    let (note, mut left) = (rig.note(number), times);
    move || {
        note();
        if left == 0 {
            return Attempt::Done;
        }
        left -= 1;
        Attempt::RetryAfter(delay)
    }
}

#[test]
fn a_refused_call_keeps_its_place_and_holds_up_the_others() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 10, S);
    let first = pacer.submit_attempts(refused(&rig, 0, 2, 3 * S)).unwrap();
    let second = pacer.submit(rig.note(1)).unwrap();
    let urgent = pacer.submit_with(1, rig.note(2)).unwrap();
    rig.clock.advance(Duration::ZERO);
    assert_eq!(rig.numbers(), [2, 0]);
    assert!(urgent.is_started() && first.is_queued() && !first.is_started());
    assert_eq!((first.position(), second.position()), (Some(0), Some(1)));
    assert_eq!(first.expected_start(), Some(rig.start + 3 * S));
    rig.clock.advance(10 * S);
    assert_eq!(rig.noted(), [(0, 3 * S), (0, 6 * S), (1, 6 * S)]);
    assert!(first.is_started() && second.is_started());
    let stats = pacer.stats();
    assert_eq!((stats.submitted, stats.retried, stats.started), (3, 2, 5));
    assert_eq!((stats.queued, stats.running), (0, 0));
}

#[test]
fn every_attempt_counts_for_the_window() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 2, S);
    pacer.submit_attempts(refused(&rig, 0, 4, Duration::ZERO)).unwrap();
    rig.clock.advance(10 * S);
    assert_eq!(rig.times(), [0, 0, 1, 1, 2].map(|s| s * S));
}

#[test]
fn a_refused_call_delays_its_key_only() {
    let rig = rig();
    let pacer: KeyedPacer<u8> = KeyedPacer::new(&rig.timer, 1, S);
    pacer.key(1).submit_attempts(refused(&rig, 10, 1, 5 * S)).unwrap();
    pacer.key(1).submit(rig.note(11)).unwrap();
    (20..22).for_each(|number| drop(pacer.key(2).submit(rig.note(number)).unwrap()));
    rig.clock.advance(2 * S);
    assert_eq!(rig.noted(), [(10, Duration::ZERO), (20, Duration::ZERO), (21, S)]);
    rig.clock.advance(10 * S);
    assert_eq!(rig.noted(), [(10, 5 * S), (11, 6 * S)]);
    assert_eq!(pacer.stats().keys, 0, "keys are forgotten as ever");
}

/// Refused calls that run at the same time may end in any order; their retries are made in the
/// order of submission.
#[test]
fn refused_calls_return_in_the_order_of_submission() {
    in_time("calls that are refused together", || {
        const CALLS: usize = 4;
        let timer = Timer::new();
        let pacer = Pacer::new(&timer, 100, S);
        pacer.pause();
        // The attempts of a round end in the opposite order of their start.
        let ended = Arc::new(AtomicUsize::new(CALLS));
        let (sender, order) = std::sync::mpsc::channel();
        for number in 0..CALLS {
            let (ended, sender) = (ended.clone(), sender.clone());
            let mut is_first = true;
            let call = move || {
                if !std::mem::take(&mut is_first) {
                    sender.send(number).unwrap();
                    return Attempt::Done;
                }
                while ended.load(Ordering::SeqCst) != number + 1 {
                    std::thread::yield_now();
                }
                ended.store(number, Ordering::SeqCst);
                Attempt::RetryAfter(200 * MS)
            };
            pacer.submit_attempts(call).unwrap();
        }
        drop(sender);
        pacer.resume();
        let order: Vec<usize> = order.iter().collect();
        assert_eq!(order, [0, 1, 2, 3]);
    });
}

#[test]
fn a_refused_call_can_be_cancelled_and_handed_back() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 10, S);
    let (held, count) = counted();
    let mut call = refused(&rig, 0, 9, S);
    let cancelled = pacer.submit_attempts(move || {
        let _ = &held;
        call()
    });
    pacer.submit_attempts_with(-1, refused(&rig, 1, 9, S)).unwrap();
    rig.clock.advance(S);
    assert_eq!(rig.noted(), [(0, Duration::ZERO), (0, S)]);
    assert!(cancelled.unwrap().cancel());
    assert_eq!(dropped(&count), 1);
    rig.clock.advance(S);
    assert_eq!(rig.noted(), [(1, 2 * S)]);
    let left = pacer.stop();
    assert_eq!((left.len(), left[0].priority()), (1, -1));
    assert!(left.into_iter().all(Unstarted::run));
    assert_eq!(rig.noted(), [(1, 2 * S)], "what is handed back runs once");
}

#[test]
fn a_panic_ends_a_task_and_so_does_a_stop_during_an_attempt() {
    let rig = rig();
    let pacer = Pacer::builder(&rig.timer, 10, S).max_running(1).build().unwrap();
    let ticket = pacer.submit_attempts(|| panic!("an attempt that panics")).unwrap();
    let (held, count) = counted();
    let inside = pacer.clone();
    pacer
        .submit_attempts(move || {
            let _ = &held;
            assert!(inside.stop().is_empty());
            Attempt::RetryAfter(S)
        })
        .unwrap();
    rig.clock.advance(10 * S);
    assert!(ticket.is_started());
    let stats = pacer.stats();
    assert_eq!((stats.started, stats.retried, stats.queued, stats.running), (2, 0, 0, 0));
    assert_eq!(dropped(&count), 1);
    assert_eq!(rig.timer.pending(), 0);
}

#[test]
fn a_drain_waits_for_the_last_attempt() {
    in_time("a refused call during a drain", || {
        for drains_timer in [false, true] {
            let timer = Timer::new();
            let pacer = Pacer::new(&timer, 10, 5 * MS);
            let calls = Arc::new(AtomicUsize::new(0));
            let count = calls.clone();
            let call = move || match count.fetch_add(1, Ordering::SeqCst) {
                0..3 => Attempt::RetryAfter(5 * MS),
                _ => Attempt::Done,
            };
            pacer.submit_attempts(call).unwrap();
            let limit = Duration::from_secs(3_600);
            let left =
                if drains_timer { timer.drain(limit).len() } else { pacer.drain(limit).len() };
            assert_eq!((left, calls.load(Ordering::SeqCst)), (0, 4));
        }
    });
}
