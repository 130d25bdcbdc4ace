//! The longest pauses of our timer: every call is timed, and so is every call of a second thread
//! that needs the timer meanwhile.
//!
//! A thread that is preempted seems to pause as well. So a long call counts only if the system has
//! not taken the processor from its thread since the last look.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tickwheel::Timer;

use super::figure::Figure;
use super::plan::Plan;
use super::run::Outcome;
use crate::lateness::Task;
use crate::memory::sum_of;
use crate::work::{self, Checksum};

/// Shorter calls are not looked at closely.
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

/// How often the system has taken the processor from this thread.
fn preemptions() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    sum_of(&status, "nonvoluntary_ctxt_switches")
}

pub(super) fn pause(plan: &Plan) -> Outcome {
    let delays = work::far(&plan.size);
    let mut figures = BTreeMap::new();
    let waits = [
        beside(&Timer::new(), |timer| by_handle(timer, &delays, &mut figures)),
        beside(&Timer::new(), |timer| by_key(timer, &delays, &mut figures)),
        beside(&Timer::new(), |timer| fire_at_once(timer, plan)),
    ];
    figures.insert(Figure::PauseWait, waits.into_iter().fold(0.0, f64::max));
    Outcome { checksum: Checksum::default().delays(&delays).0, figures }
}

/// Does `work` while a second thread schedules and cancels. Returns the longest time in ms that
/// one of its calls took.
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
                // The other cores are for the timer and for the thread beside this one.
                thread::sleep(Duration::from_micros(100));
            }
            longest.milliseconds()
        });
        work(timer);
        done.store(true, Ordering::Relaxed);
        other.join().expect("the second thread does not panic")
    })
}

fn by_handle(timer: &Timer, delays: &[Duration], figures: &mut BTreeMap<Figure, f64>) {
    let mut longest = Longest::new();
    let mut handles = Vec::with_capacity(delays.len());
    for (index, &delay) in delays.iter().enumerate() {
        let task = Task::far(index);
        let timeout = longest.call(|| timer.after(delay, move || task.run()));
        handles.push(timeout.expect("the timer runs and has no limit"));
    }
    figures.insert(Figure::PauseSchedule, longest.milliseconds());
    let mut longest = Longest::new();
    for timeout in handles.iter().step_by(2) {
        longest.call(|| timeout.cancel());
    }
    figures.insert(Figure::PauseCancel, longest.milliseconds());
}

fn by_key(timer: &Timer, delays: &[Duration], figures: &mut BTreeMap<Figure, f64>) {
    let mut longest = Longest::new();
    for (index, &delay) in delays.iter().enumerate() {
        let task = Task::far(index);
        let timeout = longest.call(|| timer.key(index as u64).after(delay, move || task.run()));
        drop(timeout.expect("the timer runs and has no limit"));
    }
    figures.insert(Figure::PauseKey, longest.milliseconds());
}

/// All timers are due at once, so one slot after the other is demoted whole.
fn fire_at_once(timer: &Timer, plan: &Plan) {
    let deadline = Instant::now() + Duration::from_millis(plan.size.lead_ms);
    for _ in 0..plan.size.timers {
        timer.at(deadline, || ()).expect("the timer runs and has no limit");
    }
    // The other thread's timer alone is left, or none.
    while timer.pending() > 1 {
        thread::sleep(Duration::from_millis(10));
    }
}
