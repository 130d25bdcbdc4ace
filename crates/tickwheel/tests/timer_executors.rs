//! Where tasks run: on one thread, where an executor takes them, on the thread that turns the timer;
//! and what happens when that fails.
//! No bound on time here is tighter than seconds, except those that say "not before".

mod patience;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use patience::*;
use tickwheel::{ScheduleError, Task, Timer, TimerState};

#[test]
fn inline_tasks_run_in_order_on_one_thread() {
    let timer = Timer::builder().inline().thread_name("in line").build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let start = Instant::now() + 50 * MS;
    for n in (0..50_u32).rev() {
        let sender = sender.clone();
        let task = move || {
            let thread = thread::current();
            sender.send((n, thread.id(), thread.name() == Some("in line"))).unwrap();
            thread::sleep(100 * US);
        };
        timer.at(start + n * MS, task).unwrap();
    }
    drop(sender);
    let ran: Vec<(u32, ThreadId, bool)> = receiver.iter().collect();
    assert!(ran.iter().map(|&(n, ..)| n).eq(0..50));
    assert!(ran.iter().all(|&(_, id, named)| id == ran[0].1 && named));
}

#[test]
fn a_custom_executor_gets_every_task() {
    let (sender, receiver) = mpsc::channel::<Task>();
    let timer = Timer::builder().executor(move |task| drop(sender.send(task))).build().unwrap();
    let here = thread::current().id();
    let runs = Arc::new(AtomicUsize::new(0));
    for n in 0..10 {
        let runs = runs.clone();
        let task = move || {
            assert_eq!(thread::current().id(), here);
            runs.fetch_add(1, Ordering::SeqCst);
        };
        timer.key(n).after(n * MS, task).unwrap();
    }
    for _ in 0..10 {
        receiver.recv_timeout(PATIENCE).unwrap().run();
    }
    assert_eq!((runs.load(Ordering::SeqCst), timer.stats().panicked), (10, 0));
    let count = runs.clone();
    let series = timer
        .every(MS, move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    for _ in 0..3 {
        receiver.recv_timeout(PATIENCE).unwrap().run();
    }
    let held = receiver.recv_timeout(PATIENCE).unwrap();
    thread::sleep(5 * MS);
    assert!(receiver.try_recv().is_err(), "a series waits for its run");
    assert!(series.cancel());
    held.run();
    assert_eq!(timer.stop().len(), 0);
}

#[test]
fn a_rejected_task_is_counted_and_the_series_goes_on() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let timer = Timer::builder()
        .executor(move |task| {
            if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
                drop(task);
            } else {
                task.run();
            }
        })
        .build()
        .unwrap();
    let (sender, receiver) = mpsc::channel();
    let series = timer
        .every(MS, move || {
            let _ = sender.send(());
        })
        .unwrap();
    for _ in 0..3 {
        receiver.recv_timeout(PATIENCE).unwrap();
    }
    assert!(series.cancel());
    until("no run is left", || timer.pending() == 0);
    let dropped = Arc::new(AtomicUsize::new(0));
    for _ in 0..2 {
        let tell = Tell(dropped.clone());
        timer.after(MS, move || drop(tell)).unwrap();
    }
    until("run or dropped", || dropped.load(Ordering::SeqCst) == 2);
    timer.stop();
    let stats = timer.stats();
    assert_eq!(stats.rejected, calls.load(Ordering::SeqCst).div_ceil(2) as u64);
}

