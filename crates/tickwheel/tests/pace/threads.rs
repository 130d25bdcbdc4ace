//! Pacers with threads and the real clock: promises that hold under any scheduling. Tasks record
//! their starts, and no window contains too many.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::patience::*;
use crate::random::Random;
use tickwheel::pace::{KeyedPacer, PaceError, Pacer, Ticket};
use tickwheel::{ManualClock, Task, Timer};

/// The fates of one task, with their counts.
#[derive(Default)]
struct Fates {
    started: AtomicU8,
    cancelled: AtomicU8,
    dropped: AtomicU8,
}

/// A part of a task's closure that records the task's end.
struct Part(Arc<Fates>);

impl Drop for Part {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// The real start times of the tasks of each key.
#[derive(Clone)]
struct Starts(Arc<Vec<Mutex<Vec<Instant>>>>);

impl Starts {
    fn new(keys: usize) -> Self {
        Self(Arc::new((0..keys).map(|_| Mutex::default()).collect()))
    }

    fn note(&self, key: usize, time: Instant) {
        self.0[key].lock().unwrap().push(time);
    }

    /// Checks that of N + 1 consecutive starts the last is a window after the first. Returns the
    /// number of starts.
    ///
    /// The promise is about the call of a task, but a task records the clock a few instructions
    /// later. In between the thread may be preempted, which on a busy machine happens once in some
    /// ten thousand starts. So a few violations are allowed here; a pacer that read the clock too
    /// early would have many. On a manual clock there is no such gap, and that test is strict.
    fn check(&self, starts: usize, window: Duration) -> usize {
        let mut count = 0;
        let mut short = Vec::new();
        for times in &*self.0 {
            let mut times = times.lock().unwrap().clone();
            times.sort_unstable();
            count += times.len();
            let lengths = times.windows(starts + 1).map(|times| times[starts] - times[0]);
            short.extend(lengths.filter(|&length| length < window));
        }
        let most = 2 + count / 200;
        assert!(short.len() <= most, "of {count}, {} starts within {short:?}", starts + 1);
        count
    }
}

const KEYS: usize = 5;

/// One thread's part of a storm.
struct Storm {
    pacer: KeyedPacer<usize>,
    starts: Starts,
    running: Arc<Vec<AtomicUsize>>,
    max_running: usize,
    accepted: Vec<(Arc<Fates>, Ticket)>,
    refused: Vec<Arc<Fates>>,
}

impl Storm {
    fn submit(&mut self, random: &mut Random) {
        let key = random.below(KEYS as u64) as usize;
        let fates = Arc::new(Fates::default());
        let part = Part(fates.clone());
        let (starts, running) = (self.starts.clone(), self.running.clone());
        let (max_running, fuss) = (self.max_running, random.below(64));
        let task = move || {
            let time = Instant::now();
            starts.note(key, time);
            let beside = running[key].fetch_add(1, Ordering::SeqCst);
            part.0.started.fetch_add(1, Ordering::SeqCst);
            if fuss == 0 {
                thread::sleep(3 * MS); // longer than the timer waits before another steps in
            }
            let _ended = Ended(&running[key]);
            assert!(beside < max_running, "{beside} run beside it");
            assert!(fuss != 1, "a task that panics");
        };
        let priority = random.below(3) as i8 - 1;
        match self.pacer.key(key).submit_with(priority, task) {
            Ok(ticket) => self.accepted.push((fates, ticket)),
            Err(PaceError::Full { .. } | PaceError::Stopped) => self.refused.push(fates),
            Err(error) => panic!("{error}"),
        }
    }

