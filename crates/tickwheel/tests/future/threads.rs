//! Futures on real threads and the real clock: none is early, none is forgotten, none is left over.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::patience::*;
use crate::random::Random;
use crate::wakers::*;
use tickwheel::{Sleep, Task, Timeout, Timer};

/// The results of one thread's sleeps.
#[derive(Default)]
struct Seen {
    ready: usize,
    given_up: usize,
}

/// Polls a sleep, which may be ready.
fn begin(sleep: &mut Sleep, waker: &Waker) {
    let _ = poll(sleep, waker);
}

/// Waits until a sleep is ready, and checks that it is not early.
async fn on_time(sleep: &mut Sleep) {
    let deadline = sleep.deadline();
    sleep.await;
    assert!(Instant::now() >= deadline.expect("not never"), "a sleep was early");
}

/// Creates sleeps, and waits for them, resets them or drops them at random.
async fn rage(timer: &Timer, seed: u64, end: &AtomicBool) -> Seen {
    let mut random = Random(seed);
    let mut counts = Seen::default();
    while !end.load(Ordering::Relaxed) {
        let delay = random.below(3_000) as u32 * US;
        let mut sleep = timer.sleep(delay);
        match random.below(8) {
            0..=2 => on_time(&mut sleep).await,
            3 => begin(&mut sleep, Waker::noop()),
            4 => {
                begin(&mut sleep, Waker::noop());
                sleep.reset(random.below(3_000) as u32 * US);
                on_time(&mut sleep).await;
            }
            5 => {
                // Gives up at about the moment when the sleep is due.
                begin(&mut sleep, Waker::noop());
                thread::sleep(delay);
                sleep.reset(delay / 2);
                on_time(&mut sleep).await;
            }
            6 => {
                let waits = timer.sleep(random.below(3_000) as u32 * US);
                let _ = timer.timeout(delay, waits).await;
            }
            _ => {
                // The sleep is first polled here, and completed by another thread with another
                // waker.
                begin(&mut sleep, Waker::noop());
                let ended = thread::spawn(move || block_on(on_time(&mut sleep)));
                ended.join().unwrap();
                sleep = timer.sleep(Duration::ZERO);
            }
        }
        if sleep.is_elapsed() {
            counts.ready += 1;
        } else {
            counts.given_up += 1;
        }
    }
    counts
}

fn storm(timer: &Timer, length: Duration, stop: bool) {
    let end = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..6)
        .map(|seed| {
            let (timer, end) = (timer.clone(), end.clone());
            thread::spawn(move || block_on(rage(&timer, seed, &end)))
        })
        .collect();
    thread::sleep(length);
    if stop {
        assert_eq!(timer.stop().len(), 0);
        thread::sleep(length / 2);
    }
    end.store(true, Ordering::Relaxed);
    let seen: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(seen.iter().all(|seen| seen.ready > 0), "that was no storm");
    assert!(seen.iter().any(|seen| seen.given_up > 0));
    let stats = timer.stats();
    assert_eq!((stats.pending, stats.panicked), (0, 0));
    assert!(stop || stats.scheduled == stats.fired + stats.cancelled, "{stats:?}");
}

#[test]
fn every_sleep_is_ready_in_a_storm() {
    in_time("a storm of sleeps", || {
        storm(&Timer::new(), S, false);
        storm(&Timer::builder().tick(10 * US).inline().build().unwrap(), S / 2, false);
    });
}

#[test]
fn every_sleep_is_ready_when_the_timer_is_stopped_in_a_storm() {
    in_time("a storm of sleeps on a timer that is stopped", || {
        for round in 1..6 {
            storm(&Timer::new(), round * 20 * MS, true);
        }
    });
}

