//! Submits tasks to a pacer and starts them.
//!
//! Except in `threads`, the timer has no thread: the calling thread submits tasks, and then calls
//! `turn` to start them. So submitting and starting are measured separately, on the real clock,
//! without waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tickwheel::pace::KeyedPacer;
use tickwheel::{ManualClock, Timer};

use super::keys;
use crate::memory::live_bytes;
use crate::meter::{Meter, Stopwatch};
use crate::suite::Figures;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

/// Tasks for each key where only one may start in a second.
const TASKS_THAT_WAIT: u64 = 3;

/// The sum of the keys of all tasks that have started.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// Submits a task for each key.
fn submit_all(pacer: &KeyedPacer<u64>, keys: &[u64]) -> Result<()> {
    for &key in keys {
        pacer.key(key).submit(move || {
            STARTED.fetch_add(key, Ordering::Relaxed);
        })?;
    }
    Ok(())
}

/// Checks that the task of each key has started `times` times, and no other task.
fn ensure_started(pacer: &KeyedPacer<u64>, keys: &[u64], times: u64) -> Result<()> {
    let stats = pacer.stats();
    let count = keys.len() as u64 * times;
    ensure!(stats.started == count, "{} of {count} tasks have started", stats.started);
    let sum = keys.iter().fold(0_u64, |sum, key| sum.wrapping_add(*key)).wrapping_mul(times);
    ensure!(STARTED.load(Ordering::Relaxed) == sum, "other tasks have started than were submitted");
    Ok(())
}

/// Returns nanoseconds of this thread for each of `count`.
fn time(count: usize, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let stopwatch = Stopwatch::start();
    work()?;
    Ok(stopwatch.elapsed_without(Duration::ZERO).as_nanos() as f64 / count as f64)
}

/// Returns nanoseconds for each of `count` tasks that a timer without a thread starts.
fn dispatch(timer: &Timer, count: usize) -> Result<f64> {
    time(count, || {
        timer.turn();
        Ok(())
    })
}

fn caller_driven() -> Result<Timer> {
    Ok(Timer::builder().caller_driven().build()?)
}

/// Submits and starts a task for each new key, then for the same keys again.
pub(super) fn start(count: usize) -> Result<Figures> {
    let (first, second) = (keys(count, 0), keys(count, 1));
    let timer = caller_driven()?;
    let before = live_bytes();
    let pacer = KeyedPacer::new(&timer, 100, HOUR);
    let submit_new = time(count, || submit_all(&pacer, &first))?;
    let memory = (live_bytes() - before) as f64 / count as f64;
    let dispatch_new = dispatch(&timer, count)?;
    let submit_known = time(count, || submit_all(&pacer, &second))?;
    let dispatch_known = dispatch(&timer, count)?;
    ensure_started(&pacer, &first, 2)?;
    Ok(vec![
        ("submit-new", submit_new),
        ("dispatch-new", dispatch_new),
        ("both-new", submit_new + dispatch_new),
        ("submit-known", submit_known),
        ("dispatch-known", dispatch_known),
        ("both-known", submit_known + dispatch_known),
        ("memory-queued", memory),
    ])
}

/// Submits while the timer's own thread starts tasks.
pub(super) fn threads(count: usize) -> Result<Figures> {
    let keys = keys(count, 0);
    let timer = Timer::new();
    let pacer = KeyedPacer::new(&timer, 100, HOUR);
    let meter = Meter::start();
    submit_all(&pacer, &keys)?;
    while pacer.stats().queued + pacer.stats().running > 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let processor = meter.stop().processor;
    ensure_started(&pacer, &keys, 1)?;
    Ok(vec![("threads", processor.as_nanos() as f64 / count as f64)])
}

/// Allows one start a second for each key, so that most tasks wait in the wheel.
pub(super) fn wait(count: usize) -> Result<Figures> {
    let passes: Vec<_> = (0..TASKS_THAT_WAIT).map(|pass| keys(count, pass)).collect();
    let timer = caller_driven()?;
    let pacer = KeyedPacer::new(&timer, 1, SECOND);
    let all = count * passes.len();
    let processor = time(all, || {
        passes.iter().try_for_each(|keys| submit_all(&pacer, keys))?;
        // Sleeping does not count: only processor time is measured.
        while pacer.stats().queued > 0 {
            if let Some(deadline) = timer.next_deadline() {
                thread::sleep(deadline.saturating_duration_since(Instant::now()));
            }
            timer.turn();
        }
        Ok(())
    })?;
    ensure_started(&pacer, &passes[0], TASKS_THAT_WAIT)?;
    Ok(vec![("wait", processor)])
}

/// Lets a window pass on a manual clock.
pub(super) fn forget(count: usize) -> Result<Figures> {
    let keys = keys(count, 0);
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build()?;
    let pacer = KeyedPacer::new(&timer, 100, SECOND);
    submit_all(&pacer, &keys)?;
    clock.advance(Duration::ZERO);
    ensure_started(&pacer, &keys, 1)?;
    let processor = time(count, || {
        clock.advance(2 * SECOND);
        Ok(())
    })?;
    ensure!(pacer.stats().keys == 0, "{} keys were not forgotten", pacer.stats().keys);
    Ok(vec![("forget", processor)])
}
