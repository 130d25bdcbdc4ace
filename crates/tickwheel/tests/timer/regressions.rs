//! Regression tests: each one is a bug that this timer had.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::time::{Duration, SystemTime};
use std::{io, thread};
use tickwheel::{ManualClock, Task, Timeout, Timer};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// Fails if `test` has not ended after `limit`.
fn within(limit: Duration, test: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let t = thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match wait.recv_timeout(limit) {
        Ok(()) => {}
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(t.join().unwrap_err())
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
    }
}

fn manual() -> (ManualClock, Timer) {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    (clock, timer)
}

/// A task may move the clock past the deadlines of others.
#[test]
fn advancing_inside_a_task_leaves_others_to_the_outer_call() {
    within(20 * S, || {
        let (clock, timer) = manual();
        let inner = clock.clone();
        timer.after(S, move || inner.advance(5 * S)).unwrap();
        timer.after(2 * S, || {}).unwrap();
        clock.advance(S);
        assert_eq!(timer.stats().fired, 2);
    });
}

/// A task that `after` refused is never handed back by `stop`, however the two race.
#[test]
fn a_refused_task_is_not_handed_back() {
    let mut refused_and_handed_back = 0;
    for round in 0..600 {
        let timer = if round % 2 == 0 {
            Timer::builder().caller_driven().build().unwrap()
        } else {
            Timer::builder().clock(ManualClock::new()).build().unwrap()
        };
        let barrier = Arc::new(Barrier::new(2));
        let (t, b) = (timer.clone(), barrier.clone());
        let other = thread::spawn(move || {
            b.wait();
            let mut accepted = 0;
            while t.after(S, || {}).is_ok() {
                accepted += 1;
            }
            accepted
        });
        barrier.wait();
        let got = timer.stop().len();
        let accepted = other.join().unwrap();
        refused_and_handed_back += got - accepted;
        if refused_and_handed_back > 0 {
            break;
        }
    }
    assert_eq!(refused_and_handed_back, 0);
}

/// A cancelled task frees its place at once, even while it runs.
#[test]
fn a_series_cancelled_from_inside_is_pending_no_more() {
    let (clock, timer) = manual();
    let timeout = Arc::new(OnceLock::<Timeout>::new());
    let seen = Arc::new(AtomicUsize::new(99));
    let (t, s, me) = (timer.clone(), seen.clone(), timeout.clone());
    timeout
        .set(
            timer
                .every(S, move || {
                    assert!(me.get().unwrap().cancel());
                    s.store(t.pending(), SeqCst);
                })
                .unwrap(),
        )
        .unwrap();
    clock.advance(S);
    assert_eq!(seen.load(SeqCst), 0);
}

/// The limit counts the new task of a key in place of the one that it replaces.
#[test]
fn a_running_series_makes_room_for_its_successor() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).max_pending(1).build().unwrap();
    let result = Arc::new(Mutex::new(None));
    let (t, r) = (timer.clone(), result.clone());
    timer
        .key("k")
        .every(S, move || {
            let answer = t.key("k").after(5 * S, || {}).map(drop);
            *r.lock().unwrap() = Some(answer);
        })
        .unwrap();
    clock.advance(S);
    let answer = result.lock().unwrap().take().unwrap();
    assert!(
        answer.is_ok(),
        "refused ({answer:?}), and the old one is gone too: pending {}",
        timer.pending()
    );
}

/// A handle of a task that was handed back says that it is not pending.
#[test]
fn what_was_handed_back_has_no_deadline() {
    let (_clock, timer) = manual();
    let plain = timer.after(S, || {}).unwrap();
    let keyed = timer.key(1).after(S, || {}).unwrap();
    drop(timer.stop());
    assert_eq!((keyed.deadline(), keyed.remaining()), (None, None));
    assert_eq!((plain.deadline(), plain.remaining()), (None, None));
}

/// Only running tasks are reported as running.
#[test]
fn a_stop_without_patience_is_no_failure_if_nothing_runs() {
    for _ in 0..50 {
        let timer = Timer::new();
        timer.after(3600 * S, || {}).unwrap();
        thread::sleep(MS);
        if let Err(still) = timer.stop_timeout(Duration::ZERO) {
            panic!("running: {}", still.running);
        }
    }
}

/// The worker survives a panicking executor.
#[test]
fn the_payload_of_an_executors_panic_may_panic_and_is_forgotten() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("payload")
        }
    }
    within(20 * S, || {
        let first = AtomicBool::new(true);
        let timer = Timer::builder()
            .executor(move |task| {
                if first.swap(false, SeqCst) {
                    panic_any(Bomb);
                }
                task.run();
            })
            .build()
            .unwrap();
        let (send, recv) = mpsc::channel();
        timer.after(MS, || {}).unwrap();
        timer.after(20 * MS, move || send.send(()).unwrap()).unwrap();
        assert!(recv.recv_timeout(10 * S).is_ok(), "the worker is dead");
        timer.stop();
    });
}

