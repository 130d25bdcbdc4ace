//! Many threads that schedule, cancel and reset at random: every task has exactly one fate.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::patience::*;
use crate::random::Random;
use tickwheel::{
    Builder, ManualClock, ScheduleError, Task, Timeout, Timer, TimerState, Unfired, WheelKind,
};

/// The fates of one task, with their counts.
#[derive(Default)]
struct Fates {
    ran: AtomicU8,
    cancelled: AtomicU8,
    early: AtomicBool,
    dropped: AtomicU8,
}

/// A part of a task's closure that records the task's end.
struct Part(Arc<Fates>);

impl Drop for Part {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// One thread's part of a storm: the tasks that it scheduled, with their fates.
#[derive(Default)]
struct Storm {
    accepted: Vec<(Arc<Fates>, Timeout)>,
    refused: Vec<Arc<Fates>>,
    series: Vec<Arc<Fates>>,
}

impl Storm {
    /// Schedules, cancels and resets at random until it is told to end or refused.
    fn rage(&mut self, timer: &Timer, seed: u64, end: &AtomicBool) {
        let mut random = Random(seed);
        while !end.load(Ordering::Relaxed) {
            let delay = random.below(20_000) as u32 * US;
            let fates = Arc::new(Fates::default());
            let part = Part(fates.clone());
            match random.below(10) {
                0..=3 => {
                    let result = timer.after(delay, once(part, delay));
                    self.keep(fates, result);
                }
                4 | 5 => {
                    let key = random.below(64);
                    let result = timer.key(key).after(delay, once(part, delay));
                    self.keep(fates, result);
                }
                6 => {
                    let result = timer.every(delay + US, move || {
                        part.0.ran.store(1, Ordering::SeqCst);
                    });
                    if let Ok(timeout) = result {
                        if random.below(2) == 0 {
                            thread::yield_now();
                        }
                        let cancelled = timeout.cancel();
                        assert!(cancelled || timer.state() == TimerState::Stopped);
                        self.series.push(fates);
                    }
                }
                7 | 8 if !self.accepted.is_empty() => {
                    let which = random.below(self.accepted.len().min(200) as u64) as usize;
                    let (fates, timeout) = &self.accepted[self.accepted.len() - 1 - which];
                    if timeout.cancel() {
                        fates.cancelled.fetch_add(1, Ordering::SeqCst);
                    }
                }
                _ if !self.accepted.is_empty() => {
                    let which = random.below(self.accepted.len().min(200) as u64) as usize;
                    self.accepted[self.accepted.len() - 1 - which].1.reset(delay + 25 * MS);
                }
                _ => {}
            }
            if timer.state() == TimerState::Stopped {
                return;
            }
            if random.below(16) == 0 {
                thread::sleep(50 * US);
            }
        }
    }

    fn keep(&mut self, fates: Arc<Fates>, result: Result<Timeout, ScheduleError>) {
        match result {
            Ok(timeout) => self.accepted.push((fates, timeout)),
            Err(_) => self.refused.push(fates),
        }
    }

    /// Checks that each task has had exactly one fate, and that its handle reports it.
    /// `handed_back` were dropped without being run.
    fn account(&self, handed_back: &AtomicUsize) {
        for (fates, timeout) in &self.accepted {
            let ran = fates.ran.load(Ordering::SeqCst);
            let cancelled = fates.cancelled.load(Ordering::SeqCst);
            let replaced = u8::from(cancelled == 0 && timeout.is_cancelled());
            let unfired = u8::from(timeout.is_unfired());
            assert_eq!(ran + cancelled + replaced + unfired, 1, "{ran} {cancelled} {replaced}");
            assert_eq!(ran, u8::from(timeout.is_expired()));
            handed_back.fetch_add(usize::from(unfired), Ordering::SeqCst);
            assert!(!fates.early.load(Ordering::SeqCst), "a task was early");
            assert!(!timeout.cancel() && !timeout.reset(S), "it is over");
        }
        for fates in &self.refused {
            assert_eq!(fates.ran.load(Ordering::SeqCst), 0, "a refused task ran");
            assert_eq!(fates.dropped.load(Ordering::SeqCst), 1, "a refused task is not kept");
        }
    }
}

/// Returns a task that records its run, and whether it is early.
fn once(part: Part, delay: Duration) -> impl FnOnce() + Send + 'static {
    let due = Instant::now() + delay;
    move || {
        part.0.ran.fetch_add(1, Ordering::SeqCst);
        part.0.early.fetch_or(Instant::now() < due, Ordering::SeqCst);
    }
}

