//! Closing orders that are not paid in time, by key: `cargo run --release -p tickwheel --example order_timeout`.
//!
//! Half an hour is 300 ms here.

use std::time::Duration;

use tickwheel::{ScheduleError, Timer};

const TIME_TO_PAY: Duration = Duration::from_millis(300);

fn order(timer: &Timer, number: u32) -> Result<(), ScheduleError> {
    println!("order {number}: placed");
    timer.key(number).after(TIME_TO_PAY, move || println!("order {number}: closed, not paid"))?;
    Ok(())
}

fn pay(timer: &Timer, number: u32) {
    // `false` if the order was closed meanwhile: exactly one of the two happens.
    if timer.cancel(number) {
        println!("order {number}: paid");
    } else {
        println!("order {number}: too late to pay");
    }
}

fn main() -> Result<(), ScheduleError> {
    let timer = Timer::new();
    for number in [41, 42, 43] {
        order(&timer, number)?;
    }
    pay(&timer, 42);
    // The customer changes order 43: the same key again, so its time starts anew.
    std::thread::sleep(TIME_TO_PAY / 2);
    order(&timer, 43)?;
    std::thread::sleep(TIME_TO_PAY * 3 / 4);
    pay(&timer, 41);
    timer.drain(Duration::from_secs(1));
    Ok(())
}
