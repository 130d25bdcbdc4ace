//! A burst of 250 calls to a partner that accepts 100 a second and once answers "429, try again
//! later": `cargo run --release -p tickwheel --example partner_api`.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tickwheel::Timer;
use tickwheel::pace::{Attempt, Pacer};

const CALLS: usize = 100;
const WINDOW: Duration = Duration::from_secs(1);

/// The other side: counts calls, and answers with status 429 if there are too many in a second.
#[derive(Default)]
struct Partner {
    state: Mutex<PartnerState>,
}

#[derive(Default)]
struct PartnerState {
    calls: VecDeque<Instant>,
    was_overloaded: bool,
}

enum Answer {
    Ok,
    TooManyRequests { retry_after: Duration },
}

impl Partner {
    fn call(&self, number: usize) -> Answer {
        let mut state = self.state.lock().unwrap();
        let now = Instant::now();
        while state.calls.front().is_some_and(|&call| now - call >= WINDOW) {
            state.calls.pop_front();
        }
        state.calls.push_back(now);
        // The partner is overloaded for a moment when call 150 arrives. That is not our fault, but
        // we have to do as it says.
        let is_overloaded = number == 150 && !state.was_overloaded;
        state.was_overloaded |= is_overloaded;
        if state.calls.len() > CALLS || is_overloaded {
            return Answer::TooManyRequests { retry_after: Duration::from_millis(300) };
        }
        Answer::Ok
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let timer = Timer::new();
    let pacer = Pacer::builder(&timer, CALLS, WINDOW).max_queued(1_000).max_running(8).build()?;
    let partner = Arc::new(Partner::default());
    let start = Instant::now();
    for number in 1..=250 {
        let partner = Arc::clone(&partner);
        pacer.submit_attempts(move || match partner.call(number) {
            Answer::Ok => {
                if number % 50 == 0 {
                    println!("{:>8.1?} call {number}", start.elapsed());
                }
                Attempt::Done
            }
            Answer::TooManyRequests { retry_after } => {
                println!("{:>8.1?} call {number}: 429, again in {retry_after:?}", start.elapsed());
                Attempt::RetryAfter(retry_after)
            }
        })?;
    }
    println!("{} calls are queued", pacer.queued());
    let left = pacer.drain(Duration::from_secs(60));
    let stats = pacer.stats();
    println!(
        "{:>8.1?} {} calls were made, {} of them again; {} are left",
        start.elapsed(),
        stats.started,
        stats.retried,
        left.len()
    );
    Ok(())
}