/// Runs a storm of eight threads on a timer; `stops` threads stop it during the storm. With 0, it
/// is stopped afterwards.
fn storm(timer: &Timer, length: Duration, stops: usize) {
    let end = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..8)
        .map(|seed| {
            let (timer, end) = (timer.clone(), end.clone());
            thread::spawn(move || {
                let mut storm = Storm::default();
                storm.rage(&timer, seed, &end);
                storm
            })
        })
        .collect();
    thread::sleep(length);
    let stoppers: Vec<_> = (0..stops)
        .map(|_| {
            let timer = timer.clone();
            thread::spawn(move || timer.stop())
        })
        .collect();
    let join = |stopper: thread::JoinHandle<Vec<Unfired>>| stopper.join().unwrap();
    let mut unfired: Vec<Unfired> = stoppers.into_iter().flat_map(join).collect();
    end.store(true, Ordering::Relaxed);
    let storms: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    unfired.extend(timer.stop());
    assert_eq!(timer.pending(), 0);
    assert_eq!(timer.state(), TimerState::Stopped);
    let handed_back = AtomicUsize::new(0);
    for storm in &storms {
        storm.account(&handed_back);
    }
    // A periodic task that was stopped between its start and its cancel may be handed back as well.
    let found = unfired.len();
    let tasks = handed_back.load(Ordering::SeqCst);
    assert!((tasks..=tasks + 8).contains(&found), "{tasks} have no fate, {found} were handed back");
    drop(unfired);
    let accepted = storms.iter().map(|storm| storm.accepted.len()).sum::<usize>();
    assert!(accepted > 100, "that was no storm: {accepted}");
    let ran = |storm: &Storm| {
        storm.accepted.iter().filter(|(f, _)| f.ran.load(Ordering::SeqCst) == 1).count()
    };
    assert!(storms.iter().map(ran).sum::<usize>() > 0, "something ran");
    let series = storms.into_iter().flat_map(|storm| storm.series);
    for fates in series {
        assert_eq!(
            fates.dropped.load(Ordering::SeqCst),
            1,
            "the closure of a series is dropped once"
        );
    }
}

#[test]
fn every_task_has_one_fate_in_a_storm() {
    in_time("a storm", || {
        storm(&Timer::new(), S, 0);
        let hashed = WheelKind::Hashed { slots: 16 };
        storm(&Timer::builder().wheel(hashed).tick(100 * US).build().unwrap(), S / 2, 0);
        storm(&Timer::builder().inline().build().unwrap(), S / 4, 0);
        storm(&Timer::builder().executor(Task::run).build().unwrap(), S / 4, 0);
    });
}

#[test]
fn every_task_has_one_fate_when_two_stop_in_the_middle_of_a_storm() {
    in_time("a storm that is stopped", || {
        for round in 0..10 {
            storm(&Timer::new(), (5 + round) * 3 * MS, 2);
        }
        storm(&Timer::builder().workers(1).build().unwrap(), 50 * MS, 2);
        storm(&Timer::builder().inline().build().unwrap(), 50 * MS, 2);
    });
}

/// More tasks in one slot of the wheel than are moved without releasing the lock.
#[test]
fn every_task_of_a_crowded_slot_runs() {
    const TASKS: usize = 50_000;
    for kind in [WheelKind::Hierarchical, WheelKind::Hashed { slots: 512 }] {
        let clock = ManualClock::new();
        let timer = Timer::builder().wheel(kind).clock(clock.clone()).build().unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        for number in 0..TASKS {
            let count = Arc::clone(&count);
            let delay = Duration::from_millis(300_000 + number as u64 % 7);
            let run = move || _ = count.fetch_add(1, Ordering::SeqCst);
            let task = timer.after(delay, run).unwrap();
            if number % 3 == 0 {
                assert!(task.cancel());
            }
        }
        clock.advance(Duration::from_millis(300_007));
        let expected = TASKS - TASKS.div_ceil(3);
        until("all tasks have run", || count.load(Ordering::SeqCst) == expected);
        assert_eq!(timer.pending(), 0);
    }
}

/// A task of a storm over all shards. Other threads cancel, reset and replace it.
struct Shared {
    fates: Arc<Fates>,
    timeout: Timeout,
    is_keyed: bool,
}