/// The destructor of a periodic task runs on a thread of the timer, and does not wait for itself.
#[test]
fn a_series_may_stop_the_timer_when_it_is_dropped() {
    struct Tell(mpsc::Sender<()>);
    impl Drop for Tell {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    struct StopOnDrop(Timer);
    impl Drop for StopOnDrop {
        fn drop(&mut self) {
            self.0.stop();
        }
    }
    within(20 * S, || {
        let timer = Timer::new();
        let (send, recv) = mpsc::channel();
        let captured = (StopOnDrop(timer.clone()), Tell(send));
        timer
            .periodic(MS)
            .end_on_panic()
            .start(move || {
                let _ = &captured;
                panic!("end of the series");
            })
            .unwrap();
        recv.recv().unwrap();
    });
}

/// The destructor of a rejected task runs on a thread of the timer.
#[test]
fn a_rejected_task_may_stop_the_timer_when_it_is_dropped() {
    struct StopOnDrop(Timer, mpsc::Sender<()>);
    impl Drop for StopOnDrop {
        fn drop(&mut self) {
            self.0.stop();
            let _ = self.1.send(());
        }
    }
    within(20 * S, || {
        let timer = Timer::builder().executor(drop).build().unwrap();
        let (send, recv) = mpsc::channel();
        let captured = StopOnDrop(timer.clone(), send);
        timer.after(MS, move || drop(captured)).unwrap();
        recv.recv().unwrap();
    });
}

/// An executor is called on a thread of the timer.
#[test]
fn an_executor_may_stop_the_timer_it_holds_and_both_are_forgotten() {
    within(20 * S, || {
        let slot = Arc::new(OnceLock::<Timer>::new());
        let (send, recv) = mpsc::channel();
        let s = slot.clone();
        let timer = Timer::builder()
            .executor(move |task| {
                s.get().unwrap().stop();
                task.run();
                let _ = send.send(());
            })
            .build()
            .unwrap();
        slot.set(timer.clone()).unwrap();
        timer.after(20 * MS, || {}).unwrap();
        recv.recv().unwrap();
    });
}

/// A task that an executor has not started is not running.
#[test]
fn stop_does_not_wait_for_an_executors_queue() {
    within(20 * S, || {
        let (send, recv) = mpsc::channel::<Task>();
        let timer = Timer::builder().executor(move |task| drop(send.send(task))).build().unwrap();
        timer.after(MS, || {}).unwrap();
        let task = recv.recv().unwrap();
        timer.stop();
        task.run();
    });
}

/// A set clock is noticed within a second, whatever else is pending.
#[test]
fn a_wall_clock_task_makes_a_long_sleeper_look_at_the_clock() {
    let timer = Timer::new();
    timer.after(3600 * S, || {}).unwrap();
    thread::sleep(50 * MS);
    timer.at(SystemTime::now() + 7200 * S, || {}).unwrap();
    let before = timer.stats().wakeups;
    thread::sleep(2_500 * MS);
    assert!(timer.stats().wakeups > before, "a set clock would be noticed in an hour");
}

/// `cancel` takes effect even if dropping the closure panics.
#[test]
fn a_destructor_that_panics_leaves_its_task_cancelled() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("destructor")
        }
    }
    let (_clock, timer) = manual();
    let bomb = Bomb;
    let timeout = timer.after(S, move || drop(bomb)).unwrap();
    let _ = catch_unwind(AssertUnwindSafe(|| timeout.cancel()));
    assert_eq!(timer.stats().cancelled, 1);
    assert!(timeout.is_cancelled() && !timeout.is_expired());
}

/// If the second thread does not start, the first one continues.
#[test]
fn a_thread_hook_may_panic() {
    within(20 * S, || {
        let calls = AtomicU64::new(0);
        let timer = Timer::builder()
            .thread_hook(move |body| {
                assert_eq!(calls.fetch_add(1, SeqCst), 0, "no more threads");
                thread::Builder::new().spawn(body).map(drop)
            })
            .build()
            .unwrap();
        let (send, recv) = mpsc::channel();
        timer.after(MS, move || send.send(()).unwrap()).unwrap();
        let ran = recv.recv_timeout(10 * S).is_ok();
        let stopped = timer.stop_timeout(10 * S);
        assert!(ran && stopped.is_ok(), "ran: {ran}, stopped: {stopped:?}");
    });
}

/// The manual clock does not move during the drain.
#[test]
fn a_drain_of_a_manual_timer_does_not_wait() {
    within(20 * S, || {
        let (_clock, timer) = manual();
        timer.after(S, || {}).unwrap();
        assert_eq!(timer.drain(60 * S).len(), 1);
    });
}