#[test]
fn every_waker_is_called_or_dropped() {
    in_time("wakers on a real timer", || {
        let timer = Timer::new();
        let (count, waker) = Count::new();
        let mut random = Random(7);
        let sleeps: Vec<_> = (0..20_000)
            .map(|_| {
                let mut sleep = timer.sleep(random.below(20_000) as u32 * US);
                begin(&mut sleep, &waker);
                sleep
            })
            .collect();
        // Some sleeps are dropped while others are due.
        let (kept, dropped): (Vec<_>, Vec<_>) =
            sleeps.into_iter().enumerate().partition(|(number, _)| number % 2 == 0);
        drop(dropped);
        until("all are ready", || kept.iter().all(|(_, sleep)| sleep.is_elapsed()));
        until("all are woken", || timer.pending() == 0);
        until("no waker is left", || held(&count) == 0);
        assert!(count.woken() <= 20_000);
    });
}

#[test]
fn a_waker_that_panics_does_not_end_the_worker() {
    in_time("a waker that panics", || {
        let timer = Timer::new();
        let bad = Call::waker(|| panic!("a waker that panics"));
        for _ in 0..3 {
            let mut sleep = timer.sleep(MS);
            assert!(poll(&mut sleep, &bad).is_pending());
            let other = timer.sleep(2 * MS);
            block_on(other);
            assert!(sleep.is_elapsed());
        }
        until("they are counted", || timer.stats().panicked == 3);
    });
}

#[test]
fn a_runtime_that_ends_takes_its_sleeps_along() {
    in_time("a runtime that ends", || {
        let timer = Timer::new();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        let runtime = runtime.unwrap();
        for _ in 0..100 {
            let timer = timer.clone();
            runtime.spawn(async move { timer.sleep(3_600 * S).await });
        }
        until("they sleep", || timer.pending() == 100);
        drop(runtime);
        assert_eq!(timer.pending(), 0);
    });
}

#[test]
fn a_far_sleep_wakes_nobody() {
    let timer = Timer::new();
    let mut sleep = timer.sleep(3_600 * S);
    assert!(poll(&mut sleep, Waker::noop()).is_pending());
    until("the thread sleeps", || timer.stats().pending == 1);
    thread::sleep(20 * MS);
    let before = timer.stats().wakeups;
    for _ in 0..100 {
        let mut further = timer.sleep(3_700 * S);
        assert!(poll(&mut further, Waker::noop()).is_pending());
    }
    thread::sleep(50 * MS);
    assert_eq!(timer.stats().wakeups, before);
}

#[test]
fn a_task_that_blocks_does_not_delay_futures() {
    in_time("a sleep beside a task that blocks", || {
        let timer = Timer::new();
        let (release, blocked) = mpsc::channel::<()>();
        timer.after(Duration::ZERO, move || _ = blocked.recv()).unwrap();
        block_on(timer.sleep(10 * MS));
        block_on(timer.sleep(10 * MS));
        drop(release);
        timer.stop();
    });
}

#[test]
fn a_timer_can_be_stopped_by_a_waker_and_dropped_by_a_future() {
    in_time("stopped by a waker", || {
        let timer = Timer::new();
        let waker = {
            let timer = timer.clone();
            Call::waker(move || drop(timer.stop()))
        };
        let mut sleep = timer.sleep(MS);
        assert!(poll(&mut sleep, &waker).is_pending());
        block_on(timer.sleep(5 * MS));
        block_on(&mut sleep);

        // The last handle of the timer is in a future, which ends on the timer's own thread.
        let done = Arc::new(AtomicUsize::new(0));
        let held = Arc::new(Mutex::new(None));
        let waker = {
            let (done, held) = (done.clone(), held.clone());
            Call::waker(move || {
                drop(held.lock().unwrap().take());
                done.fetch_add(1, Ordering::SeqCst);
            })
        };
        let mut sleep = Timer::new().sleep(5 * MS);
        assert!(poll(&mut sleep, &waker).is_pending());
        *held.lock().unwrap() = Some(sleep);
        until("it is dropped", || done.load(Ordering::SeqCst) == 1);
    });
}

