//! The threads on which tasks run: the timer's own, an executor's, or the one that turns the timer;
//! and failures to start them. Upper bounds on time are seconds; only lower bounds are tight.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::patience::*;
use tickwheel::{ScheduleError, Task, ThreadBody, Timer, TimerState};

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

/// If two callers schedule at the same time, one starts the thread and the other waits for it.
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
        let results = [first.join().unwrap(), second.join().unwrap()];
        let refused = |n: usize| matches!(results[n], Err(ScheduleError::Thread(_)));
        if second_try {
            assert!(results[1].is_ok());
            // The thread that the second caller started may run the first task before it is
            // refused.
            let accepted = results.iter().filter(|result| result.is_ok()).count();
            let mut ran: Vec<_> =
                (0..accepted).map(|_| receiver.recv_timeout(PATIENCE).unwrap()).collect();
            ran.sort_unstable();
            assert_eq!(ran, if refused(0) { vec![2] } else { vec![1, 2] }, "what is accepted runs");
        } else {
            assert!(refused(0) && refused(1));
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
            // The order depends on when the hook was called.
            let mut told = [(); 2].map(|()| receiver.recv_timeout(PATIENCE).unwrap());
            told.sort_unstable();
            assert_eq!(told, [1, 2]);
        }
        in_time("stop", move || drop(other.stop()));
    }
}

/// Returns the most attempts that the back-off allows in a time: a few at once, then after 1 ms, 2
/// ms and so on.
fn most_attempts(time: Duration) -> usize {
    18 + time.as_secs() as usize
}

#[test]
fn a_thread_that_cannot_be_started_is_not_tried_again_for_each_task() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let count = attempts.clone();
    let timer = Timer::builder().thread_hook(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Err(std::io::Error::other("no more threads"))
    });
    let timer = timer.build().unwrap();
    let start = Instant::now();
    for _ in 0..10_000 {
        let error = timer.after(S, || {}).unwrap_err();
        assert_eq!(error, ScheduleError::Thread(String::from("no more threads")));
    }
    let (attempts, most) = (attempts.load(Ordering::SeqCst), most_attempts(start.elapsed()));
    assert!((2..=most).contains(&attempts), "{attempts} attempts");
}

#[test]
fn a_helper_thread_that_cannot_be_started_is_not_tried_again_for_each_task() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let count = attempts.clone();
    let timer =
        Timer::builder().thread_hook(move |body| match count.fetch_add(1, Ordering::SeqCst) {
            0 => thread::Builder::new().spawn(body).map(drop),
            _ => Err(std::io::Error::other("no more threads")),
        });
    let timer = timer.build().unwrap();
    let (start, ran) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..10_000 {
        let ran = ran.clone();
        let task = move || {
            ran.fetch_add(1, Ordering::SeqCst);
        };
        timer.after(Duration::ZERO, task).unwrap();
    }
    until("all have run", || ran.load(Ordering::SeqCst) == 10_000);
    let (attempts, most) = (attempts.load(Ordering::SeqCst), most_attempts(start.elapsed()));
    assert!(attempts <= 1 + most, "{attempts} attempts");
}

#[test]
fn what_a_failing_thread_hook_has_scheduled_runs() {
    let slot = Arc::new(OnceLock::<Timer>::new());
    let (inside, (sender, receiver)) = (slot.clone(), mpsc::channel());
    let told = sender.clone();
    let hook = move |body| {
        let told = told.clone();
        inside.get().unwrap().after(MS, move || told.send(1).unwrap()).unwrap();
        drop(body);
        Err(std::io::Error::other("no more threads"))
    };
    slot.set(Timer::builder().inline().thread_hook(hook).build().unwrap()).unwrap();
    let timer = slot.get().unwrap().clone();
    in_time("the hook comes back", move || {
        timer.after(2 * MS, move || sender.send(2).unwrap()).unwrap();
    });
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(1));
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(2));
    slot.get().unwrap().stop();
}

#[test]
fn a_thread_hook_that_drops_the_body_refuses_the_task() {
    let timer = Timer::builder().thread_hook(|body| {
        drop(body);
        Ok(())
    });
    let timer = timer.build().unwrap();
    let error = timer.after(MS, || {}).unwrap_err();
    assert!(matches!(&error, ScheduleError::Thread(why) if why.contains("dropped")), "{error}");
    assert_eq!(timer.pending(), 0);
}

#[test]
fn a_thread_hook_that_drops_the_body_later_strands_no_task() {
    let kept = Arc::new(Mutex::new(None));
    let slot = kept.clone();
    let timer = Timer::builder().thread_hook(move |body| {
        *slot.lock().unwrap() = Some(body);
        Ok(())
    });
    let timer = timer.inline().build().unwrap();
    let (sender, receiver) = mpsc::channel();
    timer.after(MS, move || sender.send(()).unwrap()).unwrap();
    let body = kept.lock().unwrap().take();
    drop(body);
    receiver.recv_timeout(PATIENCE).expect("a thread without the hook runs it");
}

