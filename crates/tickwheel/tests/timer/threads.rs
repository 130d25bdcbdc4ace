//! A timer with its threads and the real clock: promises that hold under any scheduling. Upper
//! bounds on time are seconds; only lower bounds are tight.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::patience::*;
use crate::random::Random;
use tickwheel::{ScheduleError, Timeout, Timer, TimerState};

#[test]
fn the_limit_is_never_exceeded() {
    const LIMIT: usize = 100;
    let timer = Timer::builder().max_pending(LIMIT).build().unwrap();
    let full = AtomicUsize::new(0);
    thread::scope(|scope| {
        for seed in 0..6 {
            let (timer, full) = (&timer, &full);
            scope.spawn(move || {
                let mut random = Random(seed);
                let end = Instant::now() + 300 * MS;
                let mut last: Option<Timeout> = None;
                while Instant::now() < end {
                    let delay = random.below(5_000) as u32 * US;
                    let result = match random.below(3) {
                        0 => timer.key(random.below(20)).after(delay, || {}),
                        _ => timer.after(delay, || {}),
                    };
                    match result {
                        Ok(timeout) => last = Some(timeout),
                        Err(ScheduleError::Full { limit, pending }) => {
                            assert_eq!((limit, pending), (LIMIT, LIMIT));
                            full.fetch_add(1, Ordering::Relaxed);
                            thread::yield_now();
                        }
                        Err(error) => panic!("{error}"),
                    }
                    if random.below(3) == 0 {
                        last.take().map(|timeout| timeout.cancel());
                    }
                    assert!(timer.pending() <= LIMIT);
                }
            });
        }
    });
    assert!(full.load(Ordering::Relaxed) > 0, "the limit was reached");
    until("all have run", || timer.pending() == 0);
    let stats = timer.stats();
    assert_eq!(stats.scheduled, stats.fired + stats.cancelled);
    for _ in 0..LIMIT {
        timer.after(3_600 * S, || {}).unwrap();
    }
    timer.after(S, || {}).unwrap_err();
}

#[test]
fn of_racing_tasks_with_one_key_exactly_one_fires() {
    let timer = Timer::new();
    for round in 0..50 {
        let fired = Arc::new(AtomicUsize::new(0));
        let barrier = Arc::new(Barrier::new(8));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (timer, fired, barrier) = (timer.clone(), fired.clone(), barrier.clone());
                thread::spawn(move || {
                    barrier.wait();
                    let task = move || {
                        fired.fetch_add(1, Ordering::SeqCst);
                    };
                    timer.key(round).after(200 * MS, task).unwrap()
                })
            })
            .collect();
        let timeouts: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let replaced = timeouts.iter().filter(|timeout| timeout.is_cancelled()).count();
        if replaced < 7 {
            // The machine stalled, so a task ran before the next one could replace it.
            assert!(fired.load(Ordering::SeqCst) > 0);
            continue;
        }
        assert_eq!(replaced, 7);
        let last = timeouts.iter().find(|timeout| !timeout.is_cancelled()).unwrap();
        last.reset(Duration::ZERO);
        until("the last one has run", || fired.load(Ordering::SeqCst) > 0);
        assert!(last.is_expired() && !timer.cancel(round));
        assert_eq!(fired.load(Ordering::SeqCst), 1);
    }
    assert_eq!(timer.pending(), 0);
}

#[test]
fn cancel_and_fire_race_ten_thousand_times() {
    let timer = Timer::builder().tick(US).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut cancelled = 0;
    for n in 0..10_000_u32 {
        let count = ran.clone();
        let task = move || {
            count.fetch_add(1, Ordering::SeqCst);
        };
        let timeout = match n % 2 {
            0 => timer.after(n % 40 * US, task),
            _ => timer.key("same").after(n % 40 * US, task),
        };
        let timeout = timeout.unwrap();
        for _ in 0..n % 64 * 16 {
            std::hint::spin_loop();
        }
        cancelled += usize::from(timeout.cancel());
        assert_eq!(timeout.is_cancelled(), !timeout.is_expired());
    }
    until("the others have run", || ran.load(Ordering::SeqCst) + cancelled == 10_000);
    timer.stop();
    assert_eq!(ran.load(Ordering::SeqCst) + cancelled, 10_000);
    let stats = timer.stats();
    assert_eq!((stats.cancelled, stats.fired), (cancelled as u64, 10_000 - cancelled as u64));
}

#[test]
fn of_many_who_cancel_one_succeeds() {
    let timer = Timer::new();
    for round in 0..100 {
        let timeout = match round % 2 {
            0 => timer.after(3_600 * S, || {}),
            _ => timer.key(round).every(3_600 * S, || {}),
        };
        let timeout = timeout.unwrap();
        let successes = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope
                    .spawn(|| successes.fetch_add(usize::from(timeout.cancel()), Ordering::SeqCst));
            }
        });
        assert_eq!(successes.into_inner(), 1);
    }
    assert_eq!(timer.pending(), 0);
}