#[test]
fn a_sleep_is_polled_by_many_with_different_wakers() {
    in_time("a sleep that changes hands", || {
        let timer = Timer::builder().tick(10 * US).build().unwrap();
        for round in 0..300 {
            let sleep = Arc::new(Mutex::new(timer.sleep(round % 7 * 30 * US)));
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        block_on(poll_fn(|cx| {
                            let mut sleep = sleep.lock().unwrap();
                            let polled = poll(&mut *sleep, cx.waker());
                            // Only the last waker is woken, so a thread that lost the race polls
                            // again by itself.
                            if polled.is_pending() {
                                let waker = cx.waker().clone();
                                thread::spawn(move || waker.wake());
                            }
                            polled
                        }));
                    });
                }
            });
            assert_eq!(poll(&mut *sleep.lock().unwrap(), Waker::noop()), Poll::Ready(()));
        }
        until("nothing is left", || timer.pending() == 0);
    });
}

/// A timer whose threads are all blocked until this is dropped.
struct Blocked {
    timer: Timer,
    _release: mpsc::Sender<()>,
}

impl Blocked {
    /// Blocks all threads of the timer.
    fn in_tasks(timer: Timer, tasks: usize) -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (released, (inside, is_inside)) = (Arc::new(Mutex::new(released)), mpsc::channel());
        for _ in 0..tasks {
            let (released, inside) = (released.clone(), inside.clone());
            let task = move || {
                inside.send(()).unwrap();
                let _ = released.lock().unwrap().recv();
            };
            timer.after(Duration::ZERO, task).unwrap();
        }
        for _ in 0..tasks {
            is_inside.recv_timeout(PATIENCE).unwrap();
        }
        Self { timer, _release: release }
    }

    fn in_an_executor() -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (released, (inside, is_inside)) = (Mutex::new(released), mpsc::channel());
        let executor = move |task: Task| {
            inside.send(()).unwrap();
            let _ = released.lock().unwrap().recv();
            task.run();
        };
        let timer = Timer::builder().executor(executor).build().unwrap();
        timer.after(Duration::ZERO, || {}).unwrap();
        is_inside.recv_timeout(PATIENCE).unwrap();
        Self { timer, _release: release }
    }

    fn in_a_waker() -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (released, (inside, is_inside)) = (Mutex::new(released), mpsc::channel());
        let timer = Timer::builder().inline().build().unwrap();
        let waker = Call::waker(move || {
            inside.send(()).unwrap();
            let _ = released.lock().unwrap().recv();
        });
        let mut sleep = timer.sleep(MS);
        if poll(&mut sleep, &waker).is_pending() {
            is_inside.recv_timeout(PATIENCE).unwrap();
        }
        Self { timer, _release: release }
    }
}

#[test]
fn an_overdue_sleep_is_ready_whatever_the_threads_do() {
    let build = |builder: tickwheel::Builder| builder.build().unwrap();
    for blocked in [
        Blocked::in_tasks(build(Timer::builder().inline()), 1),
        Blocked::in_tasks(build(Timer::builder().workers(1)), 1),
        Blocked::in_tasks(build(Timer::builder().workers(2)), 2),
        Blocked::in_an_executor(),
        Blocked::in_a_waker(),
        Blocked { timer: build(Timer::builder().caller_driven()), _release: mpsc::channel().0 },
        Blocked {
            timer: build(Timer::builder().caller_driven().wake_hook(|| {})),
            _release: mpsc::channel().0,
        },
    ] {
        let timer = &blocked.timer;
        thread::sleep(2 * MS);
        timer.next_deadline();
        let past = Instant::now().checked_sub(MS).unwrap();
        assert!(poll(&mut timer.sleep_until(past), Waker::noop()).is_ready(), "the first poll");

        let (count, waker) = Count::new();
        let mut waits = timer.sleep(5 * MS);
        if poll(&mut waits, &waker).is_pending() {
            thread::sleep(10 * MS);
            assert!(poll(&mut waits, &waker).is_ready(), "a poll after the deadline");
        }
        let mut other = timer.sleep(5 * MS);
        if poll(&mut other, &waker).is_pending() {
            thread::sleep(10 * MS);
            assert!(poll(&mut other, Waker::noop()).is_ready(), "with another waker");
        }
        assert_eq!(count.woken(), 0, "nobody else could wake them");

        let mut reset = timer.sleep(3_600 * S);
        assert!(poll(&mut reset, &waker).is_pending());
        reset.reset(past);
        assert_eq!(count.woken(), 1);
        assert!(poll(&mut reset, &waker).is_ready(), "a reset to the past");
    }
}

