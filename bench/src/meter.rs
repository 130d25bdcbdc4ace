//! Measures sections of a run: processor time, wall time and context switches.

use std::collections::HashMap;
use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

use crate::memory::sum_of;

/// Measures all threads of the process, from when it is created.
pub(crate) struct Meter {
    processor: Duration,
    wall: Instant,
}

/// The time that a section took.
pub(crate) struct Reading {
    /// User and system time of all threads, including threads that have ended.
    pub(crate) processor: Duration,
    pub(crate) wall: Duration,
}

impl Reading {
    /// Returns nanoseconds for each of `count` operations, under these two names.
    pub(crate) fn each(
        &self,
        [processor, wall]: [&'static str; 2],
        count: usize,
    ) -> [(&'static str, f64); 2] {
        let each = |time: Duration| time.as_nanos() as f64 / count as f64;
        [(processor, each(self.processor)), (wall, each(self.wall))]
    }
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self { processor: processor_time(ClockId::ProcessCPUTime), wall: Instant::now() }
    }

    pub(crate) fn stop(&self) -> Reading {
        let wall = self.wall.elapsed();
        let now = processor_time(ClockId::ProcessCPUTime);
        Reading { processor: now.saturating_sub(self.processor), wall }
    }
}

/// Measures the processor time of this thread, from when it is created.
///
/// The thread never waits, so on a quiet machine this is the wall time. On a busy machine the time
/// of other processes is not included. Page faults and other kernel work for the thread are.
pub(crate) struct Stopwatch {
    wall: Instant,
    processor: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { wall: Instant::now(), processor: processor_time(ClockId::ThreadCPUTime) }
    }

    /// Returns the processor time since the start, minus the share of work that took `apart` of
    /// wall time.
    ///
    /// That work is too short and frequent to read the processor clock around it: such a reading
    /// takes ten times as long as one of the wall clock. So its share of wall time is subtracted.
    /// This is fair, because other processes interrupt each part in proportion to its length.
    pub(crate) fn elapsed_without(&self, apart: Duration) -> Duration {
        let processor = processor_time(ClockId::ThreadCPUTime).saturating_sub(self.processor);
        let wall = self.wall.elapsed();
        processor.mul_f64(wall.saturating_sub(apart).as_secs_f64() / wall.as_secs_f64())
    }
}

fn processor_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Measures how long one undisturbed reading of the wall clock takes.
pub(crate) fn reading_cost() -> Duration {
    const READINGS: u32 = 1_000;
    let batch = |_| {
        let started = Instant::now();
        for _ in 1..READINGS {
            black_box(Instant::now());
        }
        started.elapsed() / READINGS
    };
    (0..50).map(batch).min().unwrap_or_default()
}

/// Context switches of each thread so far, voluntary or not.
pub(crate) struct Switches(HashMap<String, u64>);

impl Switches {
    pub(crate) fn read() -> Result<Self> {
        let threads =
            fs::read_dir("/proc/self/task").context("cannot list the threads of this process")?;
        let mut switches = HashMap::new();
        for thread in threads {
            let path = thread?.path();
            // A thread that has ended in the meantime has no status.
            let status = fs::read_to_string(path.join("status")).unwrap_or_default();
            let count = sum_of(&status, "voluntary_ctxt_switches");
            switches.insert(path.display().to_string(), count);
        }
        Ok(Self(switches))
    }

    /// Returns the number of switches since `before`.
    pub(crate) fn since(&self, before: &Self) -> u64 {
        let grown = |(thread, count): (&String, &u64)| {
            count.saturating_sub(before.0.get(thread).copied().unwrap_or(0))
        };
        self.0.iter().map(grown).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Duration = Duration::from_millis(50);

    fn busy(time: Duration) {
        let started = Instant::now();
        while started.elapsed() < time {
            black_box(());
        }
    }

    #[test]
    fn a_sleeping_thread_switches_and_takes_no_time() {
        let before = Switches::read().unwrap();
        let (meter, stopwatch) = (Meter::start(), Stopwatch::start());
        std::thread::sleep(WORK);
        assert!(stopwatch.elapsed_without(Duration::ZERO) < WORK / 2);
        assert!(meter.stop().wall >= WORK);
        assert!(Switches::read().unwrap().since(&before) >= 1);
    }

    #[test]
    fn what_is_apart_is_subtracted() {
        let stopwatch = Stopwatch::start();
        busy(WORK);
        let started = Instant::now();
        busy(WORK);
        let apart = started.elapsed();
        assert!(stopwatch.elapsed_without(apart) < stopwatch.elapsed_without(Duration::ZERO));
    }
}
