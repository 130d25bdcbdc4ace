//! What a section of a run takes: processor time of all threads of the process, time on the wall,
//! and context switches.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

use crate::memory::sum_of;

/// Runs from when it is made.
pub(crate) struct Meter {
    processor: Duration,
    wall: Instant,
}

/// What something took.
pub(crate) struct Reading {
    pub(crate) processor: Duration,
    pub(crate) wall: Duration,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self { processor: processor_time(), wall: Instant::now() }
    }

    pub(crate) fn stop(&self) -> Reading {
        let wall = self.wall.elapsed();
        Reading { processor: processor_time().saturating_sub(self.processor), wall }
    }
}

/// User and system time of all threads, those that have ended included.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Context switches of each thread so far, voluntary or not.
pub(crate) struct Switches(HashMap<String, u64>);

impl Switches {
    pub(crate) fn read() -> Result<Self> {
        let threads =
            fs::read_dir("/proc/self/task").context("cannot list this process' threads")?;
        let mut switches = HashMap::new();
        for thread in threads {
            let path = thread?.path();
            // A thread that has ended meanwhile has no status any more.
            let status = fs::read_to_string(path.join("status")).unwrap_or_default();
            let count = sum_of(&status, "voluntary_ctxt_switches");
            switches.insert(path.display().to_string(), count);
        }
        Ok(Self(switches))
    }

    /// How many there have been since `before`.
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

    #[test]
    fn a_sleeping_thread_switches_and_takes_no_time() {
        let before = Switches::read().unwrap();
        let meter = Meter::start();
        std::thread::sleep(Duration::from_millis(20));
        let reading = meter.stop();
        assert!(reading.wall >= Duration::from_millis(20));
        assert!(Switches::read().unwrap().since(&before) >= 1);
    }
}
