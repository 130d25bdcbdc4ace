//! Testing async code that waits for hours: `cargo run --release -p tickwheel --example async_manual_clock`.
//!
//! Code under test takes a `Timer`. In production that is `Timer::new()`; in a test it runs on a
//! `ManualClock`, which moves when the test says so. The same works inside `#[tokio::test]`, as
//! `tests/future/on_tokio.rs` shows.

use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tickwheel::{ManualClock, Timer};
use tokio::task::{LocalSet, yield_now};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// The code under test: reminds of an unpaid order each day, and closes it after three.
async fn dun(timer: Timer, note: impl Fn(&str)) {
    for _ in 0..3 {
        timer.sleep(24 * HOUR).await;
        note("remind");
    }
    timer.sleep(HOUR).await;
    note("close");
}

/// Lets every task run as far as it can.
async fn settle() {
    for _ in 0..10 {
        yield_now().await;
    }
}

async fn test() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build()?;
    let (start, log) = (clock.now(), Rc::new(RefCell::new(Vec::new())));
    let note = {
        let (clock, log) = (clock.clone(), Rc::clone(&log));
        move |what: &str| {
            let hours = (clock.now() - start).as_secs() / 3_600;
            log.borrow_mut().push(format!("{what} after {hours} h"));
        }
    };
    let task = tokio::task::spawn_local(dun(timer, note));

    settle().await;
    // From deadline to deadline, so that the task can run in between.
    for _ in clock.steps(23 * HOUR) {
        settle().await;
    }
    assert!(log.borrow().is_empty(), "a day is not over");
    for _ in clock.steps(24 * 7 * HOUR) {
        settle().await;
    }
    assert!(task.is_finished());
    assert_eq!(
        *log.borrow(),
        ["remind after 24 h", "remind after 48 h", "remind after 72 h", "close after 73 h"]
    );
    println!("{}", log.borrow().join("\n"));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    LocalSet::new().block_on(&runtime, test())?;
    println!("a week and a day passed in {:?}", start.elapsed());
    Ok(())
}
