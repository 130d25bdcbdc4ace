//! A burst of 250 calls to a partner that takes 100 a second, and once has no time at all:
//! `cargo run --release -p tickwheel --example partner_api`.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tickwheel::Timer;
use tickwheel::pace::Pacer;

const CALLS: usize = 100;
const WINDOW: Duration = Duration::from_secs(1);

/// The other side: counts calls, and answers with status 429 if there are too many in a second.
#[derive(Default)]
struct Partner {
    calls: Mutex<VecDeque<Instant>>,
    was_busy: AtomicBool,
}

enum Answer {
    Ok,
    TooManyRequests { retry_after: Duration },
}

impl Partner {
    fn call(&self, number: usize) -> Answer {
        let mut calls = self.calls.lock().unwrap();
        let now = Instant::now();
        while calls.front().is_some_and(|&call| now - call >= WINDOW) {
            calls.pop_front();
        }
        calls.push_back(now);
        // Call 150 meets a bad moment; that is not our fault, but we have to do as they say.
        let bad_moment = number == 150 && !self.was_busy.swap(true, Ordering::Relaxed);
        if calls.len() > CALLS || bad_moment {
            return Answer::TooManyRequests { retry_after: Duration::from_millis(300) };
        }
        Answer::Ok
    }
}

/// What our side shares between its calls.
struct Client {
    partner: Partner,
    pacer: Pacer,
    start: Instant,
}

impl Client {
    fn submit(self: &Arc<Self>, priority: i8, number: usize) {
        let client = Arc::clone(self);
        let submitted = self.pacer.submit_with(priority, move || client.call(number));
        if let Err(error) = submitted {
            println!("call {number} was not made: {error}");
        }
    }

    fn call(self: &Arc<Self>, number: usize) {
        match self.partner.call(number) {
            Answer::Ok if number.is_multiple_of(50) => {
                println!("{:>8.1?} call {number}", self.start.elapsed());
            }
            Answer::Ok => {}
            Answer::TooManyRequests { retry_after } => {
                println!("{:>8.1?} call {number}: 429, later", self.start.elapsed());
                // Nobody calls until then, and this call is the first again.
                self.pacer.retry_after(retry_after);
                self.submit(1, number);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let timer = Timer::new();
    let pacer = Pacer::builder(&timer, CALLS, WINDOW).max_queued(1_000).max_running(8).build()?;
    let partner = Partner::default();
    let client = Arc::new(Client { partner, pacer: pacer.clone(), start: Instant::now() });
    for number in 1..250 {
        client.submit(0, number);
    }
    let last = pacer.submit(|| println!("the last one"))?;
    if let Some(start) = last.expected_start() {
        let wait = start.saturating_duration_since(Instant::now());
        println!("{} calls wait, the last one for about {wait:.1?}", pacer.queued());
    }
    while !last.is_started() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let stats = pacer.stats();
    println!("{:>8.1?} {} calls were made", client.start.elapsed(), stats.started);
    Ok(())
}
