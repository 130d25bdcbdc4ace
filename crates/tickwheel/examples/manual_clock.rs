//! Testing a timeout of half an hour in a microsecond: `cargo run --release -p tickwheel --example manual_clock`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tickwheel::{ManualClock, ScheduleError, Timer};

/// The code under test: a session that closes itself half an hour after its last call.
struct Session {
    open: Arc<AtomicBool>,
    timeout: tickwheel::Timeout,
}

const MINUTE: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(30 * 60);

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
    clock.advance(29 * MINUTE);
    session.call();
    clock.advance(29 * MINUTE);
    assert!(session.is_open(), "a call keeps it open");
    clock.advance(MINUTE);
    assert!(!session.is_open(), "half an hour of silence closes it");
    println!("59 minutes passed in {:?}", start.elapsed());
    Ok(())
}