#[test]
fn a_blocked_task_delays_nobody() {
    let timer = Timer::new();
    let others = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = mpsc::channel();
    let seen = others.clone();
    // The blocked task ends when all others have run. If it delayed them, it would never end.
    let blocked = move || {
        until("the others run meanwhile", || seen.load(Ordering::SeqCst) == 100);
        thread::sleep(10 * MS);
        sender.send(seen.load(Ordering::SeqCst)).unwrap();
    };
    timer.after(Duration::ZERO, blocked).unwrap();
    for n in 0..100 {
        let others = others.clone();
        timer
            .after(n * 2 * MS, move || {
                others.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
    }
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), 100);
}

#[test]
fn many_blocked_tasks_delay_nobody() {
    let timer = Timer::new();
    let barrier = Arc::new(Barrier::new(17));
    for _ in 0..16 {
        let barrier = barrier.clone();
        timer
            .after(MS, move || {
                barrier.wait();
            })
            .unwrap();
    }
    in_time("sixteen at once", move || {
        barrier.wait();
    });
    in_time("stop after that", move || assert!(timer.stop().is_empty()));
}

#[test]
fn a_series_never_runs_beside_itself() {
    let timer = Timer::new();
    let (inside, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (i, r) = (inside, runs.clone());
    let series = timer.every(MS, move || {
        assert_eq!(i.fetch_add(1, Ordering::SeqCst), 0, "beside itself");
        thread::sleep(5 * MS);
        i.fetch_sub(1, Ordering::SeqCst);
        r.fetch_add(1, Ordering::SeqCst);
    });
    until("some runs", || runs.load(Ordering::SeqCst) >= 10);
    assert!(series.unwrap().cancel());
    timer.stop();
    let stopped = runs.load(Ordering::SeqCst);
    thread::sleep(20 * MS);
    assert_eq!(runs.load(Ordering::SeqCst), stopped);
    assert_eq!(timer.stats().panicked, 0);
}

#[test]
fn a_timer_without_tasks_starts_no_thread() {
    let started = Arc::new(AtomicUsize::new(0));
    let count = started.clone();
    let timer = Timer::builder()
        .thread_hook(move |body| {
            count.fetch_add(1, Ordering::SeqCst);
            thread::Builder::new().spawn(body).map(drop)
        })
        .build()
        .unwrap();
    assert_eq!((timer.state(), timer.pending()), (TimerState::NotStarted, 0));
    assert!(!timer.cancel("nobody"));
    assert_eq!(started.load(Ordering::SeqCst), 0);
    timer.start().unwrap();
    timer.start().unwrap();
    assert_eq!((timer.state(), started.load(Ordering::SeqCst)), (TimerState::Running, 1));
    in_time("stop of an idle timer", move || assert!(timer.stop().is_empty()));
}

#[test]
fn an_idle_timer_does_not_wake() {
    let timer = Timer::new();
    for n in 0..1_000 {
        timer.after(24 * 3_600 * S + n * MS, || {}).unwrap();
    }
    timer.after(Duration::MAX, || {}).unwrap();
    let (sender, receiver) = mpsc::channel();
    timer.after(MS, move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    thread::sleep(50 * MS);
    let before = timer.stats().wakeups;
    thread::sleep(200 * MS);
    for n in 0..100 {
        timer.after(48 * 3_600 * S + n * MS, || {}).unwrap().cancel();
    }
    assert_eq!(timer.stats().wakeups, before, "a later deadline wakes nobody");
    let (sender, receiver) = mpsc::channel();
    timer.after(MS, move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).expect("an earlier one does");
}

#[test]
fn an_earlier_task_or_reset_wakes_the_sleeper() {
    let timer = Timer::new();
    let far = Duration::from_secs(3_600);
    let (sender, receiver) = mpsc::channel();
    for keyed in [false, true] {
        let told = sender.clone();
        let task = move || told.send(()).unwrap();
        let timeout = if keyed { timer.key(1).after(far, task) } else { timer.after(far, task) };
        thread::sleep(10 * MS);
        assert!(timeout.unwrap().reset(MS));
        receiver.recv_timeout(PATIENCE).unwrap();
    }
    timer.after(Duration::MAX, || {}).unwrap();
    for n in (1..20_u32).rev() {
        let told = sender.clone();
        timer.after(n * MS, move || told.send(()).unwrap()).unwrap();
    }
    for _ in 1..20 {
        receiver.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(timer.pending(), 1);
}

#[test]
fn a_panic_leaves_every_thread_alive() {
    let timer = Timer::builder().workers(1).build().unwrap();
    for n in 0..20 {
        timer.after(n * 100 * US, || panic!("one of twenty")).unwrap();
    }
    let (sender, receiver) = mpsc::channel();
    timer.after(20 * MS, move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    assert_eq!(timer.stats().panicked, 20);
    in_time("stop after panics", move || assert!(timer.stop().is_empty()));
}

#[test]
fn the_process_wide_timer_does_what_a_timer_does() {
    let (sender, receiver) = mpsc::channel();
    let told = sender.clone();
    tickwheel::after(MS, move || told.send(1).unwrap()).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), 1);
    let told = sender.clone();
    tickwheel::at(Instant::now(), move || told.send(2).unwrap()).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), 2);
    tickwheel::key("k").after(3_600 * S, || {}).unwrap();
    assert!(tickwheel::cancel("k") && !tickwheel::cancel("k"));
    let series = tickwheel::every(MS, move || {
        let _ = sender.send(3);
    })
    .unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), 3);
    assert!(series.cancel());
}
