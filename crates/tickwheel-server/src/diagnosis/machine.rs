//! The machine: its clock, and how many files a process may open.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use super::{Finding, Severity};
use crate::http::descriptors::Descriptors;

/// How long the program that knows the state of the clock may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// A clock that is being steered moves by far less than this during a check.
const JUMP: Duration = Duration::from_millis(100);
/// A file from further ahead than this was written by another time.
const FUTURE: Duration = Duration::from_secs(60);
/// With fewer connections than this, a server refuses clients on an ordinary day.
const FEW_CONNECTIONS: usize = 512;

/// Watches whether the wall clock is set while other checks run.
///
/// ```
/// use tickwheel_server::diagnosis::ClockWatch;
///
/// let watch = ClockWatch::start();
/// // … checks …
/// if let Some(finding) = watch.finding() {
///     println!("{}", finding.message);
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ClockWatch {
    wall: SystemTime,
    monotonic: Instant,
}

impl ClockWatch {
    /// Notes both clocks.
    pub fn start() -> Self {
        Self { wall: SystemTime::now(), monotonic: Instant::now() }
    }

    /// Returns a warning if the clocks moved by different amounts since the start.
    pub fn finding(self) -> Option<Finding> {
        let elapsed = self.monotonic.elapsed();
        let expected = self.wall + elapsed;
        let now = SystemTime::now();
        let (jump, direction) = match now.duration_since(expected) {
            Ok(ahead) => (ahead, "forward"),
            Err(error) => (error.duration(), "back"),
        };
        (jump > JUMP).then(|| {
            let what = format!("the wall clock was set {direction} by {jump:.1?} during the check");
            let advice = "let one program set the clock, in small steps: due jobs follow the wall \
                          clock";
            Finding::new(Severity::Warning, "clock", what).advice(advice)
        })
    }
}

/// Checks whether this machine's clock is synchronized, as far as `timedatectl` knows.
///
/// ```
/// let finding = tickwheel_server::diagnosis::clock_synchronization();
/// assert_eq!(finding.check, "clock");
/// ```
pub fn clock_synchronization() -> Finding {
    match synchronized() {
        Some(true) => Finding::new(Severity::Fine, "clock", "the clock is synchronized"),
        Some(false) => Finding::new(
            Severity::Warning,
            "clock",
            "the clock is not synchronized, as `timedatectl` says: jobs are due by a clock that may \
             be wrong",
        )
        .advice("run a time service such as chrony or systemd-timesyncd"),
        None => Finding::new(
            Severity::Note,
            "clock",
            "whether the clock is synchronized is unknown: `timedatectl` does not answer here",
        ),
    }
}

fn synchronized() -> Option<bool> {
    let mut child = Command::new("timedatectl")
        .args(["show", "--property=NTPSynchronized", "--value"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let start = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take()?, &mut text).ok()?;
    match text.trim() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// Finds files that were written later than now: the clock was set back since.
pub(super) fn future_files(queue: &Path) -> Option<Finding> {
    let entries = [queue.to_owned(), queue.join("store")]
        .into_iter()
        .filter_map(|folder| fs::read_dir(folder).ok());
    let times = entries.flatten().filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok());
    let ahead = times.max()?.duration_since(SystemTime::now()).ok()?;
    (ahead > FUTURE).then(|| {
        let what = format!(
            "a file was written {} s in the future: the clock was set back since",
            ahead.as_secs()
        );
        let advice = "check the clock; jobs that were due by the old one wait until the new one \
                      reaches their time";
        Finding::new(Severity::Warning, "clock", what).advice(advice)
    })
}

/// Checks how many files a process that is started here may open.
pub(super) fn file_limit(wanted: usize) -> Finding {
    let descriptors = Descriptors::raise(wanted);
    let Descriptors { limit, connections, .. } = descriptors;
    if limit == usize::MAX {
        return Finding::new(Severity::Fine, "file limit", "open files are not limited");
    }
    let what = format!(
        "a process started here may open {limit} files, which is enough for {connections} connections"
    );
    let advice = "raise it with `ulimit -n`, or `LimitNOFILE` in the systemd unit; the unit of the \
                  package sets 65,536";
    if connections < FEW_CONNECTIONS || connections < wanted {
        return Finding::new(Severity::Warning, "file limit", what).advice(advice);
    }
    Finding::new(Severity::Fine, "file limit", what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_during_the_check_is_told() {
        let jump = Duration::from_secs(10);
        let ClockWatch { wall, monotonic } = ClockWatch::start();
        let set_forward = ClockWatch { wall: wall - jump, monotonic }.finding().unwrap();
        assert_eq!((set_forward.severity, set_forward.check), (Severity::Warning, "clock"));
        assert!(set_forward.message.contains("forward by 10.0s"), "{}", set_forward.message);
        let set_back = ClockWatch { wall: wall + jump, monotonic }.finding().unwrap();
        assert!(set_back.message.contains("set back by"), "{}", set_back.message);
        assert!(set_back.advice.unwrap().contains("let one program set the clock"));
    }
}
