//! Measures what jobs that are due in a week cost the service.
//!
//! The service is filled over HTTP, killed and restarted; the time until its first answer is
//! measured. Then it idles, and processor time and memory are measured. It is stopped and
//! restarted, and the time until the first answer is measured again. It must report all jobs after
//! each restart.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use super::program::start;
use crate::queue::measure::pending::{ensure_all, fill};
use crate::queue::measure::time;
use crate::suite::{Figures, Run};

/// The durability while the service is filled: nothing is measured then, so syncing at intervals is
/// enough.
const FILLING: &str = "50ms";
const SYNCED: &str = "sync";
/// The pause for work that continues after a start.
const CALM: Duration = Duration::from_secs(2);

pub(super) fn measure(run: &Run) -> Result<Figures> {
    let (binary, folder) = (run.path("binary")?, run.path("folder")?);
    let (jobs, time) = (run.number("jobs")?, time(run)?);
    let (program, service, _) = start(binary, folder, FILLING)?;
    fill(&service, jobs)?;
    program.kill()?;

    let (program, service, after_kill) = start(binary, folder, SYNCED)?;
    ensure_all(&service, jobs)?;
    sleep(CALM.min(time));
    let before = program.processor_time()?;
    sleep(time);
    let used = program.processor_time()?.saturating_sub(before);
    let memory = program.resident()?;
    program.stop()?;

    let (_program, service, after_stop) = start(binary, folder, SYNCED)?;
    ensure_all(&service, jobs)?;
    let size = fs::metadata(binary).with_context(|| format!("no size of {}", binary.display()))?;
    Ok(vec![
        ("start-after-kill", after_kill.as_secs_f64()),
        ("start-after-stop", after_stop.as_secs_f64()),
        ("memory", memory as f64 / f64::from(1 << 20)),
        ("idle", 100.0 * used.as_secs_f64() / time.as_secs_f64()),
        ("binary", size.len() as f64 / 1e6),
    ])
}
