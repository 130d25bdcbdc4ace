//! Measures the longest call of our timer, and that of a second thread that uses it at the same
//! time.
//!
//! A call also takes long if its thread is preempted. So a long call counts only if the kernel has
//! not preempted its thread since the previous long call.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tickwheel::Timer;

use super::run::Plan;
use crate::lateness::Task;
use crate::memory::sum_of;
use crate::suite::{Figures, Outcome};
use crate::work::{self, Checksum};

/// Shorter calls are not examined.
const NOTABLE: Duration = Duration::from_micros(50);

/// The longest of many calls of one thread.
struct Longest {
    time: Duration,
    preemptions: u64,
}

impl Longest {
    fn new() -> Self {
        Self { time: Duration::ZERO, preemptions: preemptions() }
    }

    /// Times a call.
    fn call<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = call();
        let time = start.elapsed();
        if time > NOTABLE && time > self.time {
            let now = preemptions();
            if now == self.preemptions {
                self.time = time;
            }
            self.preemptions = now;
        }
        result
    }

    fn milliseconds(&self) -> f64 {
        self.time.as_secs_f64() * 1e3
    }
}

/// Returns how often the kernel has preempted this thread.
fn preemptions() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    sum_of(&status, "nonvoluntary_ctxt_switches")
}

pub(super) fn pause(plan: &Plan) -> Outcome {
    let delays = work::far(&plan.size);
    let mut figures = Figures::new();
    let waits = [
        beside(&Timer::new(), |timer| by_handle(timer, &delays, &mut figures)),
        beside(&Timer::new(), |timer| by_key(timer, &delays, &mut figures)),
        beside(&Timer::new(), |timer| fire_at_once(timer, plan)),
    ];
    figures.push(("pause-wait", waits.into_iter().fold(0.0, f64::max)));
    Checksum::default().delays(&delays).outcome(figures)
}

/// Does `work` while a second thread schedules and cancels. Returns the second thread's longest call
/// in ms.
fn beside(timer: &Timer, work: impl FnOnce(&Timer)) -> f64 {
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            let mut longest = Longest::new();
            while !done.load(Ordering::Relaxed) {
                let hour = Duration::from_hours(1);
                let timeout = longest.call(|| timer.after(hour, || ()));
                let timeout = timeout.expect("the timer runs and has no limit");
                longest.call(|| timeout.cancel());
                // Leaves the cores to the timer and the first thread.
                thread::sleep(Duration::from_micros(100));
            }
            longest.milliseconds()
        });
        work(timer);
        done.store(true, Ordering::Relaxed);
        other.join().expect("the second thread does not panic")
    })
}

fn by_handle(timer: &Timer, delays: &[Duration], figures: &mut Figures) {
    let mut longest = Longest::new();
    let mut handles = Vec::with_capacity(delays.len());
    for (index, &delay) in delays.iter().enumerate() {
        let task = Task::far(index);
        let timeout = longest.call(|| timer.after(delay, move || task.run()));
        handles.push(timeout.expect("the timer runs and has no limit"));
    }
    figures.push(("pause-schedule", longest.milliseconds()));
    let mut longest = Longest::new();
    for timeout in handles.iter().step_by(2) {
        longest.call(|| timeout.cancel());
    }
    figures.push(("pause-cancel", longest.milliseconds()));
}

fn by_key(timer: &Timer, delays: &[Duration], figures: &mut Figures) {
    let mut longest = Longest::new();
    for (index, &delay) in delays.iter().enumerate() {
        let task = Task::far(index);
        let timeout = longest.call(|| timer.key(index as u64).after(delay, move || task.run()));
        drop(timeout.expect("the timer runs and has no limit"));
    }
    figures.push(("pause-key", longest.milliseconds()));
}

/// Makes all timers due at once, so that whole slots are demoted.
fn fire_at_once(timer: &Timer, plan: &Plan) {
    let deadline = Instant::now() + Duration::from_millis(plan.size.lead_ms);
    for _ in 0..plan.size.timers {
        timer.at(deadline, || ()).expect("the timer runs and has no limit");
    }
    // Only the timer of the other thread may remain.
    while timer.pending() > 1 {
        thread::sleep(Duration::from_millis(10));
    }
}
