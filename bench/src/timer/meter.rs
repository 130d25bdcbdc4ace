//! What a section of a run takes: processor time of all threads of the process, time on the wall,
//! context switches, and memory.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// Runs from when it is made.
pub(super) struct Meter {
    processor: Duration,
    wall: Instant,
}

/// What something took.
pub(super) struct Reading {
    pub(super) processor: Duration,
    pub(super) wall: Duration,
}

impl Meter {
    pub(super) fn start() -> Self {
        Self { processor: processor_time(), wall: Instant::now() }
    }

    pub(super) fn stop(&self) -> Reading {
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
pub(super) struct Switches(HashMap<String, u64>);

impl Switches {
    pub(super) fn read() -> Result<Self> {
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
    pub(super) fn since(&self, before: &Self) -> u64 {
        let grown = |(thread, count): (&String, &u64)| {
            count.saturating_sub(before.0.get(thread).copied().unwrap_or(0))
        };
        self.0.iter().map(grown).sum()
    }
}

/// How much memory the process has, in bytes.
pub(super) fn resident() -> Result<u64> {
    let status =
        fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    Ok(sum_of(&status, "VmRSS") * 1_024)
}

/// The sum of the numbers of all lines whose name ends with `name`.
fn sum_of(status: &str, name: &str) -> u64 {
    status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| key.ends_with(name))
        .filter_map(|(_, value)| value.split_whitespace().next()?.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_switches_are_counted() {
        let status =
            "VmRSS:\t  12 kB\nvoluntary_ctxt_switches:\t6\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(sum_of(status, "voluntary_ctxt_switches"), 9);
        assert_eq!(sum_of(status, "VmRSS"), 12);
    }

    #[test]
    fn a_sleeping_thread_switches_and_takes_no_time() {
        let before = Switches::read().unwrap();
        let meter = Meter::start();
        std::thread::sleep(Duration::from_millis(20));
        let reading = meter.stop();
        assert!(reading.wall >= Duration::from_millis(20));
        assert!(Switches::read().unwrap().since(&before) >= 1);
    }

    #[test]
    fn memory_that_is_touched_is_resident() {
        let before = resident().unwrap();
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(resident().unwrap() >= before + (32 << 20));
        drop(block);
    }
}