#[test]
fn a_hook_wakes_the_event_loop_for_earlier_deadlines_only() {
    let wakes = Arc::new(AtomicUsize::new(0));
    let count = wakes.clone();
    let hook = move || {
        count.fetch_add(1, Ordering::SeqCst);
    };
    let clock = tickwheel::ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).wake_hook(hook).build().unwrap();
    let woken = || wakes.swap(0, Ordering::SeqCst);
    let first = timer.after(9 * S, || {}).unwrap();
    assert_eq!(woken(), 1, "a loop that has not asked sleeps for ever");
    timer.after(8 * S, || {}).unwrap();
    assert_eq!(woken(), 1, "and would sleep until the first");
    assert!(timer.next_deadline() <= Some(clock.now() + 8 * S));
    timer.next_deadline();
    timer.after(10 * S, || {}).unwrap();
    assert_eq!(woken(), 0, "a later one wakes nobody");
    assert!(first.reset(MS));
    assert_eq!(woken(), 1, "a reset to an earlier time does");
    let inside = timer.clone();
    timer.after(Duration::ZERO, move || drop(inside.after(Duration::ZERO, || {}))).unwrap();
    assert_eq!(woken(), 1);
    timer.turn();
    assert_eq!(woken(), 0, "a loop that turns the timer is awake");
    timer.after(US, || {}).unwrap();
    assert_eq!(woken(), 0, "until it asks for the next deadline");
    timer.next_deadline();
    timer.after(Duration::ZERO, || {}).unwrap();
    assert_eq!(woken(), 1);
}

#[cfg(feature = "async")]
#[test]
fn a_wake_hook_may_use_what_woke_it() {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    let slot = Arc::new(OnceLock::<tickwheel::DelayQueue<u8>>::new());
    let (inside, wakes) = (slot.clone(), Arc::new(AtomicUsize::new(0)));
    let count = wakes.clone();
    let hook = move || {
        inside.get().map(tickwheel::DelayQueue::len);
        count.fetch_add(1, Ordering::SeqCst);
    };
    let timer = Timer::builder().caller_driven().wake_hook(hook).build().unwrap();
    slot.set(tickwheel::DelayQueue::new(&timer)).unwrap();
    let queue = slot.get().unwrap().clone();
    in_time("a consumer sets the alarm", move || {
        let mut cx = Context::from_waker(Waker::noop());
        let mut consumer = pin!(queue.pop());
        assert!(consumer.as_mut().poll(&mut cx).is_pending());
        queue.push(1, 3_600 * S).unwrap();
        queue.push(2, 60 * S).unwrap();
    });
    assert_eq!(wakes.load(Ordering::SeqCst), 2, "once for each earlier alarm");
}

#[test]
fn a_wake_hook_without_an_event_loop_is_refused() {
    let error = Timer::builder().wake_hook(|| {}).build().unwrap_err();
    assert_eq!(error, tickwheel::BuildError::WakeHookNeedsCaller);
}

/// The first thread runs a task before the hook that started it has returned, and the hook cannot
/// start a guard for that thread. The caller that waits for the first thread must not be refused.
#[test]
fn a_guard_that_cannot_be_started_refuses_no_task() {
    in_time("a hook that starts one thread", || {
        let slot = Arc::new(OnceLock::<Timer>::new());
        let (tell, guard_failed) = mpsc::channel();
        let guard_failed = Mutex::new(guard_failed);
        let (timer, starts) = (slot.clone(), AtomicUsize::new(0));
        let hook = move |body: ThreadBody| {
            if starts.fetch_add(1, Ordering::SeqCst) > 0 {
                drop(body);
                tell.send(()).unwrap();
                return Err(std::io::Error::other("no more threads"));
            }
            timer.get().unwrap().after(Duration::ZERO, || {}).unwrap();
            thread::Builder::new().spawn(body)?;
            guard_failed.lock().unwrap().recv().unwrap();
            Ok(())
        };
        slot.set(Timer::builder().thread_hook(hook).build().unwrap()).unwrap();
        let timer = slot.get().unwrap();
        timer.after(3_600 * S, || {}).expect("there is a thread");
        assert_eq!(timer.stop().len(), 1);
    });
}

/// The hook drops a thread's body after tasks were accepted, and the system cannot start threads
/// either. The test runs itself in a process in which no thread can be started.
#[cfg(target_os = "linux")]
#[test]
fn a_body_that_is_dropped_where_no_thread_can_start_is_survived() {
    const HERE: &str = "a_body_that_is_dropped_where_no_thread_can_start_is_survived";
    if std::env::var_os(HERE).is_none() {
        let this = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(this);
        child.args(["--exact", HERE, "--test-threads=1"]).env(HERE, "1");
        // No machine has this much memory for a stack.
        child.env("RUST_MIN_STACK", (1_u64 << 60).to_string());
        let output = child.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    assert!(thread::Builder::new().spawn(|| {}).is_err(), "no thread can be started");
    let kept = Arc::new(Mutex::new(None));
    let slot = kept.clone();
    let timer = Timer::builder().inline().thread_hook(move |body| {
        *slot.lock().unwrap() = Some(body);
        Ok(())
    });
    let timer = timer.build().unwrap();
    timer.after(Duration::ZERO, || {}).unwrap();
    let body = kept.lock().unwrap().take();
    drop(body);
    assert_eq!(timer.pending(), 1, "the task waits for the next attempt to start a thread");
    timer.after(3_600 * S, || {}).expect("the hook takes another body");
    let body = kept.lock().unwrap().take().expect("the hook was asked again");
    let ran = timer.clone();
    timer.after(20 * MS, move || assert_eq!(ran.stop().len(), 1)).unwrap();
    body();
    assert_eq!(timer.stats().fired, 2);
}
