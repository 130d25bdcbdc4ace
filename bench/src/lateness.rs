//! Records how late each task ran, by index. The records are static, so that a task captures only
//! its index and deadline, 16 bytes.
//!
//! A task writes to its own record and increments a counter. If the counter equals the number of
//! records and no record is empty, each task ran once.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

const NOT_RUN: i64 = i64::MIN;
const BLOCKED: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_mins(1);

/// The index of the sentinel, a task that runs after all work before it is done.
const SENTINEL: u64 = u64::MAX;
/// The bit that marks the index of a task that blocks its thread.
const BLOCKS: u64 = 1 << 40;

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
static LATENESS: OnceLock<Box<[AtomicI64]>> = OnceLock::new();
static RAN: AtomicUsize = AtomicUsize::new(0);
static SENTINEL_RAN: AtomicBool = AtomicBool::new(false);

/// A task with its index and deadline, which records how late it runs.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    index: u64,
    /// Nanoseconds by [`now`]; 0 if the task never runs.
    deadline: u64,
}

impl Task {
    /// Returns a task that is cancelled before it runs.
    pub(crate) fn far(index: usize) -> Self {
        Self { index: index as u64, deadline: 0 }
    }

    /// Returns a task that is due after `delay` from now.
    pub(crate) fn due(index: usize, delay: Duration, blocks: bool) -> Self {
        let index = index as u64 | if blocks { BLOCKS } else { 0 };
        Self { index, deadline: now() + delay.as_nanos() as u64 }
    }

    pub(crate) fn sentinel() -> Self {
        SENTINEL_RAN.store(false, Ordering::Release);
        Self { index: SENTINEL, deadline: 0 }
    }

    pub(crate) fn index(self) -> u64 {
        self.index
    }

    pub(crate) fn deadline(self) -> u64 {
        self.deadline
    }

    pub(crate) fn run(self) {
        let late = now().cast_signed() - self.deadline.cast_signed();
        if self.index == SENTINEL {
            SENTINEL_RAN.store(true, Ordering::Release);
            return;
        }
        let place = LATENESS.get().and_then(|all| all.get((self.index & (BLOCKS - 1)) as usize));
        place.expect("a task that fires has a place").store(late, Ordering::Relaxed);
        if self.index & BLOCKS != 0 {
            sleep(BLOCKED);
        }
        RAN.fetch_add(1, Ordering::Release);
    }
}

/// Returns nanoseconds since the first call, by the monotonic clock.
pub(crate) fn now() -> u64 {
    BEGAN.elapsed().as_nanos() as u64
}

/// Allocates the records of all tasks.
pub(crate) fn prepare(tasks: usize) {
    let places = (0..tasks).map(|_| AtomicI64::new(NOT_RUN)).collect();
    assert!(LATENESS.set(places).is_ok(), "a process has one run");
}

/// Waits until the task of [`Task::sentinel`] has run.
pub(crate) fn await_sentinel() -> Result<()> {
    let asked = Instant::now();
    while !SENTINEL_RAN.load(Ordering::Acquire) {
        ensure!(asked.elapsed() < PATIENCE, "a task without a delay has not run for a minute");
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Waits until every task has run, and checks that each ran once.
pub(crate) fn await_all(last_deadline: u64) -> Result<()> {
    let tasks = LATENESS.get().map_or(0, |all| all.len());
    sleep(Duration::from_nanos(last_deadline.saturating_sub(now())));
    let asked = Instant::now();
    while RAN.load(Ordering::Acquire) < tasks && asked.elapsed() < PATIENCE {
        sleep(Duration::from_millis(1));
    }
    let missing = all().iter().filter(|late| late.load(Ordering::Relaxed) == NOT_RUN).count();
    let ran = RAN.load(Ordering::Acquire);
    ensure!(
        missing == 0 && ran == tasks,
        "{ran} runs of {tasks} tasks, {missing} of them never ran"
    );
    Ok(())
}

/// Returns the sorted lateness in nanoseconds, without the tasks that `left_out` selects.
pub(crate) fn sorted(left_out: impl Fn(usize) -> bool) -> Vec<i64> {
    let kept = all().iter().enumerate().filter(|(index, _)| !left_out(*index));
    let mut sorted: Vec<i64> = kept.map(|(_, late)| late.load(Ordering::Relaxed)).collect();
    sorted.sort_unstable();
    sorted
}

fn all() -> &'static [AtomicI64] {
    LATENESS.get().map_or(&[], |all| all)
}
