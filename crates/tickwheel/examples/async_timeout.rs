//! Limits for async code on any runtime: `cargo run --release -p tickwheel --example async_timeout`.
//!
//! Here it is tokio, with its own timer switched off.

use std::error::Error;
use std::io;
use std::time::Duration;

use tickwheel::{MissedTicks, Timer};
use tokio::runtime::Builder;

/// A server that is sometimes slow.
async fn ask(timer: &Timer, number: u32) -> io::Result<u32> {
    timer.sleep(Duration::from_millis(if number.is_multiple_of(3) { 500 } else { 5 })).await;
    Ok(number * number)
}

/// Asks with a limit, again and again with longer pauses.
async fn ask_patiently(timer: &Timer, number: u32) -> io::Result<u32> {
    let mut pause = Duration::from_millis(10);
    for attempt in 1..=3 {
        match timer.timeout(Duration::from_millis(50), ask(timer, number)).await {
            Ok(answer) => return answer,
            Err(elapsed) => println!("  {number}, attempt {attempt}: {elapsed}"),
        }
        timer.sleep(pause).await;
        pause *= 2;
    }
    // The last one may take as long as it likes, but not for ever: `?` makes an `io::Error`.
    timer.timeout(Duration::from_secs(1), ask(timer, number)).await?
}

async fn run(timer: Timer) -> Result<(), Box<dyn Error>> {
    let beats = tokio::spawn({
        let timer = timer.clone();
        async move {
            let period = Duration::from_millis(100);
            let mut ticks = timer.interval(period).missed(MissedTicks::Skip);
            for beat in 0_u32.. {
                ticks.tick().await;
                println!("  {} ms", beat * 100);
            }
        }
    });
    for number in 1..=4 {
        println!("{number} * {number} = {}", ask_patiently(&timer, number).await?);
    }
    beats.abort();
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_current_thread().build()?;
    runtime.block_on(run(Timer::new()))
}
