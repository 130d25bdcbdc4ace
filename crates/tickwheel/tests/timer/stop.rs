//! Stopping, draining and dropping a timer with its threads and the real clock. Upper bounds on
//! time are seconds; only lower bounds are tight.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use crate::patience::*;
use tickwheel::{ManualClock, ScheduleError, Task, Timer, TimerState};

#[test]
fn a_stop_with_a_limit_tells_of_tasks_that_still_run() {
    let timer = Timer::new();
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let stuck = move || {
        started.send(()).unwrap();
        let _ = released.recv();
    };
    timer.after(MS, stuck).unwrap();
    timer.key("left").after(3_600 * S, || {}).unwrap();
    has_started.recv_timeout(PATIENCE).unwrap();
    let still = timer.stop_timeout(20 * MS).unwrap_err();
    assert_eq!((still.running, still.unfired.len()), (1, 1));
    assert_eq!(still.unfired[0].key().unwrap().to_string(), "left");
    assert_eq!(timer.after(S, || {}).unwrap_err(), ScheduleError::Stopped);
    release.send(()).unwrap();
    let rest = in_time("the second stop", move || timer.stop_timeout(PATIENCE));
    assert!(rest.unwrap().is_empty());
}

#[test]
fn stop_waits_for_the_task_that_runs() {
    let timer = Timer::new();
    let (started, has_started) = mpsc::channel();
    let ended = Arc::new(AtomicBool::new(false));
    let end = ended.clone();
    let slow = move || {
        started.send(()).unwrap();
        thread::sleep(50 * MS);
        end.store(true, Ordering::SeqCst);
    };
    timer.after(Duration::ZERO, slow).unwrap();
    has_started.recv_timeout(PATIENCE).unwrap();
    assert!(timer.stop().is_empty());
    assert!(ended.load(Ordering::SeqCst));
}

