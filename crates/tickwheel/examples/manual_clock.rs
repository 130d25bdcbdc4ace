//! Testing a timeout of half an hour in a microsecond: `cargo run --release -p tickwheel --example manual_clock`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tickwheel::{ManualClock, ScheduleError, Timer};

/// What is to be tested: closes itself when nobody has called for half an hour.
struct Session {
    open: Arc<AtomicBool>,
    timeout: tickwheel::Timeout,
}

const QUIET: Duration = Duration::from_mins(30);

impl Session {
    fn new(timer: &Timer) -> Result<Self, ScheduleError> {
        let open = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&open);
        let timeout = timer.after(QUIET, move || flag.store(false, Ordering::Relaxed))?;
        Ok(Self { open, timeout })
    }

    fn call(&self) {
        self.timeout.reset(QUIET);
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build()?;
    let session = Session::new(&timer)?;

    let start = Instant::now();
    clock.advance(Duration::from_mins(29));
    session.call();
    clock.advance(Duration::from_mins(29));
    assert!(session.is_open(), "a call keeps it open");
    clock.advance(Duration::from_mins(1));
    assert!(!session.is_open(), "half an hour of silence closes it");
    println!("59 minutes passed in {:?}", start.elapsed());
    Ok(())
}
