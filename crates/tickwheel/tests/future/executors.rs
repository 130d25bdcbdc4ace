//! The same futures on each executor: both of tokio, those of smol and `futures`, and a minimal
//! one.

use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::patience::*;
use crate::wakers;
use tickwheel::{MissedTicks, Timer, WheelKind};

/// The scenario that must work on every executor.
async fn everything(timer: Timer) {
    let start = Instant::now();
    timer.sleep(5 * MS).await;
    assert!(start.elapsed() >= 5 * MS, "a sleep was early");

    timer.sleep_until(start + 8 * MS).await;
    assert!(start.elapsed() >= 8 * MS, "a sleep was early");

    let start = Instant::now();
    assert!(timer.timeout(5 * MS, pending::<()>()).await.is_err());
    assert!(start.elapsed() >= 5 * MS, "a timeout was early");
    assert_eq!(timer.timeout(PATIENCE, async { 7 }).await, Ok(7));
    let slow = async {
        timer.sleep(2 * MS).await;
        8
    };
    assert_eq!(timer.timeout(PATIENCE, slow).await, Ok(8));
    assert!(timer.timeout_at(start, pending::<()>()).await.is_err());

    let start = Instant::now();
    let mut ticks = timer.interval_at(start, 2 * MS).missed(MissedTicks::Burst);
    for number in 0..5 {
        assert_eq!(ticks.tick().await, start + number * 2 * MS);
        assert!(start.elapsed() >= number * 2 * MS, "a tick was early");
    }

    let mut sleep = timer.sleep(Duration::MAX);
    let start = Instant::now();
    sleep.reset(3 * MS);
    (&mut sleep).await;
    assert!(start.elapsed() >= 3 * MS, "a reset sleep was early");
    sleep.reset(start);
    sleep.await;
}

/// Many futures at once, on all threads of the executor.
fn crowd(timer: &Timer, done: &Arc<AtomicUsize>) -> Vec<impl Future<Output = ()> + Send + use<>> {
    let one = |number: u32| {
        let (timer, done) = (timer.clone(), done.clone());
        async move {
            let delay = number % 20 * MS / 2;
            let start = Instant::now();
            timer.sleep(delay).await;
            assert!(start.elapsed() >= delay, "a sleep was early");
            let _ = timer.timeout(delay / 2, timer.sleep(MS)).await;
            done.fetch_add(1, Ordering::SeqCst);
        }
    };
    (0..500).map(one).collect()
}

fn timers() -> [Timer; 5] {
    [
        Timer::new(),
        Timer::builder().wheel(WheelKind::Hashed { slots: 64 }).build().unwrap(),
        Timer::builder().inline().build().unwrap(),
        Timer::builder().executor(|_| unreachable!("futures are not tasks")).build().unwrap(),
        Timer::builder().tick(100 * US).workers(1).build().unwrap(),
    ]
}

fn on_each_timer(run: impl Fn(&Timer, &Arc<AtomicUsize>) + Send + 'static) {
    in_time("futures on an executor", move || {
        for timer in timers() {
            let done = Arc::new(AtomicUsize::new(0));
            run(&timer, &done);
            assert_eq!(done.load(Ordering::SeqCst), 500);
            assert_eq!((timer.pending(), timer.stats().panicked), (0, 0));
            timer.stop();
        }
    });
}

async fn on_tokio(timer: &Timer, done: &Arc<AtomicUsize>) {
    let crowd: Vec<_> = crowd(timer, done).into_iter().map(tokio::spawn).collect();
    tokio::spawn(everything(timer.clone())).await.unwrap();
    for one in crowd {
        one.await.unwrap();
    }
}

#[test]
fn tokio_current_thread() {
    on_each_timer(|timer, done| {
        // A tokio runtime without tokio's own timer.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(on_tokio(timer, done));
    });
}

#[test]
fn tokio_multi_thread() {
    on_each_timer(|timer, done| {
        let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build();
        threads.unwrap().block_on(on_tokio(timer, done));
    });
}

#[test]
fn smol() {
    on_each_timer(|timer, done| {
        smol::block_on(async {
            let crowd: Vec<_> = crowd(timer, done).into_iter().map(smol::spawn).collect();
            smol::spawn(everything(timer.clone())).await;
            for one in crowd {
                one.await;
            }
        });
    });
}

#[test]
fn futures_executor() {
    on_each_timer(|timer, done| {
        let crowd = futures::future::join_all(crowd(timer, done));
        futures::executor::block_on(futures::future::join(crowd, everything(timer.clone())));
    });
}

#[test]
fn a_block_on_of_a_few_lines() {
    on_each_timer(|timer, done| {
        std::thread::scope(|scope| {
            scope.spawn(|| wakers::block_on(everything(timer.clone())));
            let mut crowd = crowd(timer, done);
            while !crowd.is_empty() {
                let some = futures::future::join_all(crowd.split_off(crowd.len() - 100));
                scope.spawn(|| wakers::block_on(some));
            }
        });
    });
}

#[test]
fn the_process_wide_timer() {
    in_time("futures on the process-wide timer", || {
        wakers::block_on(async {
            // An instant before the creation of the timer counts as the creation, so the timer is
            // created first.
            tickwheel::default_timer();
            let start = Instant::now();
            tickwheel::sleep(2 * MS).await;
            tickwheel::sleep_until(start + 3 * MS).await;
            assert!(tickwheel::timeout(MS, pending::<()>()).await.is_err());
            assert!(tickwheel::timeout_at(start, pending::<()>()).await.is_err());
            let mut ticks = tickwheel::interval(MS);
            ticks.tick().await;
            ticks.tick().await;
            assert!(start.elapsed() >= 5 * MS);
            assert_eq!(tickwheel::interval_at(start, S).tick().await, start);
        });
    });
}
