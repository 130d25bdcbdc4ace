//! A report at a fixed rate, with a run that takes too long and one that panics:
//! `cargo run --release -p tickwheel --example periodic_report`.

use std::time::{Duration, Instant};

use tickwheel::{MissedTicks, ScheduleError, Timer};

fn main() -> Result<(), ScheduleError> {
    let timer = Timer::new();
    let start = Instant::now();
    let mut number = 0;
    let report =
        timer.periodic(Duration::from_millis(200)).missed(MissedTicks::Skip).start(move || {
            number += 1;
            println!("report {number} at {:>4} ms", start.elapsed().as_millis());
            match number {
                3 => std::thread::sleep(Duration::from_millis(500)), // the next two are left out
                5 => panic!("report 5 has a bug, which does not end the series"),
                _ => {}
            }
        })?;
    std::thread::sleep(Duration::from_millis(2_100));
    report.cancel();
    println!("{} runs, {} of them panicked", timer.stats().fired, timer.stats().panicked);
    Ok(())
}