#[test]
fn a_drain_lets_run_what_is_due_soon() {
    let timer = Timer::new();
    let ran = Arc::new(AtomicUsize::new(0));
    for n in 0..20 {
        let ran = ran.clone();
        timer
            .after(n * MS, move || {
                ran.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
    }
    timer.every(3_600 * S, || {}).unwrap();
    let (other, refused) = (timer.clone(), Arc::new(AtomicBool::new(false)));
    let told = refused.clone();
    let asks = move || {
        until("draining has begun", || other.state() != TimerState::Running);
        let error = other.after(S, || {}).unwrap_err();
        told.store(error == ScheduleError::Stopped, Ordering::SeqCst);
    };
    timer.after(MS, asks).unwrap();
    let drained = timer.clone();
    let left = in_time("a drain", move || drained.drain(PATIENCE));
    assert!(left.is_empty(), "series end, and the rest has run");
    assert_eq!((ran.load(Ordering::SeqCst), timer.pending()), (20, 0));
    assert!(refused.load(Ordering::SeqCst), "nothing new is taken");
    assert_eq!(timer.state(), TimerState::Stopped);

    let timer = Timer::new();
    timer.key("far").after(3_600 * S, || {}).unwrap();
    let left = timer.drain(10 * MS);
    assert_eq!(left.len(), 1, "what is not due in time is handed back");
}

#[test]
fn stop_from_a_task_never_deadlocks() {
    type Build = fn() -> Timer;
    let builds: [Build; 4] = [
        Timer::new,
        || Timer::builder().inline().build().unwrap(),
        || Timer::builder().workers(1).build().unwrap(),
        || Timer::builder().executor(Task::run).build().unwrap(),
    ];
    for build in builds {
        let timer = build();
        let (sender, receiver) = mpsc::channel();
        for n in 0..3_u32 {
            let (inside, sender) = (timer.clone(), sender.clone());
            let task = move || {
                let left = if n == 1 { inside.drain(PATIENCE) } else { inside.stop() };
                assert!(inside.stop().is_empty());
                sender.send(left.len()).unwrap();
            };
            timer.after(5 * MS, task).unwrap();
        }
        timer.after(3_600 * S, || {}).unwrap();
        receiver.recv_timeout(PATIENCE).expect("stop came back");
        in_time("stop from outside, at the same time", move || drop(timer.stop()));
    }
}

#[test]
fn dropping_the_last_clone_ends_threads_and_drops_tasks() {
    let living = Arc::new(AtomicUsize::new(0));
    let count = living.clone();
    let timer = Timer::builder()
        .thread_hook(move |body| {
            let count = count.clone();
            count.fetch_add(1, Ordering::SeqCst);
            let thread = move || {
                body();
                count.fetch_sub(1, Ordering::SeqCst);
            };
            thread::Builder::new().spawn(thread).map(drop)
        })
        .build()
        .unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    for n in 0..100 {
        let tell = Tell(dropped.clone());
        timer.key(n).after(3_600 * S, move || drop(tell)).unwrap();
    }
    let (sender, receiver) = mpsc::channel();
    timer.after(MS, move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    assert!(living.load(Ordering::SeqCst) >= 1, "the hook made the threads");
    let clone = timer.clone();
    drop(timer);
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    drop(clone);
    assert_eq!(dropped.load(Ordering::SeqCst), 100);
    until("the threads end", || living.load(Ordering::SeqCst) == 0);
}

#[test]
fn a_timer_may_be_dropped_inside_its_own_task() {
    for _ in 0..50 {
        let timer = Timer::new();
        let dropped = Arc::new(AtomicUsize::new(0));
        let tell = Tell(dropped.clone());
        timer.after(3_600 * S, move || drop(tell)).unwrap();
        let slot = Arc::new(OnceLock::new());
        let inside = Arc::new(Mutex::new(Some(slot.clone())));
        let (sender, receiver) = mpsc::channel();
        let last = move || {
            drop(inside.lock().unwrap().take());
            sender.send(()).unwrap();
        };
        timer.after(200 * US, last).unwrap();
        slot.set(timer).unwrap();
        drop(slot);
        receiver.recv_timeout(PATIENCE).unwrap();
        until("its tasks are gone", || dropped.load(Ordering::SeqCst) == 1);
    }
}

#[test]
fn a_drain_waits_for_what_an_executor_has_queued() {
    for runs in [true, false] {
        let (sender, tasks) = mpsc::channel::<Task>();
        let timer = Timer::builder().executor(move |task| drop(sender.send(task))).build().unwrap();
        let (gone, draining) = (Arc::new(AtomicUsize::new(0)), timer.clone());
        let tell = Tell(gone.clone());
        timer.after(MS, move || drop(tell)).unwrap();
        let queue = thread::spawn(move || {
            let task = tasks.recv_timeout(PATIENCE).unwrap();
            until("draining has begun", || draining.state() == TimerState::Draining);
            thread::sleep(20 * MS);
            if runs {
                task.run();
            } else {
                drop(task);
            }
        });
        until("it is due", || timer.stats().fired == 1);
        let left = in_time("a drain", move || timer.drain(PATIENCE));
        assert_eq!((left.len(), gone.load(Ordering::SeqCst)), (0, 1), "run or rejected by then");
        queue.join().unwrap();
    }
}

#[test]
fn a_drain_gives_a_queue_up_after_its_limit() {
    let (sender, tasks) = mpsc::channel::<Task>();
    let timer = Timer::builder().executor(move |task| drop(sender.send(task))).build().unwrap();
    timer.after(Duration::ZERO, || {}).unwrap();
    let task = tasks.recv_timeout(PATIENCE).unwrap();
    let drained = timer.clone();
    let left = in_time("a drain", move || drained.drain(10 * MS));
    assert_eq!((left.len(), timer.state()), (0, TimerState::Stopped));
    task.run();
}

/// A stopped timer keeps the fates of its tasks for their handles.
#[test]
fn a_stopped_timer_keeps_a_few_bytes_for_each_task() {
    const COUNT: usize = 100_000;
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    let fired = timer.after(MS, || {}).unwrap();
    clock.advance(MS);
    // A task that is handed back reuses its entry.
    let tasks: Vec<_> = (0..COUNT).map(|_| timer.after(S, || {}).unwrap()).collect();
    let named = timer.key("named").after(S, || {}).unwrap();
    let (replaced, record) = (timer.key("again").after(S, || {}), timer.every(S, || {}).unwrap());
    timer.key("again").after(S, || {}).unwrap();
    assert!(tasks[7].cancel());
    let unfired = timer.stop();
    assert_eq!(unfired.len(), COUNT + 2);
    assert!(timer.memory_usage() < 9 * COUNT, "{} bytes", timer.memory_usage());
    assert!(fired.is_expired() && tasks[7].is_cancelled() && replaced.unwrap().is_cancelled());
    assert!(named.is_unfired() && record.is_unfired());
    assert!(tasks.iter().enumerate().all(|(n, task)| task.is_unfired() == (n != 7)));
}
