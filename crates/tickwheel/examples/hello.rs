//! The smallest timer: `cargo run --release -p tickwheel --example hello`.

use std::time::Duration;

use tickwheel::{ScheduleError, Timer};

fn main() -> Result<(), ScheduleError> {
    let timer = Timer::new();
    timer.after(Duration::from_millis(200), || println!("hello"))?;
    timer.after(Duration::from_millis(400), || println!("and goodbye"))?;

    // Lets what is pending run, for up to a second, and stops.
    timer.drain(Duration::from_secs(1));
    Ok(())
}
