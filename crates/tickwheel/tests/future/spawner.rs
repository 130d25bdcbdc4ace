//! Timer tasks that are futures, on tokio and on an executor that the test drives.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use crate::patience::*;
use crate::rig::{counted, dropped};
use tickwheel::{ManualClock, SpawnedFuture, Spawner, Timer};

/// A minimal executor: futures wait in a list until the test polls them.
#[derive(Clone, Default)]
struct ByHand(Arc<Mutex<Vec<SpawnedFuture>>>);

impl ByHand {
    fn spawner(&self) -> Spawner {
        let list = self.0.clone();
        Spawner::new(move |future| list.lock().unwrap().push(future))
    }

    /// Polls all futures once, and drops those that are ready.
    fn poll(&self) {
        let futures = std::mem::take(&mut *self.0.lock().unwrap());
        let mut context = Context::from_waker(Waker::noop());
        for mut future in futures {
            if future.as_mut().poll(&mut context).is_pending() {
                self.0.lock().unwrap().push(future);
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn manual() -> (Timer, ManualClock) {
    let clock = ManualClock::new();
    (Timer::builder().clock(clock.clone()).build().unwrap(), clock)
}

#[test]
fn a_future_is_handed_over_at_its_deadline() {
    let (timer, clock) = manual();
    let executor = ByHand::default();
    let ran = Arc::new(AtomicUsize::new(0));
    let run = ran.clone();
    let task = async move {
        run.fetch_add(1, SeqCst);
    };
    let timeout = timer.after(5 * S, executor.spawner().once(task)).unwrap();
    clock.advance(4 * S);
    assert!(timeout.reset(5 * S));
    clock.advance(4 * S);
    assert_eq!((executor.in_flight(), timeout.remaining()), (0, Some(S)));
    clock.advance(S);
    assert!(timeout.is_expired());
    assert_eq!((executor.in_flight(), ran.load(SeqCst)), (1, 0));
    executor.poll();
    assert_eq!((executor.in_flight(), ran.load(SeqCst)), (0, 1));
}

#[test]
fn cancelling_drops_the_future_at_once() {
    let (timer, clock) = manual();
    let executor = ByHand::default();
    let (value, count) = counted();
    let task = async move { drop(value) };
    let timeout = timer.key("k").after(S, executor.spawner().once(task)).unwrap();
    assert!(timer.cancel("k"));
    assert_eq!(dropped(&count), 1);
    clock.advance(S);
    assert!(timeout.is_cancelled() && executor.in_flight() == 0);
}

#[test]
fn a_task_that_was_handed_back_can_still_be_run() {
    let (timer, _clock) = manual();
    let executor = ByHand::default();
    timer.after(S, executor.spawner().once(async {})).unwrap();
    for unfired in timer.stop() {
        unfired.run();
    }
    assert_eq!(executor.in_flight(), 1);
}

#[test]
fn a_run_is_skipped_while_the_last_one_is_in_flight() {
    let (timer, clock) = manual();
    let executor = ByHand::default();
    let (made, polls) = (Arc::new(AtomicUsize::new(0)), timer.clone());
    let count = made.clone();
    let series = timer
        .every(
            S,
            executor.spawner().repeat(move || {
                count.fetch_add(1, SeqCst);
                polls.sleep(5 * S / 2)
            }),
        )
        .unwrap();

    clock.advance(S);
    executor.poll();
    for _ in 0..2 {
        clock.advance(S);
        executor.poll();
        assert_eq!((executor.in_flight(), made.load(SeqCst)), (1, 1), "a second run has begun");
    }
    clock.advance(S / 2);
    executor.poll();
    assert_eq!(executor.in_flight(), 0);
    clock.advance(S / 2);
    executor.poll();
    assert_eq!((executor.in_flight(), made.load(SeqCst)), (1, 2), "the series has ended");

    assert!(series.cancel());
    clock.advance(5 * S / 2);
    executor.poll();
    assert_eq!(executor.in_flight(), 0, "a run that is in flight ends by itself");
    clock.advance(10 * S);
    assert_eq!((executor.in_flight(), made.load(SeqCst)), (0, 2));
}

#[test]
fn a_run_that_the_runtime_drops_has_ended() {
    let (timer, clock) = manual();
    let executor = ByHand::default();
    timer.every(S, executor.spawner().repeat(pending)).unwrap();
    clock.advance(S);
    executor.poll();
    executor.0.lock().unwrap().clear();
    clock.advance(S);
    assert_eq!(executor.in_flight(), 1);
}

#[cfg(feature = "cron")]
#[test]
fn futures_run_by_the_calendar() {
    let (timer, clock) = manual();
    clock.set_wall(std::time::UNIX_EPOCH);
    let executor = ByHand::default();
    let task = executor.spawner().repeat(|| async {});
    timer.cron("*/10 * * * *", "UTC", task).unwrap();
    for _ in 0..6 {
        clock.advance(600 * S);
        assert_eq!(executor.in_flight(), 1);
        executor.poll();
    }
}

/// In a callback of the timer, each of these calls to tokio would panic.
#[test]
fn futures_use_the_runtime_they_run_on() {
    in_time("futures of a timer on tokio", || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let handle = runtime.handle().clone();
        let on_tokio = Spawner::new(move |future| drop(handle.spawn(future)));
        let timer = Timer::new();
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();

        let once = sender.clone();
        let task = async move {
            tokio::spawn(async move { once.send("once") }).await.unwrap().unwrap();
        };
        timer.after(MS, on_tokio.once(task)).unwrap();
        assert_eq!(receiver.blocking_recv(), Some("once"));

        let mut runs = 0;
        let series = on_tokio.repeat(move || {
            tokio::runtime::Handle::current();
            runs += 1;
            assert_ne!(runs, 2, "a run may panic");
            let sender = sender.clone();
            async move { sender.send("again").unwrap() }
        });
        let series = timer.every(MS, series).unwrap();
        for _ in 0..3 {
            assert_eq!(receiver.blocking_recv(), Some("again"));
        }
        assert!(series.cancel());
        assert_eq!(timer.stats().panicked, 0, "the runtime reports the panic");
    });
}
