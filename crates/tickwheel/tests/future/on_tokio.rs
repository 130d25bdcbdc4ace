//! The manual clock in tests with tokio: only the test advances it, and tokio's own clock is not
//! involved.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tickwheel::{DelayQueue, ManualClock, Timer};
use tokio::task::yield_now;

const HOUR: Duration = Duration::from_secs(3_600);

/// Runs every task until it waits.
async fn settle() {
    for _ in 0..10 {
        yield_now().await;
    }
}

#[tokio::test]
async fn sleeps_in_a_row_end_each_at_its_time() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    let start = clock.now();
    let task = tokio::spawn({
        let clock = clock.clone();
        async move {
            for number in 1..=24 {
                timer.sleep(HOUR).await;
                assert_eq!(clock.now(), start + number * HOUR);
            }
        }
    });
    settle().await;
    for _ in clock.steps(24 * HOUR) {
        settle().await;
    }
    assert!(task.is_finished());
    task.await.unwrap();
    assert_eq!(clock.now(), start + 24 * HOUR);
}

#[tokio::test]
async fn tasks_that_wait_for_each_other_meet_at_the_right_time() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    let queue = DelayQueue::new(&timer);
    let done = Arc::new(AtomicU32::new(0));
    let worker = tokio::spawn({
        let (queue, clock, done) = (queue.clone(), clock.clone(), done.clone());
        async move {
            while let Some(due) = queue.pop().await {
                assert_eq!(clock.now(), due);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let producer = tokio::spawn({
        let (timer, clock, queue) = (timer.clone(), clock.clone(), queue.clone());
        async move {
            let mut ticks = timer.interval(HOUR);
            for _ in 0..10 {
                ticks.tick().await;
                queue.push(clock.now() + HOUR / 2, HOUR / 2).unwrap();
            }
        }
    });
    settle().await;
    for _ in clock.steps(4 * HOUR) {
        settle().await;
    }
    assert_eq!(done.load(Ordering::Relaxed), 4, "at half past each hour");
    for _ in clock.steps(24 * HOUR) {
        settle().await;
    }
    assert!(producer.is_finished() && !worker.is_finished());
    assert_eq!((done.load(Ordering::Relaxed), queue.close().len()), (10, 0));
    worker.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_a_day_takes_no_time() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    let limited = tokio::spawn({
        let timer = timer.clone();
        async move { timer.timeout(24 * HOUR, std::future::pending::<()>()).await }
    });
    while timer.pending() == 0 {
        yield_now().await;
    }
    clock.advance(24 * HOUR);
    assert!(limited.await.unwrap().is_err());
}
