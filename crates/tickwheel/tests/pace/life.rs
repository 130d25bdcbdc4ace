//! The life of a pacer and its tasks: when they are started, refused, cancelled, handed back and
//! dropped.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::patience::{in_time, until};
use crate::rig::{Bomb, MS, Rig, S, US, counted, dropped};
use tickwheel::pace::{KeyedPacer, PaceError, Pacer, RateError, Unstarted};
use tickwheel::{Timer, WheelKind};

pub(crate) fn rig() -> Rig {
    Rig::new(WheelKind::Hierarchical)
}

#[test]
fn a_burst_is_spread() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 100, S);
    for number in 0..250 {
        pacer.submit(rig.note(number)).unwrap();
    }
    rig.clock.advance(10 * S);
    let noted = rig.noted();
    assert!(noted.iter().map(|&(number, _)| number).eq(0..250), "in order");
    for (number, time) in noted {
        assert_eq!(time, number / 100 * S);
    }
}

#[test]
fn the_window_slides() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 2, S);
    for delay in [0, 700, 0, 0, 0] {
        rig.clock.advance(delay * MS);
        pacer.submit(rig.note(0)).unwrap();
        rig.clock.advance(Duration::ZERO);
    }
    rig.clock.advance(10 * S);
    assert_eq!(rig.times(), [0, 700, 1_000, 1_700, 2_000].map(|ms| ms * MS));
}

#[test]
fn a_start_at_once_does_not_wait_for_a_tick() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 1, S);
    rig.clock.advance(300 * US);
    pacer.submit(rig.note(0)).unwrap();
    rig.clock.advance(Duration::ZERO);
    pacer.submit(rig.note(1)).unwrap();
    rig.clock.advance(2 * S);
    // The other task starts with the tick after its time.
    assert_eq!(rig.noted(), [(0, 300 * US), (1, 1_001 * MS)]);
    assert!(rig.timer.stats().lateness.max() < MS, "neither was late");
}

#[test]
fn rates_of_zero_are_refused_and_change_nothing() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 1, S);
    let error = pacer.set_rate(0, S).unwrap_err();
    assert_eq!(error, RateError::NoStarts { window: S });
    assert_eq!(
        error.to_string(),
        "the number of starts must be at least 1, got 0 in a window of 1s; to start nothing, \
         pause the pacer"
    );
    let error = pacer.set_rate(5, Duration::ZERO).unwrap_err();
    assert!(error.to_string().contains("got 5 starts in a window of 0 ns"));
    (0..3).for_each(|number| drop(pacer.submit(rig.note(number)).unwrap()));
    rig.clock.advance(10 * S);
    assert_eq!(rig.times(), [0, 1, 2].map(|s| s * S));
}

#[test]
#[should_panic(expected = "the number of starts must be at least 1")]
fn a_pacer_without_starts_is_a_mistake() {
    let _ = Pacer::new(&Timer::new(), 0, S);
}

#[test]
fn never_is_never() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 1, Duration::MAX);
    let tickets = [0, 1].map(|number| pacer.submit(rig.note(number)).unwrap());
    rig.clock.advance(100 * 365 * 24 * 3_600 * S);
    assert_eq!(rig.numbers(), [0]);
    assert_eq!(tickets[1].expected_start(), None);
    assert!(tickets[1].is_queued());

    let pacer = Pacer::new(&rig.timer, 1, S);
    pacer.retry_after(Duration::MAX);
    pacer.submit(rig.note(2)).unwrap();
    rig.clock.advance(Duration::MAX);
    assert_eq!((rig.numbers().len(), pacer.stop().len()), (0, 1));
}

#[test]
fn a_full_queue_refuses_and_says_so() {
    let rig = rig();
    let pacer = Pacer::builder(&rig.timer, 1, S).max_queued(2).build().unwrap();
    let tickets = [0, 1].map(|number| pacer.submit(rig.note(number)).unwrap());
    let (counted, count) = counted();
    let error = pacer.submit(move || drop(counted)).unwrap_err();
    assert_eq!(error, PaceError::Full { limit: 2, queued: 2 });
    assert!(error.to_string().contains("queued: 2, limit: 2"));
    assert_eq!(dropped(&count), 1, "what is refused is dropped");
    assert!(tickets[0].cancel());
    pacer.submit(rig.note(2)).unwrap();
    rig.clock.advance(S);
    assert_eq!(rig.numbers(), [1, 2]);
    let stats = pacer.stats();
    assert_eq!((stats.submitted, stats.rejected, stats.cancelled), (3, 1, 1));
}

