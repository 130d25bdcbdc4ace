//! How long something takes: the time that this thread was on a processor.
//!
//! Everything measured here runs on one thread and never waits, so on a quiet machine this is the
//! time on the wall. On a busy one it leaves out what other processes took. Page faults and other
//! work that the kernel does for the thread are in it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Runs from when it is made.
pub(crate) struct Stopwatch {
    wall: Instant,
    processor: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { wall: Instant::now(), processor: processor_time() }
    }

    /// Processor time since the start, without the part of it that went to something which took
    /// `apart` on the wall.
    ///
    /// That something is too short and frequent to read the processor's clock around it, which
    /// takes ten times as long as reading the wall's. So it is taken off in proportion: other
    /// processes interrupt each part in proportion to its length.
    pub(crate) fn elapsed_without(&self, apart: Duration) -> Duration {
        let processor = processor_time().saturating_sub(self.processor);
        let wall = self.wall.elapsed();
        processor.mul_f64(wall.saturating_sub(apart).as_secs_f64() / wall.as_secs_f64())
    }
}

/// What one reading of the wall's clock takes, undisturbed.
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

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
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
    fn sleeping_takes_no_time() {
        let stopwatch = Stopwatch::start();
        std::thread::sleep(WORK);
        assert!(stopwatch.elapsed_without(Duration::ZERO) < WORK / 2);
    }

    #[test]
    fn what_is_apart_is_taken_off() {
        let stopwatch = Stopwatch::start();
        busy(WORK);
        let started = Instant::now();
        busy(WORK);
        let apart = started.elapsed();
        assert!(stopwatch.elapsed_without(apart) < stopwatch.elapsed_without(Duration::ZERO));
    }
}