/// Takes part in a storm over all shards until scheduling is refused permanently. The tasks of all
/// threads are in `tasks`, so most of them are cancelled and reset by a thread of another shard.
fn storm_all_shards(timer: &Timer, seed: u64, tasks: &Mutex<Vec<Arc<Shared>>>, limit: usize) {
    let mut random = Random(seed);
    loop {
        let delay = random.below(3_000) as u32 * US;
        let choice = random.below(12);
        if choice < 7 {
            let fates = Arc::new(Fates::default());
            let task = once(Part(fates.clone()), delay);
            let is_keyed = choice < 3;
            let result = match choice {
                // More keys than shards, and few enough to be replaced often.
                0..=2 => timer.key(random.below(32)).after(delay, task),
                3 => timer.at(Instant::now() + delay, task),
                _ => timer.after(delay, task),
            };
            match result {
                Ok(timeout) => {
                    let shared = Arc::new(Shared { fates, timeout, is_keyed });
                    tasks.lock().unwrap().push(shared);
                }
                Err(ScheduleError::Full { limit: told, pending }) => {
                    assert_eq!((told, pending), (limit, limit));
                    assert_eq!(
                        fates.dropped.load(Ordering::SeqCst),
                        1,
                        "a refused task is dropped"
                    );
                    thread::yield_now();
                }
                Err(ScheduleError::Stopped) => return,
                Err(error) => panic!("{error}"),
            }
        } else if let Some(shared) = {
            let tasks = tasks.lock().unwrap();
            let recent = tasks.len().min(300) as u64;
            (recent > 0).then(|| tasks[tasks.len() - 1 - random.below(recent) as usize].clone())
        } {
            match choice {
                7 | 8 if shared.timeout.cancel() => {
                    shared.fates.cancelled.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(shared.fates.dropped.load(Ordering::SeqCst), 1, "freed at once");
                }
                // Later than any delay: `once` knows only the first deadline.
                9 => _ = shared.timeout.reset(4 * MS),
                10 => assert!(timer.pending() <= limit),
                _ => {}
            }
        }
        if random.below(16) == 0 {
            thread::sleep(20 * US);
        }
    }
}

/// Runs a storm of eight threads on a timer with a limit, which `end` then ends. Every task has one
/// fate.
fn end_a_storm_over_all_shards(builder: Builder, end: impl FnOnce(&Timer) -> Vec<Unfired>) {
    const LIMIT: usize = 150;
    let timer = builder.shards(8).max_pending(LIMIT).build().unwrap();
    let tasks = Mutex::new(Vec::new());
    let unfired = thread::scope(|scope| {
        for seed in 0..8 {
            let (timer, tasks) = (&timer, &tasks);
            scope.spawn(move || storm_all_shards(timer, seed, tasks, LIMIT));
        }
        until("tasks of every kind have ended", || {
            let stats = timer.stats();
            stats.fired > 500 && stats.cancelled > 500 && stats.rejected > 0
        });
        end(&timer)
    });
    assert_eq!((timer.pending(), timer.stop().len()), (0, 0));
    let tasks = tasks.into_inner().unwrap();
    let stats = timer.stats();
    assert_eq!(stats.scheduled, tasks.len() as u64);
    assert_eq!(stats.scheduled, stats.fired + stats.cancelled + unfired.len() as u64);
    let mut handed_back = 0;
    for Shared { fates, timeout, is_keyed } in tasks.iter().map(|shared| &**shared) {
        let ran = fates.ran.load(Ordering::SeqCst);
        let cancelled = fates.cancelled.load(Ordering::SeqCst);
        let replaced = u8::from(*is_keyed && cancelled == 0 && timeout.is_cancelled());
        let is_unfired = timeout.is_unfired();
        assert_eq!(ran + cancelled + replaced + u8::from(is_unfired), 1, "{ran} {cancelled}");
        assert_eq!(ran == 1, timeout.is_expired());
        assert_eq!(fates.dropped.load(Ordering::SeqCst), u8::from(!is_unfired));
        assert!(!fates.early.load(Ordering::SeqCst), "a task was early");
        handed_back += usize::from(is_unfired);
    }
    assert_eq!(unfired.len(), handed_back);
}

#[test]
fn every_task_has_one_fate_in_a_storm_over_all_shards() {
    in_time("storms over all shards", || {
        for _ in 0..3 {
            end_a_storm_over_all_shards(Timer::builder(), Timer::stop);
            end_a_storm_over_all_shards(Timer::builder(), |timer| {
                let unfired = timer.drain(PATIENCE);
                assert_eq!(unfired.len(), 0, "all that was pending has run");
                unfired
            });
        }
        end_a_storm_over_all_shards(Timer::builder().workers(1).tick(50 * US), Timer::stop);
        end_a_storm_over_all_shards(Timer::builder().executor(Task::run), Timer::stop);
    });
}