#[test]
fn all_queues_together_have_a_limit_too() {
    let rig = rig();
    let builder = Pacer::builder(&rig.timer, 1, S).max_queued(2).max_queued_total(3);
    let pacer: KeyedPacer<u8> = builder.build_keyed().unwrap();
    pacer.pause();
    for (key, error) in [
        (1, None),
        (1, None),
        (1, Some(PaceError::Full { limit: 2, queued: 2 })),
        (2, None),
        (3, Some(PaceError::TotalFull { limit: 3, queued: 3 })),
    ] {
        assert_eq!(pacer.key(key).submit(|| {}).err(), error);
    }
    assert_eq!(pacer.stats().keys, 2, "a key that was refused costs nothing");
}

#[test]
fn a_cancelled_task_is_dropped_at_once() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 1, S);
    let (counted, count) = counted();
    let ticket = pacer.submit(move || drop(counted)).unwrap();
    assert!(ticket.cancel());
    assert_eq!(dropped(&count), 1);
    assert!(ticket.is_cancelled() && !ticket.is_started() && !ticket.is_queued());
    assert_eq!((ticket.position(), ticket.expected_start()), (None, None));
    assert!(!ticket.cancel());
    rig.clock.advance(S);
    assert_eq!(pacer.stats().started, 0);
}

#[test]
fn stop_hands_back_what_has_not_started() {
    let rig = rig();
    let pacer: KeyedPacer<&str> = KeyedPacer::new(&rig.timer, 1, S);
    let mut tickets = Vec::new();
    for (number, priority) in [(0, 0), (1, -1), (2, 0), (3, 1)] {
        tickets.push(pacer.key("a").submit_with(priority, rig.note(number)).unwrap());
    }
    pacer.key("b").submit(rig.note(4)).unwrap();
    pacer.key("b").submit(rig.note(5)).unwrap();
    rig.clock.advance(Duration::ZERO);
    assert_eq!(rig.numbers(), [3, 4]);
    let unstarted = pacer.stop();
    let described: Vec<_> = unstarted.iter().map(|task| (*task.key(), task.priority())).collect();
    assert_eq!(described, [("a", 0), ("a", 0), ("a", -1), ("b", 0)]);
    assert!(pacer.stop().is_empty());
    assert_eq!(pacer.key("a").submit(|| {}).unwrap_err(), PaceError::Stopped);
    assert_eq!(pacer.key("a").try_acquire().unwrap_err(), PaceError::Stopped);
    assert_eq!(pacer.stats().rejected, 2);
    for ticket in &tickets[..3] {
        assert!(!ticket.is_started() && !ticket.is_cancelled() && !ticket.is_queued());
        assert!(!ticket.cancel());
    }
    assert!(tickets[3].is_started());
    rig.clock.advance(10 * S);
    assert!(rig.numbers().is_empty(), "nothing starts any more");
    assert_eq!(rig.timer.pending(), 0, "and nothing is left in the timer");
    assert!(unstarted.into_iter().all(Unstarted::run));
    assert_eq!(rig.numbers(), [0, 2, 1, 5]);
}

#[test]
fn what_is_handed_back_may_panic() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 1, S);
    pacer.submit(|| panic!("it may")).unwrap();
    pacer.submit(|| {}).unwrap();
    let ended: Vec<_> = pacer.stop().into_iter().map(Unstarted::run).collect();
    assert_eq!(ended, [false, true]);
}

#[test]
fn dropping_the_last_clone_drops_what_waits() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 1, S);
    let clone = pacer.clone();
    let (counted, count) = counted();
    let bomb = Bomb;
    pacer.submit(move || drop(bomb)).unwrap();
    let ticket = pacer.submit(move || drop(counted)).unwrap();
    drop(pacer);
    assert_eq!((dropped(&count), rig.timer.pending()), (0, 1));
    drop(clone); // the bomb's panic is caught
    assert_eq!((dropped(&count), rig.timer.pending()), (1, 0));
    assert!(!ticket.is_started() && !ticket.is_queued() && !ticket.cancel());
}