/// The waker blocks until a task and another future, both due at the same time, have run.
#[test]
fn a_waker_that_blocks_delays_neither_tasks_nor_futures() {
    let timer = Timer::new();
    let at = Instant::now() + 20 * MS;
    let turns = Arc::new(AtomicUsize::new(0));
    let take_turn = |turns: &Arc<AtomicUsize>| {
        let turns = turns.clone();
        move || {
            turns.fetch_add(1, Ordering::SeqCst);
        }
    };
    let mut blocks = timer.sleep_until(at);
    let (seen, (sender, receiver)) = (turns.clone(), mpsc::channel());
    let waker = Call::waker(move || {
        until("the others have their turn", || seen.load(Ordering::SeqCst) == 2);
        sender.send(()).unwrap();
    });
    assert!(poll(&mut blocks, &waker).is_pending(), "this machine is too slow for the test");
    let mut other = timer.sleep_until(at);
    if poll(&mut other, &Call::waker(take_turn(&turns))).is_ready() {
        take_turn(&turns)();
    }
    timer.at(at, take_turn(&turns)).unwrap();
    receiver.recv_timeout(PATIENCE).expect("nobody was delayed");
}

/// Calls `call` on several threads at the same time, so that each has a shard of its own.
fn on_threads<T: Send>(count: usize, call: impl Fn() -> T + Sync) -> Vec<T> {
    let all_are_there = Barrier::new(count);
    let call = || {
        all_are_there.wait();
        let result = call();
        all_are_there.wait();
        result
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(call)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// `stop` calls wakers without holding a lock that a handle may need.
#[test]
fn a_waker_that_a_stop_calls_may_ask_handles_of_all_shards() {
    in_time("a waker that asks handles during a stop", || {
        let timer = Timer::builder().shards(8).build().unwrap();
        let tasks = Arc::new(OnceLock::<Vec<Timeout>>::new());
        let asked = tasks.clone();
        let unfired = Arc::new(AtomicUsize::new(0));
        let count = unfired.clone();
        let waker = Call::waker(move || {
            let unfired = asked.get().unwrap().iter().filter(|task| task.is_unfired()).count();
            count.fetch_add(unfired, Ordering::SeqCst);
        });
        let (scheduled, sleeps): (Vec<_>, Vec<_>) = on_threads(8, || {
            let mut sleep = timer.sleep(3_600 * S);
            begin(&mut sleep, &waker);
            (timer.after(3_600 * S, || {}).unwrap(), sleep)
        })
        .into_iter()
        .unzip();
        assert!(tasks.set(scheduled).is_ok());
        assert_eq!(timer.stop().len(), 8);
        assert_eq!(unfired.load(Ordering::SeqCst), 8 * 8);
        drop(sleeps);
    });
}

/// The only due waker blocks, and nothing else is pending. Tasks that are scheduled meanwhile run,
/// whatever their shard.
#[test]
fn a_waker_that_blocks_does_not_delay_tasks_of_other_shards() {
    in_time("a task beside a waker that blocks", || {
        let timer = Timer::builder().shards(4).build().unwrap();
        let (tell, is_blocked) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let waker = Call::waker(move || {
            tell.send(()).unwrap();
            let _ = released.lock().unwrap().recv();
        });
        let mut sleep = timer.sleep(MS);
        begin(&mut sleep, &waker);
        drop(waker);
        is_blocked.recv().unwrap();
        // The tasks are scheduled one after another, because the first one starts a guard for all
        // shards.
        let (sender, ran) = mpsc::channel();
        for shards in 1..=4 {
            on_threads(shards, || {
                let sender = sender.clone();
                timer.after(MS, move || sender.send(()).unwrap()).unwrap()
            });
            for _ in 0..shards {
                ran.recv().unwrap();
            }
        }
        drop(release);
        timer.stop();
    });
}