    /// Submits, cancels and changes settings at random until it is told to end.
    fn rage(&mut self, seed: u64, end: &AtomicBool) {
        let mut random = Random(seed);
        while !end.load(Ordering::Relaxed) {
            let key = random.below(KEYS as u64) as usize;
            match random.below(40) {
                0..=24 => self.submit(&mut random),
                25..=30 if !self.accepted.is_empty() => {
                    let which = random.below(self.accepted.len().min(100) as u64) as usize;
                    let (fates, ticket) = &self.accepted[self.accepted.len() - 1 - which];
                    if ticket.cancel() {
                        fates.cancelled.fetch_add(1, Ordering::SeqCst);
                    }
                }
                31 => self.pacer.key(key).pause(),
                32 | 33 => self.pacer.key(key).resume(),
                34 => self.pacer.key(key).retry_after(random.below(4_000) as u32 * US),
                35 => {
                    if let Some((_, ticket)) = self.accepted.last() {
                        let _ = (ticket.position(), ticket.expected_start());
                    }
                }
                36 => {
                    let permit = self.pacer.key(key).try_acquire();
                    // The time of this permit is known only as a range. The end of the range is
                    // safe only for comparisons with earlier starts, so these starts are not
                    // recorded.
                    drop(permit);
                }
                _ => thread::sleep(100 * US),
            }
        }
    }
}

struct Ended<'a>(&'a AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs a storm of threads on a pacer, which is then stopped during the storm or drained after it.
fn storm(timer: &Timer, starts: usize, window: Duration, max_running: usize, stops: bool) {
    let pacer: KeyedPacer<usize> = Pacer::builder(timer, starts, window)
        .max_queued(50)
        .max_running(max_running)
        .build_keyed()
        .unwrap();
    let log = Starts::new(KEYS);
    let end = AtomicBool::new(false);
    let running: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let new_storm = || Storm {
        pacer: pacer.clone(),
        starts: log.clone(),
        running: running.clone(),
        max_running: if max_running == 0 { usize::MAX } else { max_running },
        accepted: Vec::new(),
        refused: Vec::new(),
    };
    let (storms, unstarted) = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                let (mut storm, end) = (new_storm(), &end);
                scope.spawn(move || {
                    storm.rage(seed, end);
                    storm
                })
            })
            .collect();
        thread::sleep(300 * MS);
        let unstarted = if stops { pacer.stop() } else { Vec::new() };
        end.store(true, Ordering::Relaxed);
        let storms: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        (storms, unstarted)
    });
    (0..KEYS).for_each(|key| pacer.key(key).resume());
    until("all have started and ended", || {
        let now = pacer.stats();
        (now.queued, now.running) == (0, 0)
    });
    account(&storms, unstarted.len());
    drop(unstarted);
    let dropped = |fates: &Fates| fates.dropped.load(Ordering::SeqCst) == 1;
    let all = storms.iter().flat_map(|s| s.accepted.iter().map(|a| &a.0).chain(&s.refused));
    let all: Vec<_> = all.collect();
    until("every closure is dropped once", || all.iter().all(|fates| dropped(fates)));
    let count = log.check(starts, window);
    assert!(count > 20, "that was no storm: {count}");
    if !stops {
        until("keys are forgotten", || pacer.stats().keys == 0);
    }
}

/// Checks that each task has had exactly one fate.
fn account(storms: &[Storm], handed_back: usize) {
    let mut without = 0;
    for (fates, ticket) in storms.iter().flat_map(|storm| &storm.accepted) {
        let started = fates.started.load(Ordering::SeqCst);
        let cancelled = fates.cancelled.load(Ordering::SeqCst);
        assert!(started + cancelled <= 1, "{started} {cancelled}");
        assert_eq!((ticket.is_started(), ticket.is_cancelled()), (started == 1, cancelled == 1));
        assert!(!ticket.cancel() && ticket.position().is_none(), "it is over");
        without += 1 - usize::from(started + cancelled);
    }
    assert_eq!(without, handed_back);
    for fates in storms.iter().flat_map(|storm| &storm.refused) {
        assert_eq!(fates.started.load(Ordering::SeqCst), 0, "a refused task started");
    }
}

#[test]
fn no_window_has_too_many_starts_in_a_storm() {
    in_time("a storm", || {
        storm(&Timer::new(), 3, 5 * MS, 0, false);
        storm(&Timer::new(), 1, 2 * MS, 0, false);
        storm(&Timer::builder().tick(50 * US).build().unwrap(), 20, 10 * MS, 2, false);
        storm(&Timer::builder().inline().build().unwrap(), 10, 10 * MS, 1, false);
    });
}

#[test]
fn every_task_has_one_fate_when_the_pacer_is_stopped_in_a_storm() {
    in_time("a storm that is stopped", || {
        storm(&Timer::new(), 3, 5 * MS, 0, true);
        storm(&Timer::builder().workers(1).build().unwrap(), 2, 5 * MS, 1, true);
    });
}