/// At no moment of a `cancel` does the handle say that the task has expired.
#[test]
fn a_task_that_is_being_cancelled_never_looks_expired() {
    let timer = Timer::builder().caller_driven().build().unwrap();
    let mut wrong = 0;
    for _ in 0..2_000 {
        let timeout = Arc::new(timer.after(3600 * S, || {}).unwrap());
        let (seen, t) = (Arc::new(AtomicBool::new(false)), timeout.clone());
        let s = seen.clone();
        let watcher = thread::spawn(move || {
            while !t.is_cancelled() {
                if t.is_expired() {
                    s.store(true, SeqCst);
                }
            }
        });
        assert!(timeout.cancel());
        watcher.join().unwrap();
        wrong += usize::from(seen.load(SeqCst));
        if wrong > 0 {
            break;
        }
    }
    assert_eq!(wrong, 0);
}

/// A handle does not keep the closure of its task alive.
#[test]
fn closures_go_with_the_timer_or_with_what_it_handed_back() {
    let alive = Arc::new(());
    let (_c1, timer) = manual();
    let held = alive.clone();
    let _handle = timer.key(1).after(S, move || drop(held)).unwrap();
    drop(timer);
    let after_drop = Arc::strong_count(&alive) - 1;
    let (_c2, timer) = manual();
    let held = alive.clone();
    let _handle2 = timer.key(1).every(S, move || drop(held.clone())).unwrap();
    drop(timer.stop());
    let after_unfired = Arc::strong_count(&alive) - 1 - after_drop;
    assert_eq!((after_drop, after_unfired), (0, 0), "closures that still live");
}

/// A hook starts the thread and then reports a failure: a task that has run was not refused.
#[test]
fn a_task_that_has_run_was_accepted() {
    let (sender, ran) = mpsc::channel();
    let ran = Mutex::new(ran);
    let timer = Timer::builder()
        .inline()
        .thread_hook(move |body| {
            thread::spawn(body);
            ran.lock().unwrap().recv().unwrap();
            Err(io::Error::other("could not"))
        })
        .build()
        .unwrap();
    let task = timer.after(Duration::ZERO, move || sender.send(()).unwrap());
    assert!(task.expect("it has run").is_expired());
}

/// A few keyed tasks among many do not take a huge page each.
#[test]
fn a_few_keys_among_many_tasks_take_little() {
    let (_clock, timer) = manual();
    let others: Vec<_> = (0..300_000).map(|_| timer.after(S, || {}).unwrap()).collect();
    let before = timer.memory_usage();
    for n in 0..100 {
        assert!(others[3_000 * n].cancel()); // the key gets its place
        timer.key(n).after(S, || {}).unwrap();
    }
    let keys = timer.memory_usage() - before;
    assert!(keys < 3 << 20, "{keys} bytes for 100 keys");
    assert!((0..100).all(|n| timer.cancel(n)));
}

/// A task for a `SystemTime` leaves nothing behind, however it ends.
#[test]
fn the_memory_of_wall_clock_tasks_is_given_back() {
    let (clock, timer) = manual();
    let count = 60_000;
    let tasks: Vec<_> = (0..count).map(|_| timer.at(clock.wall() + S, || {}).unwrap()).collect();
    let full = timer.memory_usage();
    for (n, task) in tasks.iter().enumerate() {
        assert!(if n % 3 == 0 { task.cancel() } else { n % 3 == 1 || task.reset(2 * S) });
    }
    clock.advance(3 * S);
    assert_eq!(timer.pending(), 0);
    let back = full - timer.memory_usage();
    assert!(back > count * 20, "of {full} bytes only {back} came back");
}

/// Tasks for the wall clock are not moved again for each task while the clock is not set.
#[test]
fn many_wall_clock_tasks_on_a_manual_clock_fire_quickly() {
    within(20 * S, || {
        let (clock, timer) = manual();
        for n in 0..50_000 {
            timer.at(clock.wall() + n * MS, || {}).unwrap();
        }
        clock.advance(50 * S);
        assert_eq!(timer.stats().fired, 50_000);
    });
}

/// A series that ends because its timer does was cancelled: its handle and the counts agree.
#[test]
fn a_series_that_runs_when_its_timer_is_stopped_counts_as_cancelled() {
    for drains in [false, true] {
        let (clock, timer) = manual();
        let inside = timer.clone();
        let stop = move || assert!(if drains { inside.drain(S) } else { inside.stop() }.is_empty());
        let series = timer.key("k").every(S, stop).unwrap();
        clock.advance(S);
        assert!(series.is_cancelled());
        let stats = timer.stats();
        assert_eq!((stats.scheduled, stats.fired, stats.cancelled, stats.panicked), (1, 1, 1, 0));
    }
}
