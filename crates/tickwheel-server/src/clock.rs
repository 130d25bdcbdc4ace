//! The manual clock of `serve --clock manual`, for integration tests.
//!
//! Time stands still until a request advances it. The file `clock` in the data directory holds the
//! time, so that a restarted server continues from there. The file also marks the directory: due
//! times of a manual clock mean nothing to a real one, and vice versa. So a directory is opened
//! only with the kind of clock that created it.

use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tickwheel::ManualClock;
use tickwheel_queue::{Queues, Time};
use tokio::sync::Mutex;

use crate::api::Code;
use crate::config::Config;
use crate::problem::Failure;

const FILE_NAME: &str = "clock";

/// Why the clock of the service cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClockError {
    /// A manual clock was requested on an address that other machines can reach.
    NotLoopback(SocketAddr),
    /// A manual clock was requested for a data directory that has used real time.
    UsedRealTime(PathBuf),
    /// Real time was requested for a data directory that has used a manual clock.
    UsedManualTime(PathBuf),
    /// The file that holds the manual time cannot be read or written.
    File(PathBuf, io::Error),
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoopback(address) => write!(
                f,
                "a manual clock is for tests and requires a loopback address, got {address}: listen \
                 on 127.0.0.1"
            ),
            Self::UsedRealTime(data) => write!(
                f,
                "{} has used real time: choose a new directory for the manual clock with `--data`",
                data.display()
            ),
            Self::UsedManualTime(data) => write!(
                f,
                "{} has used a manual clock: start it with `--clock manual`, or choose another \
                 directory with `--data`",
                data.display()
            ),
            Self::File(path, error) => {
                write!(f, "{} cannot be used: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for ClockError {}

/// A manual clock, and the file that holds its time.
pub(crate) struct ManualTime {
    clock: ManualClock,
    /// Without a file, the program that embeds the service owns the clock.
    file: Option<PathBuf>,
    /// Held while the clock is advanced.
    advancing: Mutex<()>,
}

impl ManualTime {
    /// Returns the manual clock, if the configuration asks for one.
    pub(crate) fn open(config: &Config) -> Result<Option<Self>, ClockError> {
        if let Some(clock) = &config.clock {
            return Ok(Some(Self::new(clock.clone(), None)));
        }
        let file = config.data.join(FILE_NAME);
        if !config.manual_clock {
            if file.exists() {
                return Err(ClockError::UsedManualTime(config.data.clone()));
            }
            return Ok(None);
        }
        if !config.listen.ip().to_canonical().is_loopback() {
            return Err(ClockError::NotLoopback(config.listen));
        }
        let clock = ManualClock::new();
        match read(&file) {
            Ok(Some(time)) => clock.set_wall(time.into()),
            Ok(None) if config.data.join("queue").exists() => {
                return Err(ClockError::UsedRealTime(config.data.clone()));
            }
            Ok(None) => {
                // Due times are whole milliseconds, rounded up. With a fraction in the clock, a job
                // that is due now would wait for the clock to be advanced.
                let start = Time::from(clock.wall());
                clock.set_wall(start.into());
                write(&file, start).map_err(|error| ClockError::File(file.clone(), error))?;
            }
            Err(error) => return Err(ClockError::File(file, error)),
        }
        tracing::warn!("the clock is manual: time stands still until a request advances it");
        Ok(Some(Self::new(clock, Some(file))))
    }

    fn new(clock: ManualClock, file: Option<PathBuf>) -> Self {
        Self { clock, file, advancing: Mutex::default() }
    }

    pub(crate) fn clock(&self) -> &ManualClock {
        &self.clock
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.wall().into()
    }

    /// Advances the clock, and waits until the queue has processed everything that is due. The
    /// clock stops at the queue's alarms on the way, but not at every occurrence of a schedule:
    /// those in between are missed, and follow the schedule's misfire policy.
    pub(crate) async fn advance(&self, by: Duration, queues: &Queues) -> Result<(), Failure> {
        let _turn = self.advancing.lock().await;
        if let Some(file) = self.file.clone() {
            // The file is written first: the clock must not run backwards after a crash.
            let target = SystemTime::from(self.now()) + by;
            let written = tokio::task::spawn_blocking(move || write(&file, target.into())).await;
            let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
            written.map_err(|error| {
                Failure::new(Code::Unavailable, format!("the time cannot be kept: {error}"))
            })?;
        }
        for _ in self.clock.steps(by) {
            settle(queues).await?;
        }
        Ok(())
    }
}

/// Waits until the queue has processed everything that is due and has set its alarm for the next
/// deadline. Each answer takes one turn of the writer, which sets the alarm after a turn without
/// work.
async fn settle(queues: &Queues) -> Result<(), Failure> {
    const IDLE_TURNS: u32 = 4;
    let (mut commits, mut idle) = (None, 0);
    while idle < IDLE_TURNS {
        let now = Some(queues.stats().await?.commits);
        idle = if now == commits { idle + 1 } else { 0 };
        commits = now;
    }
    Ok(())
}

fn read(file: &Path) -> io::Result<Option<Time>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let wrong = |_| io::Error::new(io::ErrorKind::InvalidData, "not a time in milliseconds");
    text.trim().parse().map(Time::from_millis).map(Some).map_err(wrong)
}

fn write(file: &Path, time: Time) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, format!("{}\n", time.as_millis()))?;
    fs::rename(new, file)
}
