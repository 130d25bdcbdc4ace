//! Timeouts for a million connections that are pushed later by every sign of life:
//! `cargo run --release -p tickwheel --example heartbeats`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tickwheel::{ScheduleError, Timeout, Timer};

const CONNECTIONS: usize = 1_000_000;
const SILENCE: Duration = Duration::from_secs(3);

fn main() -> Result<(), ScheduleError> {
    let timer = Timer::new();
    let lost = Arc::new(AtomicUsize::new(0));

    let start = Instant::now();
    let timeouts = (0..CONNECTIONS)
        .map(|_| {
            let lost = Arc::clone(&lost);
            timer.after(SILENCE, move || {
                lost.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect::<Result<Vec<Timeout>, _>>()?;
    let each = start.elapsed() / CONNECTIONS as u32;
    println!("{CONNECTIONS} connections, {each:?} and {} bytes each", bytes_each(&timer));

    // All but one in a hundred give a sign of life.
    let start = Instant::now();
    let alive = timeouts.iter().enumerate().filter(|(number, _)| number % 100 != 0);
    let beats = alive.filter(|(_, timeout)| timeout.reset(2 * SILENCE)).count();
    println!("{beats} heartbeats, {:?} each", start.elapsed() / beats as u32);

    std::thread::sleep(SILENCE + SILENCE / 2);
    println!("{} connections lost, {} alive", lost.load(Ordering::Relaxed), timer.pending());
    println!("lateness: {:?}", timer.stats().lateness);
    Ok(())
}

fn bytes_each(timer: &Timer) -> usize {
    timer.memory_usage() / timer.pending()
}