#[test]
fn a_pacer_keeps_its_timer_running_and_no_longer() {
    in_time("a pacer without its timer", || {
        let held = Arc::new(());
        let hook = held.clone();
        let timer = Timer::builder().panic_hook(move |_| drop(hook.clone())).build().unwrap();
        let pacer = Pacer::new(&timer, 1, 5 * MS);
        drop(timer);
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let count = count.clone();
            pacer.submit(move || _ = count.fetch_add(1, Ordering::SeqCst)).unwrap();
        }
        until("all have started", || count.load(Ordering::SeqCst) == 3);
        let ticket = pacer.submit(|| {}).unwrap();
        drop(pacer);
        until("the timer is gone", || {
            // The ticket keeps the pacer's shared state alive, but not the timer.
            Arc::strong_count(&held) == 2
        });
        drop(ticket);
        until("all is gone", || Arc::strong_count(&held) == 1);
    });
}

#[test]
fn a_stopped_timer_starts_nothing_and_the_pacer_has_the_rest() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 1, S);
    (0..3).for_each(|number| drop(pacer.submit(rig.note(number)).unwrap()));
    rig.clock.advance(Duration::ZERO);
    let unfired = rig.timer.stop();
    assert_eq!(unfired.len(), 1, "the pacer has one task in the timer");
    assert!(unfired.into_iter().all(tickwheel::Unfired::run));
    rig.clock.advance(10 * S);
    assert_eq!(rig.numbers(), [0]);
    assert_eq!(pacer.submit(|| {}).unwrap_err(), PaceError::Stopped);
    assert_eq!(pacer.try_acquire().unwrap_err(), PaceError::Stopped);
    assert_eq!(pacer.queued(), 2);
    assert_eq!(pacer.stop().len(), 2);
}

#[test]
fn a_draining_timer_takes_no_more() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 1, S);
    (0..3).for_each(|number| drop(pacer.submit(rig.note(number)).unwrap()));
    rig.clock.advance(Duration::ZERO);
    drop(rig.timer.drain(S));
    assert_eq!(pacer.submit(|| {}).unwrap_err(), PaceError::Stopped);
    assert_eq!((rig.numbers().len(), pacer.stop().len()), (1, 2));
}

#[test]
fn a_task_may_stop_its_timer_or_its_pacer() {
    for stops_timer in [false, true] {
        let rig = rig();
        let pacer = Pacer::new(&rig.timer, 100, S);
        let (timer, inside) = (rig.timer.clone(), pacer.clone());
        let handed_back = Arc::new(AtomicUsize::new(0));
        let count = handed_back.clone();
        pacer
            .submit(move || {
                if stops_timer {
                    timer.stop();
                } else {
                    count.fetch_add(inside.stop().len(), Ordering::SeqCst);
                }
            })
            .unwrap();
        (0..5).for_each(|number| drop(pacer.submit(rig.note(number)).unwrap()));
        rig.clock.advance(S);
        assert!(rig.numbers().is_empty(), "nothing starts after that");
        handed_back.fetch_add(pacer.stop().len(), Ordering::SeqCst);
        assert_eq!(handed_back.load(Ordering::SeqCst), 5);
    }
}

#[test]
fn a_task_may_submit_cancel_and_drop_the_pacer() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 100, S);
    let note = rig.note(7);
    let inside = pacer.clone();
    pacer
        .submit(move || {
            let ticket = inside.submit(|| unreachable!()).unwrap();
            assert!(ticket.cancel());
            inside.submit(note).unwrap();
            inside.set_rate(50, S).unwrap();
            inside.retry_after(3 * S);
        })
        .unwrap();
    rig.clock.advance(10 * S);
    assert_eq!(rig.noted(), [(7, 3 * S)]);

    let cell: Arc<Mutex<Option<Pacer>>> = Arc::new(Mutex::new(Some(pacer)));
    let inside = cell.clone();
    let (counted, count) = counted();
    let pacer = cell.lock().unwrap().clone().unwrap();
    pacer.submit(move || drop(inside.lock().unwrap().take())).unwrap();
    pacer.submit(move || drop(counted)).unwrap();
    drop(pacer);
    rig.clock.advance(10 * S);
    assert_eq!((dropped(&count), rig.timer.pending()), (1, 0));
}