#[test]
fn an_executor_with_many_threads_keeps_the_window() {
    in_time("a storm on a pool", || {
        let (sender, receiver) = mpsc::channel::<Task>();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..4 {
            let receiver = receiver.clone();
            thread::spawn(move || {
                loop {
                    let task = receiver.lock().unwrap().recv();
                    let Ok(task) = task else { return };
                    task.run();
                }
            });
        }
        let timer = Timer::builder().executor(move |task| drop(sender.send(task))).build().unwrap();
        storm(&timer, 5, 5 * MS, 3, false);
    });
}

/// Threads submit and cancel while another one advances a manual clock. No time passes between a
/// start and its record, so every window must be exact.
#[test]
fn no_window_has_too_many_starts_on_a_manual_clock_with_threads() {
    const STARTS: usize = 3;
    const WINDOW: Duration = Duration::from_micros(2_500);
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    let pacer: KeyedPacer<usize> = KeyedPacer::new(&timer, STARTS, WINDOW);
    let log = Starts::new(KEYS);
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..3 {
            let (pacer, log, clock, end) = (&pacer, &log, &clock, &end);
            scope.spawn(move || {
                let mut random = Random(seed);
                while !end.load(Ordering::Relaxed) {
                    let key = random.below(KEYS as u64) as usize;
                    let (log, clock) = (log.clone(), clock.clone());
                    let ticket = pacer.key(key).submit(move || log.note(key, clock.now())).unwrap();
                    match random.below(8) {
                        0..=3 => drop(ticket.cancel()),
                        4 => drop(pacer.key(key).try_acquire()),
                        5 => pacer.key(key).retry_after(random.below(3_000) as u32 * US),
                        _ => thread::yield_now(),
                    }
                }
            });
        }
        let mut random = Random(99);
        let count = |times: &Mutex<Vec<_>>| times.lock().unwrap().len();
        while log.0.iter().map(count).min() < Some(300) {
            clock.advance(random.below(1_500) as u32 * US);
        }
        end.store(true, Ordering::Relaxed);
    });
    while pacer.stats().queued > 0 {
        clock.advance(WINDOW);
    }
    for starts in &*log.0 {
        let starts = starts.lock().unwrap();
        assert!(starts.windows(STARTS + 1).all(|row| row[STARTS] - row[0] >= WINDOW));
    }
}

#[test]
fn a_task_that_blocks_delays_no_other() {
    in_time("blocked tasks", || {
        let timer = Timer::new();
        let pacer = Pacer::new(&timer, 8, Duration::from_secs(3_600));
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let started = Arc::new(AtomicUsize::new(0));
        for _ in 0..8 {
            let (gate, started) = (gate.clone(), started.clone());
            let task = move || {
                started.fetch_add(1, Ordering::SeqCst);
                gate.lock().unwrap().recv().unwrap();
            };
            pacer.submit(task).unwrap();
        }
        until("all have started", || started.load(Ordering::SeqCst) == 8);
        (0..8).for_each(|_| release.send(()).unwrap());
        until("all have ended", || pacer.stats().running == 0);
    });
}

#[test]
fn a_start_that_is_allowed_waits_for_no_long_tick() {
    in_time("starts within a tick", || {
        let timer = Timer::builder().tick(Duration::from_secs(3_600)).build().unwrap();
        let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
        let (sender, receiver) = mpsc::channel();
        for number in 0..20 {
            let sender = sender.clone();
            pacer.submit(move || sender.send(number).unwrap()).unwrap();
            // The turn that starts the task has ended, or is about to, when the next one begins.
            assert_eq!(receiver.recv(), Ok(number));
        }
    });
}

#[test]
fn a_change_of_rate_keeps_the_window_with_threads() {
    in_time("changes of rate", || {
        let timer = Timer::builder().tick(100 * US).build().unwrap();
        let pacer = Pacer::builder(&timer, 4, 4 * MS).max_queued(0).build().unwrap();
        let log = Starts::new(1);
        for _ in 0..300 {
            let log = log.clone();
            pacer.submit(move || log.note(0, Instant::now())).unwrap();
        }
        // The rate changes meanwhile, but never exceeds four starts in four milliseconds.
        let mut random = Random(7);
        while pacer.queued() > 0 {
            pacer.set_rate(1 + random.below(4) as usize, 4 * MS).unwrap();
            thread::sleep(random.below(900) as u32 * US);
        }
        until("all have ended", || pacer.stats().running == 0);
        assert_eq!(log.check(4, 4 * MS), 300);
    });
}