#[test]
fn an_executor_that_panics_leaves_the_worker_alive() {
    let first = AtomicBool::new(true);
    let timer = Timer::builder()
        .executor(move |task| {
            assert!(!first.swap(false, Ordering::SeqCst), "the executor is not ready");
            task.run();
        })
        .build()
        .unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let tell = Tell(dropped.clone());
    timer.after(MS, move || drop(tell)).unwrap();
    until("the first is rejected", || dropped.load(Ordering::SeqCst) == 1);
    let (sender, receiver) = mpsc::channel();
    timer.after(MS, move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    timer.stop();
    assert_eq!(timer.stats().rejected, 1);
}

#[test]
fn a_thread_that_cannot_be_started_refuses_the_task() {
    let timer = Timer::builder()
        .thread_hook(|_| Err(std::io::Error::other("no more threads")))
        .build()
        .unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    for keyed in [false, true] {
        let tell = Tell(dropped.clone());
        let task = move || drop(tell);
        let result = if keyed { timer.key(1).after(S, task) } else { timer.after(S, task) };
        let error = result.unwrap_err();
        assert!(matches!(&error, ScheduleError::Thread(why) if why.contains("no more threads")));
    }
    assert_eq!((timer.pending(), dropped.load(Ordering::SeqCst)), (0, 2));
    in_time("stop without threads", move || assert!(timer.stop().is_empty()));
}

#[test]
fn a_caller_drives_a_timer_without_threads() {
    let timer = Timer::builder().caller_driven().build().unwrap();
    assert_eq!((timer.turn(), timer.next_deadline()), (0, None));
    let here = thread::current().id();
    let (sender, receiver) = mpsc::channel();
    let mut due = Vec::new();
    for n in [3_u32, 1, 2] {
        let sender = sender.clone();
        due.push(Instant::now() + n * 3 * MS);
        let task = move || sender.send((n, thread::current().id(), Instant::now())).unwrap();
        timer.after(n * 3 * MS, task).unwrap();
    }
    let mut turned = 0;
    while let Some(deadline) = timer.next_deadline() {
        thread::sleep(deadline.saturating_duration_since(Instant::now()));
        turned += timer.turn();
    }
    drop(sender);
    assert_eq!(turned, 3);
    let ran: Vec<_> = receiver.iter().collect();
    assert!(ran.iter().map(|&(n, ..)| n).eq([1, 2, 3]));
    assert!(ran.iter().all(|&(_, id, _)| id == here));
    assert!(ran[2].2 >= due[0] && ran[0].2 >= due[1] && ran[1].2 >= due[2], "never early");
    let threaded = Timer::new();
    threaded.after(Duration::ZERO, || {}).unwrap();
    assert_eq!(threaded.turn(), 0, "not for timers with threads");
}

/// Of two who schedule at once, the one who does not start the thread waits for the one who does.
#[test]
fn a_thread_that_cannot_be_started_strands_no_other_task() {
    for second_try in [true, false] {
        let (entered, has_entered) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let (released, tries) = (Mutex::new(released), AtomicUsize::new(0));
        let timer = Timer::builder().thread_hook(move |body| {
            if tries.fetch_add(1, Ordering::SeqCst) == 0 {
                entered.send(()).unwrap();
                let _ = released.lock().unwrap().recv();
            } else if second_try {
                return thread::Builder::new().spawn(body).map(drop);
            }
            Err(std::io::Error::other("no more threads"))
        });
        let timer = timer.build().unwrap();
        let (sender, receiver) = mpsc::channel();
        let schedule = |number: u32| {
            let (timer, sender) = (timer.clone(), sender.clone());
            thread::spawn(move || timer.after(MS, move || sender.send(number).unwrap()).map(drop))
        };
        let first = schedule(1);
        has_entered.recv_timeout(PATIENCE).unwrap();
        let second = schedule(2);
        until("both are placed", || timer.pending() == 2);
        thread::sleep(5 * MS);
        release.send(()).unwrap();
        assert!(matches!(first.join().unwrap(), Err(ScheduleError::Thread(_))));
        if second_try {
            second.join().unwrap().unwrap();
            assert_eq!(receiver.recv_timeout(PATIENCE), Ok(2), "accepted, so it runs");
        } else {
            assert!(matches!(second.join().unwrap(), Err(ScheduleError::Thread(_))));
        }
        assert_eq!(timer.pending(), 0);
    }
}

#[test]
fn a_thread_hook_may_use_the_timer_it_holds_and_both_are_forgotten() {
    for stops in [false, true] {
        let slot = Arc::new(OnceLock::<Timer>::new());
        let (inside, (sender, receiver)) = (slot.clone(), mpsc::channel());
        let told = sender.clone();
        let hook = move |body| {
            let timer = inside.get().unwrap();
            let told = told.clone();
            let _ = timer.after(MS, move || told.send(1).unwrap());
            if stops {
                timer.stop();
            }
            thread::Builder::new().spawn(body).map(drop)
        };
        slot.set(Timer::builder().workers(1).thread_hook(hook).build().unwrap()).unwrap();
        let timer = slot.get().unwrap().clone();
        let other = timer.clone();
        in_time("the hook comes back", move || {
            timer.after(2 * MS, move || sender.send(2).unwrap()).unwrap();
        });
        if stops {
            assert_eq!(other.state(), TimerState::Stopped);
        } else {
            // In either order: it depends on when the hook was called.
            let mut told = [(); 2].map(|()| receiver.recv_timeout(PATIENCE).unwrap());
            told.sort_unstable();
            assert_eq!(told, [1, 2]);
        }
        in_time("stop", move || drop(other.stop()));
    }
}
