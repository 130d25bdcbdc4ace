//! The fate of queued tasks when a pacer or its timer drains.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::patience::{MS, PATIENCE, S, in_time, until};
use crate::rig::Rig;
use tickwheel::pace::{KeyedPacer, PaceError, Pacer, Unstarted};
use tickwheel::{Timer, TimerState, WheelKind};

/// The time limit of a drain: far longer than a drain takes here.
const HOUR: Duration = Duration::from_secs(3_600);

/// Counts the tasks that have run.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicUsize>);

impl Runs {
    fn task(&self) -> impl FnOnce() + Send + use<> {
        let count = self.0.clone();
        move || _ = count.fetch_add(1, Ordering::SeqCst)
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn a_draining_timer_starts_what_its_pacers_have_queued() {
    in_time("a timer with pacers drains", || {
        let timer = Timer::new();
        let pacer = Pacer::new(&timer, 5, 10 * MS);
        let keyed: KeyedPacer<u8> = KeyedPacer::new(&timer, 1, 10 * MS);
        let runs = Runs::default();
        (0..40).for_each(|_| drop(pacer.submit(runs.task()).unwrap()));
        (0..8).for_each(|key| drop(keyed.key(key % 2).submit(runs.task()).unwrap()));
        assert_eq!(timer.drain(HOUR).len(), 0);
        assert_eq!(runs.count(), 48);
        assert!(pacer.stop().is_empty() && keyed.stop().is_empty());
    });
}

#[test]
fn a_draining_timer_does_not_wait_for_keys_to_be_forgotten() {
    in_time("a timer with an idle pacer drains", || {
        let timer = Timer::new();
        let pacer = Pacer::new(&timer, 5, HOUR);
        let runs = Runs::default();
        pacer.submit(runs.task()).unwrap();
        until("the task has run", || runs.count() == 1);
        assert_eq!(timer.drain(HOUR).len(), 0);
    });
    let rig = Rig::new(WheelKind::Hierarchical);
    let pacer = Pacer::new(&rig.timer, 5, S);
    pacer.submit(rig.note(0)).unwrap();
    rig.clock.advance(Duration::ZERO);
    assert_eq!(rig.timer.pending(), 1, "the alarm to forget the key");
    assert_eq!(rig.timer.drain(HOUR).len(), 0, "which is not reported");
}

#[test]
fn cancelling_the_last_task_ends_a_drain() {
    in_time("the last task is cancelled during a drain", || {
        let timer = Timer::new();
        let pacer = Pacer::new(&timer, 1, HOUR);
        let runs = Runs::default();
        pacer.submit(runs.task()).unwrap();
        let ticket = pacer.submit(runs.task()).unwrap();
        until("the first task has run", || runs.count() == 1);
        let drained = std::thread::spawn({
            let timer = timer.clone();
            move || timer.drain(HOUR).len()
        });
        until("it drains", || timer.state() == TimerState::Draining);
        assert!(ticket.cancel());
        assert_eq!(drained.join().unwrap(), 0);
    });
}

#[test]
fn a_draining_timer_reports_a_pacer_that_has_tasks_left() {
    in_time("a timer with a paused pacer drains", || {
        for starts in [false, true] {
            let timer = Timer::new();
            let pacer = Pacer::new(&timer, 1, HOUR);
            if starts {
                timer.start().unwrap();
            }
            pacer.pause();
            (0..35).for_each(|_| drop(pacer.submit(|| unreachable!()).unwrap()));
            let left = timer.drain(20 * MS);
            assert_eq!(left.len(), 1, "one entry for the pacer");
            assert!(left.into_iter().all(tickwheel::Unfired::run));
            assert_eq!(pacer.stop().len(), 35, "which has its tasks still");
        }
    });
}

#[test]
fn a_draining_timer_waits_for_a_place_to_run() {
    in_time("a permit is held while the timer drains", || {
        let timer = Timer::new();
        let pacer = Pacer::builder(&timer, 10, MS).max_running(1).build().unwrap();
        let permit = pacer.try_acquire().unwrap();
        let runs = Runs::default();
        pacer.submit(runs.task()).unwrap();
        let drained = std::thread::spawn({
            let timer = timer.clone();
            move || timer.drain(HOUR).len()
        });
        until("it drains", || timer.state() == TimerState::Draining);
        assert_eq!(runs.count(), 0);
        drop(permit);
        assert_eq!((drained.join().unwrap(), runs.count()), (0, 1));
    });
}

#[test]
fn a_draining_pacer_takes_no_more_and_starts_the_rest() {
    in_time("a pacer drains", || {
        let timer = Timer::new();
        let pacer = Pacer::new(&timer, 5, 10 * MS);
        let runs = Runs::default();
        (0..40).for_each(|_| drop(pacer.submit(runs.task()).unwrap()));
        assert_eq!(pacer.drain(HOUR).len(), 0);
        assert_eq!(runs.count(), 40, "all have ended when it returns");
        assert_eq!(pacer.submit(|| {}).unwrap_err(), PaceError::Stopped);
        assert_eq!(pacer.try_acquire().unwrap_err(), PaceError::Stopped);
        assert!(pacer.drain(HOUR).is_empty(), "a second drain has nothing to wait for");
        timer.after(Duration::ZERO, runs.task()).expect("the timer runs on");
        until("a task of the timer has run", || runs.count() == 41);
    });
}

#[test]
fn a_drain_ends_at_its_limit_and_hands_back_the_rest() {
    in_time("a pacer that cannot start everything drains", || {
        let timer = Timer::new();
        let pacer = Pacer::new(&timer, 1, HOUR);
        let runs = Runs::default();
        (0..3).for_each(|_| drop(pacer.submit(runs.task()).unwrap()));
        until("the first task has run", || runs.count() == 1);
        let left = pacer.drain(20 * MS);
        assert_eq!(left.len(), 2);
        assert!(left.into_iter().all(Unstarted::run));
        assert_eq!(runs.count(), 3);
    });
}

#[test]
fn stopping_a_pacer_or_its_timer_ends_a_drain() {
    in_time("a drain is cut short", || {
        for stops_timer in [false, true] {
            let timer = Timer::new();
            let pacer = Pacer::new(&timer, 1, HOUR);
            pacer.pause();
            (0..3).for_each(|_| drop(pacer.submit(|| {}).unwrap()));
            let drained = std::thread::spawn({
                let pacer = pacer.clone();
                move || pacer.drain(HOUR).len()
            });
            until("it drains", || pacer.try_acquire().err() == Some(PaceError::Stopped));
            let stopped = if stops_timer { timer.stop().len() - 1 } else { pacer.stop().len() };
            assert_eq!(stopped + drained.join().unwrap(), 3, "each task is handed back once");
        }
    });
}

#[test]
fn a_drain_does_not_wait_where_nothing_would_run() {
    let rig = Rig::new(WheelKind::Hierarchical);
    let pacer = Pacer::new(&rig.timer, 1, S);
    (0..3).for_each(|number| drop(pacer.submit(rig.note(number)).unwrap()));
    assert_eq!(pacer.drain(HOUR).len(), 3);

    in_time("a task drains its own pacer", || {
        let timer = Timer::new();
        let pacer = Pacer::new(&timer, 1, HOUR);
        let (sender, left) = std::sync::mpsc::channel();
        let inside = pacer.clone();
        pacer.pause();
        pacer.submit(move || sender.send(inside.drain(HOUR).len()).unwrap()).unwrap();
        (0..3).for_each(|_| drop(pacer.submit(|| {}).unwrap()));
        pacer.resume();
        assert_eq!(left.recv_timeout(PATIENCE), Ok(3));
    });
}