#[test]
fn a_panic_frees_the_place_and_is_counted() {
    let rig = rig();
    let pacer = Pacer::builder(&rig.timer, 100, S).max_running(1).build().unwrap();
    pacer.submit(rig.note(0)).unwrap();
    pacer.submit(|| panic!("a task that panics")).unwrap();
    pacer.submit(rig.note(2)).unwrap();
    rig.clock.advance(Duration::ZERO);
    assert_eq!(rig.noted(), [(0, Duration::ZERO), (2, Duration::ZERO)]);
    let stats = pacer.stats();
    assert_eq!((stats.started, stats.running), (3, 0));
    assert_eq!(rig.timer.stats().panicked, 1);
}

#[test]
fn places_are_taken_until_the_end() {
    let rig = rig();
    let pacer = Pacer::builder(&rig.timer, 10, S).max_running(2).build().unwrap();
    let first = pacer.try_acquire().unwrap();
    let second = pacer.try_acquire().unwrap();
    assert_eq!(pacer.try_acquire().unwrap_err(), PaceError::NotYet { until: None });
    (0..3).for_each(|number| drop(pacer.submit(rig.note(number)).unwrap()));
    rig.clock.advance(5 * S);
    assert!(rig.numbers().is_empty());
    assert_eq!(pacer.stats().running, 2);
    drop(first);
    rig.clock.advance(Duration::ZERO);
    assert_eq!(rig.noted(), [0, 1, 2].map(|number| (number, 5 * S)), "one after the other");
    drop(second);
}

#[test]
fn stats_account_for_every_task_and_permit() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 2, S);
    drop(pacer.try_acquire().unwrap());
    assert_eq!((pacer.stats().submitted, pacer.stats().started), (1, 1), "a permit counts");
    (0..4).for_each(|number| drop(pacer.submit(rig.note(number)).unwrap()));
    assert!(pacer.try_acquire().is_err());
    assert_eq!(pacer.stats().submitted, 5, "a permit that was not given does not count");
    pacer.submit(|| {}).unwrap().cancel();
    rig.clock.advance(Duration::ZERO);
    let stats = pacer.stats();
    assert_eq!((stats.submitted, stats.started, stats.cancelled, stats.queued), (6, 2, 1, 3));
}

#[test]
fn a_permit_does_not_overtake_those_who_wait() {
    let rig = rig();
    let pacer = Pacer::new(&rig.timer, 2, S);
    pacer.submit(rig.note(0)).unwrap();
    let error = pacer.try_acquire().unwrap_err();
    assert_eq!(error, PaceError::NotYet { until: None });
    assert!(error.to_string().contains("others wait"));
    rig.clock.advance(Duration::ZERO);
    drop(pacer.try_acquire().unwrap());
    let until = Some(rig.start + S);
    let error = pacer.try_acquire().unwrap_err();
    assert_eq!(error, PaceError::NotYet { until });
    assert!(error.to_string().contains("`until`"));
}

#[test]
fn a_full_timer_does_not_hold_a_pacer_up() {
    let rig = Rig::with(WheelKind::Hierarchical, |builder| builder.max_pending(1));
    rig.timer.after(3_600 * S, || {}).unwrap();
    rig.timer.after(S, || {}).unwrap_err();
    let pacer = Pacer::new(&rig.timer, 1, S);
    (0..3).for_each(|number| drop(pacer.submit(rig.note(number)).unwrap()));
    rig.clock.advance(5 * S);
    assert_eq!(rig.times(), [0, 1, 2].map(|s| s * S));
}

