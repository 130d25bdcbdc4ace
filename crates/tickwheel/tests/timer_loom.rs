//! Models of the timer's concurrent core: loom runs each in every interleaving of its threads, up
//! to a number of preemptions. A lost wake-up shows as a deadlock.
//!
//! `cargo xtask test` runs them with `--cfg tickwheel_loom`; a plain build contains none. In the
//! models time stands still at 0: a task with no delay is due at once, one with a delay never is.
#![cfg(tickwheel_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::thread;
use tickwheel::{Builder, ScheduleError, Timer};

const NOW: Duration = Duration::ZERO;
const NEVER_HERE: Duration = Duration::from_secs(1);

/// Runs a model in every interleaving with at most this number of preemptions.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Returns a timer whose threads are loom's.
fn modelled(builder: Builder) -> Timer {
    let hook = |body: tickwheel::ThreadBody| {
        thread::spawn(body);
        Ok(())
    };
    builder.thread_hook(hook).build().unwrap()
}

/// Returns a timer that runs its tasks on its one thread.
fn inline() -> Timer {
    modelled(Timer::builder().inline())
}

/// Counts how often its tasks ran.
#[derive(Clone)]
struct Runs(Arc<AtomicUsize>);

impl Runs {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    fn task(&self) -> impl FnOnce() + Send + 'static {
        let Self(count) = self.clone();
        move || {
            count.fetch_add(1, SeqCst);
        }
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

#[test]
fn an_insert_finds_the_driver_on_its_way_to_sleep() {
    explore(5, || {
        let timer = inline();
        let runs = Runs::new();
        timer.after(NOW, runs.task()).unwrap();
        // The thread has run the first task, or is about to, or is going to sleep.
        timer.after(NOW, runs.task()).unwrap();
        assert!(timer.drain(Duration::MAX).is_empty());
        assert_eq!(runs.count(), 2);
    });
}

#[test]
fn two_inserts_start_one_driver() {
    explore(3, || {
        let timer = inline();
        let runs = Runs::new();
        let other = thread::spawn({
            let (timer, task) = (timer.clone(), runs.task());
            move || drop(timer.after(NOW, task).unwrap())
        });
        timer.after(NOW, runs.task()).unwrap();
        other.join().unwrap();
        assert!(timer.drain(Duration::MAX).is_empty());
        assert_eq!(runs.count(), 2);
    });
}

#[test]
fn a_cancel_meets_the_firing() {
    explore(5, || {
        let timer = inline();
        let runs = Runs::new();
        let task = timer.after(NOW, runs.task()).unwrap();
        let cancelled = task.cancel();
        assert!(timer.drain(Duration::MAX).is_empty());
        assert_eq!(runs.count() + usize::from(cancelled), 1);
        assert_eq!((task.is_cancelled(), task.is_expired()), (cancelled, !cancelled));
    });
}

#[test]
fn two_cancels_meet_the_firing() {
    explore(4, || {
        let timer = inline();
        let runs = Runs::new();
        let task = Arc::new(timer.after(NOW, runs.task()).unwrap());
        let other = thread::spawn({
            let task = Arc::clone(&task);
            move || task.cancel()
        });
        let cancels = usize::from(task.cancel()) + usize::from(other.join().unwrap());
        assert!(timer.drain(Duration::MAX).is_empty());
        assert_eq!(runs.count() + cancels, 1);
    });
}

#[test]
fn a_reset_to_never_meets_the_firing() {
    explore(5, || {
        let timer = inline();
        let runs = Runs::new();
        let task = timer.after(NOW, runs.task()).unwrap();
        let moved = task.reset(NEVER_HERE);
        let unfired = timer.stop().len();
        assert_eq!(runs.count() + unfired, 1);
        assert!(!moved || unfired == 1, "what was moved does not run");
    });
}

#[test]
fn a_reset_to_now_wakes_the_driver_and_meets_a_cancel() {
    explore(4, || {
        let timer = inline();
        let runs = Runs::new();
        let task = Arc::new(timer.after(NEVER_HERE, runs.task()).unwrap());
        let other = thread::spawn({
            let task = Arc::clone(&task);
            move || task.cancel()
        });
        let moved = task.reset(NOW);
        let cancelled = other.join().unwrap();
        assert!(moved || cancelled);
        assert!(timer.drain(Duration::MAX).is_empty());
        assert_eq!(runs.count() + usize::from(cancelled), 1);
    });
}

#[test]
fn a_stop_meets_an_insert() {
    explore(5, || {
        let timer = inline();
        let runs = Runs::new();
        let other = thread::spawn({
            let (timer, task) = (timer.clone(), runs.task());
            move || match timer.after(NOW, task) {
                Ok(_) => 1,
                Err(ScheduleError::Stopped) => 0,
                Err(other) => panic!("{other}"),
            }
        });
        let unfired = timer.stop().len();
        let accepted = other.join().unwrap();
        assert_eq!(runs.count() + unfired, accepted);
    });
}

#[test]
fn two_stops_meet_a_firing() {
    explore(4, || {
        let timer = inline();
        let runs = Runs::new();
        timer.after(NOW, runs.task()).unwrap();
        let other = thread::spawn({
            let timer = timer.clone();
            move || timer.stop().len()
        });
        let unfired = timer.stop().len() + other.join().unwrap();
        assert_eq!(runs.count() + unfired, 1);
        assert_eq!(timer.pending(), 0);
    });
}

#[test]
fn a_key_is_replaced_from_two_threads() {
    explore(5, || {
        let timer = modelled(Timer::builder().caller_driven());
        let runs = Runs::new();
        let other = thread::spawn({
            let (timer, task) = (timer.clone(), runs.task());
            move || drop(timer.key("order").after(NOW, task).unwrap())
        });
        timer.key("order").after(NOW, runs.task()).unwrap();
        other.join().unwrap();
        assert_eq!((timer.pending(), timer.stats().cancelled), (1, 1));
        timer.turn();
        assert_eq!(runs.count(), 1);
        assert!(!timer.cancel("order"), "a fired key leaves nothing behind");
    });
}

#[test]
fn a_key_is_replaced_while_it_fires() {
    explore(4, || {
        let timer = inline();
        let runs = Runs::new();
        timer.key("order").after(NOW, runs.task()).unwrap();
        timer.key("order").after(NOW, runs.task()).unwrap();
        assert!(timer.drain(Duration::MAX).is_empty());
        let stats = timer.stats();
        assert_eq!(runs.count() as u64, stats.fired);
        assert_eq!(stats.fired + stats.cancelled, 2);
    });
}

#[test]
fn a_guard_comes_and_goes() {
    explore(4, || {
        let timer = modelled(Timer::builder().workers(2));
        let runs = Runs::new();
        timer.after(NOW, runs.task()).unwrap();
        let unfired = timer.stop().len();
        assert_eq!(runs.count() + unfired, 1);
    });
}

/// At no moment of a stop does a handle report that a task has run that is handed back.
#[test]
fn a_handle_is_asked_while_its_timer_is_stopped() {
    explore(4, || {
        let timer = modelled(Timer::builder().caller_driven());
        let task = timer.after(NEVER_HERE, || {}).unwrap();
        let other = thread::spawn({
            let timer = timer.clone();
            move || timer.stop().len()
        });
        assert!(!task.is_expired() && !task.is_cancelled());
        assert_eq!(other.join().unwrap(), 1);
        assert!(task.is_unfired());
    });
}

/// The first attempt to start a thread fails; at most one of two callers is refused.
#[test]
fn a_failed_start_strands_no_task() {
    explore(3, || {
        let fails = AtomicUsize::new(1);
        let hook = move |body: tickwheel::ThreadBody| {
            if fails.fetch_min(0, SeqCst) == 1 {
                return Err(std::io::Error::other("no more threads"));
            }
            thread::spawn(body);
            Ok(())
        };
        let timer = Timer::builder().inline().thread_hook(hook).build().unwrap();
        let runs = Runs::new();
        let other = thread::spawn({
            let (timer, task) = (timer.clone(), runs.task());
            move || usize::from(timer.after(NOW, task).is_ok())
        });
        let accepted = usize::from(timer.after(NOW, runs.task()).is_ok()) + other.join().unwrap();
        assert!(timer.drain(Duration::MAX).is_empty());
        assert_eq!(runs.count(), accepted);
    });
}

/// An event loop that sleeps after `next_deadline` is woken for a task that was scheduled since.
#[test]
fn a_wake_hook_finds_the_event_loop_on_its_way_to_sleep() {
    explore(5, || {
        let wake = Arc::new(loom::sync::Notify::new());
        let hook = {
            let wake = Arc::clone(&wake);
            move || wake.notify()
        };
        let timer = Timer::builder().caller_driven().wake_hook(hook).build().unwrap();
        let runs = Runs::new();
        let other = thread::spawn({
            let (timer, task) = (timer.clone(), runs.task());
            move || drop(timer.after(NOW, task).unwrap())
        });
        while timer.turn() == 0 {
            if timer.next_deadline().is_none() {
                wake.wait();
            }
        }
        assert_eq!(runs.count(), 1);
        other.join().unwrap();
    });
}

/// Returns a timer with two shards: that of this thread, and another for the next thread.
fn sharded(workers: usize) -> Timer {
    modelled(Timer::builder().workers(workers).shards(2))
}

#[test]
fn an_insert_into_another_shard_finds_the_leader_on_its_way_to_sleep() {
    explore(3, || {
        let timer = sharded(1);
        let runs = Runs::new();
        timer.after(NEVER_HERE, runs.task()).unwrap();
        // The leader has checked the first shard, or is about to, or sleeps until its deadline.
        let other = thread::spawn({
            let (timer, task) = (timer.clone(), runs.task());
            move || drop(timer.after(NOW, task).unwrap())
        });
        other.join().unwrap();
        while runs.count() == 0 {
            thread::yield_now();
        }
        assert_eq!(timer.stop().len(), 1);
    });
}

#[test]
fn inserts_into_two_shards_both_run() {
    explore(2, || {
        let timer = sharded(1);
        let runs = Runs::new();
        let other = thread::spawn({
            let (timer, task) = (timer.clone(), runs.task());
            move || drop(timer.after(NOW, task).unwrap())
        });
        timer.after(NOW, runs.task()).unwrap();
        other.join().unwrap();
        assert!(timer.drain(Duration::MAX).is_empty());
        assert_eq!(runs.count(), 2);
    });
}

#[test]
fn a_new_shard_meets_a_stop() {
    explore(3, || {
        let timer = sharded(1);
        let runs = Runs::new();
        timer.after(NEVER_HERE, runs.task()).unwrap();
        let other = thread::spawn({
            let (timer, task) = (timer.clone(), runs.task());
            move || match timer.after(NOW, task) {
                Ok(_) => 1,
                Err(ScheduleError::Stopped) => 0,
                Err(error) => panic!("{error}"),
            }
        });
        let unfired = timer.stop().len();
        let accepted: usize = other.join().unwrap();
        assert_eq!(unfired + runs.count(), 1 + accepted);
        assert_eq!(timer.pending(), 0);
    });
}

#[test]
fn a_limit_is_exact_over_two_shards() {
    explore(3, || {
        let timer = modelled(Timer::builder().workers(1).shards(2).max_pending(1));
        let schedule = |timer: &Timer| match timer.after(NEVER_HERE, || {}) {
            Ok(task) => Some(task),
            Err(ScheduleError::Full { limit: 1, .. }) => None,
            Err(error) => panic!("{error}"),
        };
        let other = thread::spawn({
            let timer = timer.clone();
            move || schedule(&timer)
        });
        let mine = schedule(&timer);
        let others = other.join().unwrap();
        assert_eq!(usize::from(mine.is_some()) + usize::from(others.is_some()), 1);
        assert!(mine.or(others).unwrap().cancel());
        assert!(schedule(&timer).is_some(), "there is room again, wherever the task was");
        assert_eq!(timer.stop().len(), 1);
    });
}

#[test]
fn a_cancel_by_another_thread_meets_the_firing() {
    explore(3, || {
        let timer = sharded(1);
        let runs = Runs::new();
        let task = timer.after(NOW, runs.task()).unwrap();
        let other = thread::spawn(move || task.cancel());
        let cancelled = other.join().unwrap();
        assert!(timer.drain(Duration::MAX).is_empty());
        assert_eq!(runs.count() + usize::from(cancelled), 1);
    });
}
