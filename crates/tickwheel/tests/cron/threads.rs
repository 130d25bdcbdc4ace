//! Calendar tasks with a timer's threads and the real clock. A schedule has no times closer than a
//! second, so the load comes from missed times: those of a past hour, which are caught up on
//! without a pause.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::patience::*;
use crate::random::Random;
use tickwheel::cron::{Misfire, Schedule};
use tickwheel::{Timeout, Timer};

const HOUR: Duration = Duration::from_secs(3600);

/// A schedule for each second of an hour that ended some hours ago, and when that hour began.
fn hour_that_is_over() -> (Schedule, SystemTime) {
    let hours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 3600 - 3;
    let schedule = Schedule::new(&format!("* * {} * * *", hours % 24), "UTC").unwrap();
    (schedule, UNIX_EPOCH + Duration::from_secs(hours * 3600))
}

/// Counts its runs, and records whether two overlap.
#[derive(Clone, Default)]
struct Counter {
    runs: Arc<AtomicUsize>,
    running: Arc<AtomicBool>,
    beside: Arc<AtomicBool>,
}

impl Counter {
    fn task(&self) -> impl FnMut() + Send + use<> {
        let Self { runs, running, beside } = self.clone();
        move || {
            if running.swap(true, Ordering::SeqCst) {
                beside.store(true, Ordering::SeqCst);
            }
            runs.fetch_add(1, Ordering::SeqCst);
            running.store(false, Ordering::SeqCst);
        }
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

fn start(timer: &Timer, counter: &Counter, limit: usize) -> Timeout {
    let (schedule, began) = hour_that_is_over();
    let task = timer.calendar(schedule).misfire(Misfire::All { limit });
    task.since(began - Duration::from_secs(1)).start(counter.task()).unwrap()
}

#[test]
fn every_missed_time_has_its_run_and_no_more() {
    let timer = Timer::new();
    let tasks: Vec<(Counter, Timeout, usize)> = (0..12)
        .map(|index| {
            let (counter, limit) = (Counter::default(), [1, 100, 3_599, 3_600, 9_999][index % 5]);
            let timeout = start(&timer, &counter, limit);
            (counter, timeout, limit.min(3_600))
        })
        .collect();
    for (counter, timeout, expected) in &tasks {
        until("all runs", || counter.runs() == *expected);
        until("waits for tomorrow", || timeout.remaining().is_some_and(|left| left > 12 * HOUR));
        assert_eq!(counter.runs(), *expected);
        assert!(!counter.beside.load(Ordering::SeqCst), "ran beside itself");
    }
    assert_eq!(timer.pending(), tasks.len());
    let expected: usize = tasks.iter().map(|(_, _, expected)| expected).sum();
    assert_eq!(timer.stats().fired, expected as u64);
}

#[test]
fn a_task_that_was_cancelled_does_not_start_again() {
    let timer = Timer::new();
    let cancelled = AtomicUsize::new(0);
    thread::scope(|scope| {
        for seed in 0..4 {
            let (timer, cancelled) = (&timer, &cancelled);
            scope.spawn(move || {
                let mut random = Random(seed);
                for _ in 0..60 {
                    let counter = Counter::default();
                    let timeout = start(timer, &counter, 3_600);
                    let wanted = random.below(40) as usize;
                    until("some runs", || counter.runs() >= wanted);
                    assert!(timeout.cancel() && !timeout.cancel());
                    cancelled.fetch_add(1, Ordering::SeqCst);
                    // The run that was just starting may still count.
                    let after = counter.runs() + 1;
                    timer.after(MS, || {}).unwrap();
                    thread::sleep(MS);
                    assert!(counter.runs() <= after, "started after it was cancelled");
                    assert!(!counter.beside.load(Ordering::SeqCst));
                }
            });
        }
    });
    until("all have run", || timer.pending() == 0);
    let stats = timer.stats();
    assert_eq!(stats.cancelled, cancelled.load(Ordering::SeqCst) as u64);
    assert_eq!(stats.panicked, 0);
}

#[test]
fn of_racing_tasks_with_one_key_one_goes_on() {
    let timer = Timer::new();
    let timeouts: Vec<Timeout> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let start = || {
                        let (schedule, began) = hour_that_is_over();
                        let task = timer.key("report").calendar(schedule).since(began);
                        task.misfire(Misfire::All { limit: 50 }).start(|| {}).unwrap()
                    };
                    (0..50).map(|_| start()).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    until("one is pending", || timer.pending() == 1);
    assert_eq!(timeouts.iter().filter(|timeout| !timeout.is_cancelled()).count(), 1);
    assert!(timer.cancel("report"));
    assert_eq!(timer.pending(), 0);
}

#[test]
fn by_the_clock_of_the_machine_no_second_has_two_runs_and_none_is_early() {
    let timer = Timer::new();
    let runs: Arc<Mutex<Vec<SystemTime>>> = Arc::default();
    let noted = runs.clone();
    let start = SystemTime::now();
    let task = timer.cron("* * * * * *", "Europe/Berlin", move || {
        noted.lock().unwrap().push(SystemTime::now());
    });
    let task = task.unwrap();
    until("three runs", || runs.lock().unwrap().len() >= 3);
    assert!(task.cancel());
    let runs = runs.lock().unwrap();
    let second = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(second(runs[0]) > second(start));
    assert!(runs.is_sorted_by(|&one, &next| second(one) < second(next)), "{runs:?}");
}

#[test]
fn a_run_that_the_executor_drops_is_followed_by_the_next() {
    let given = AtomicUsize::new(0);
    let execute = move |task: tickwheel::Task| {
        // Every third task is dropped.
        if given.fetch_add(1, Ordering::SeqCst) % 3 != 2 {
            task.run();
        }
    };
    let timer = Timer::builder().executor(execute).build().unwrap();
    let counter = Counter::default();
    let timeout = start(&timer, &counter, 300);
    until("waits for tomorrow", || timeout.remaining().is_some_and(|left| left > 12 * HOUR));
    assert_eq!((counter.runs(), timer.stats().rejected), (200, 100));
}
