//! hyper, quinn and tower on a timer: whole servers and clients, on a clock that the test moves.
//!
//! No test waits for real time: what takes half a minute or an hour here takes it on the manual
//! clock. Sockets are real ones, on loopback.

mod hyper_server;
mod quinn_endpoint;
mod tower_layers;

use std::time::{Duration, Instant};

use tickwheel::{ManualClock, Timer};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than anything takes here, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a timer and the clock that moves it.
fn manual() -> (Timer, ManualClock) {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    (timer, clock)
}

/// Waits until other tasks have brought something about.
async fn until(come_about: impl Fn() -> bool) {
    let start = Instant::now();
    while !come_about() {
        assert!(start.elapsed() < PATIENCE, "waited for ever");
        tokio::task::yield_now().await;
    }
}
