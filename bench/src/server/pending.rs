//! What jobs that are due in a week cost the service while they wait.
//!
//! It is filled over HTTP, killed, and started again: first answer. Then it is left alone for a
//! while: processor time and memory. Then it is stopped and started once more: first answer. What
//! it says that it holds has to be all.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use super::figure::Figure;
use super::measure::Figures;
use super::plan::Plan;
use super::program::Program;
use crate::queue::measure::pending::{ensure_all, fill};

/// For filling, where nothing is measured, a sync now and then has to do.
const FILLING: &str = "50ms";
const SYNCED: &str = "sync";
/// What a start leaves to be done is done by then.
const CALM: Duration = Duration::from_secs(2);

pub(super) fn measure(plan: &Plan) -> Result<Figures> {
    let Plan { binary, folder, jobs, .. } = plan;
    let (program, service, _) = Program::start(binary, folder, FILLING)?;
    fill(&service, *jobs)?;
    program.kill()?;

    let (program, service, after_kill) = Program::start(binary, folder, SYNCED)?;
    ensure_all(&service, *jobs)?;
    sleep(CALM.min(plan.time()));
    let before = program.processor_time()?;
    sleep(plan.time());
    let used = program.processor_time()?.saturating_sub(before);
    let memory = program.resident()?;
    program.stop()?;

    let (_program, service, after_stop) = Program::start(binary, folder, SYNCED)?;
    ensure_all(&service, *jobs)?;
    let size = fs::metadata(binary).with_context(|| format!("no size of {}", binary.display()))?;
    Ok(vec![
        (Figure::StartAfterKill, after_kill.as_secs_f64()),
        (Figure::StartAfterStop, after_stop.as_secs_f64()),
        (Figure::Memory, memory as f64 / f64::from(1 << 20)),
        (Figure::Idle, 100.0 * used.as_secs_f64() / plan.time().as_secs_f64()),
        (Figure::Binary, size.len() as f64 / 1e6),
    ])
}