/// A pacer's alarm can take a timer beyond `max_pending`. Replacing a task by its key needs no
/// room there.
#[test]
fn a_key_is_replaced_on_a_timer_that_is_more_than_full() {
    let rig = Rig::with(WheelKind::Hierarchical, |builder| builder.max_pending(1));
    rig.timer.key("order").after(S, rig.note(1)).unwrap();
    let pacer = Pacer::new(&rig.timer, 1, 10 * S);
    (0..2).for_each(|_| drop(pacer.submit(|| {}).unwrap()));
    assert_eq!(rig.timer.pending(), 2);
    rig.timer.key("order").after(2 * S, rig.note(2)).expect("replacing needs no room");
    rig.clock.advance(3 * S);
    assert_eq!(rig.numbers(), [2]);
}

/// The alarms of pacers can take a timer beyond `max_pending`. When the alarms are gone, tasks
/// cannot use that room.
#[test]
fn a_limit_holds_after_alarms_went_beyond_it() {
    let rig = Rig::with(WheelKind::Hierarchical, |builder| builder.max_pending(2));
    let pacers: Vec<_> = (0..5).map(|_| Pacer::new(&rig.timer, 1, 10 * S)).collect();
    for pacer in &pacers {
        (0..2).for_each(|_| drop(pacer.submit(|| {}).unwrap()));
    }
    rig.clock.advance(Duration::ZERO);
    assert_eq!(rig.timer.pending(), 5);
    rig.timer.after(S, || {}).unwrap_err();
    rig.clock.advance(60 * S);
    assert_eq!(rig.timer.pending(), 0);
    (0..2).for_each(|_| drop(rig.timer.after(S, || {}).unwrap()));
    rig.timer.after(S, || {}).unwrap_err();
}

#[test]
fn a_caller_driven_timer_starts_tasks_when_it_turns() {
    let timer = Timer::builder().caller_driven().build().unwrap();
    let pacer = Pacer::new(&timer, 2, 3_600 * S);
    (0..3).for_each(|_| drop(pacer.submit(|| {}).unwrap()));
    assert_eq!(pacer.stats().started, 0);
    assert!(timer.next_deadline().is_some());
    timer.turn();
    assert_eq!((pacer.stats().started, pacer.queued()), (2, 1));
}

#[test]
fn an_executor_that_drops_a_task_only_delays() {
    in_time("an executor that refuses", || {
        let refuses = Arc::new(AtomicBool::new(true));
        let flag = refuses.clone();
        let executor = move |task: tickwheel::Task| {
            if flag.load(Ordering::SeqCst) { drop(task) } else { task.run() }
        };
        let timer = Timer::builder().executor(executor).build().unwrap();
        let pacer = Pacer::new(&timer, 100, S);
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let count = count.clone();
            pacer.submit(move || _ = count.fetch_add(1, Ordering::SeqCst)).unwrap();
        }
        until("it has refused", || timer.stats().rejected > 2);
        assert_eq!(count.load(Ordering::SeqCst), 0);
        refuses.store(false, Ordering::SeqCst);
        until("all have started", || count.load(Ordering::SeqCst) == 10);
        assert!(pacer.stop().is_empty());
        until("nothing is left in the timer", || timer.pending() == 0);
    });
}

#[test]
fn without_a_thread_a_task_is_refused() {
    in_time("a thread that cannot be started", || {
        let fails = Arc::new(AtomicBool::new(true));
        let flag = fails.clone();
        let hook = move |body: tickwheel::ThreadBody| {
            if flag.load(Ordering::SeqCst) {
                return Err(io::Error::other("no threads today"));
            }
            std::thread::Builder::new().spawn(body).map(drop)
        };
        let timer = Timer::builder().thread_hook(hook).build().unwrap();
        let pacer = Pacer::new(&timer, 100, S);
        let (counted, count) = counted();
        let error = pacer.submit(move || unreachable!("{}", dropped(&counted.0))).unwrap_err();
        assert_eq!(error, PaceError::Thread(String::from("no threads today")));
        assert_eq!((dropped(&count), pacer.queued(), timer.pending()), (1, 0, 0));
        fails.store(false, Ordering::SeqCst);
        let ticket = pacer.submit(|| {}).unwrap();
        until("it has started", || ticket.is_started());
        let stats = pacer.stats();
        assert_eq!((stats.submitted, stats.rejected, stats.cancelled), (1, 1, 0));
    });
}
