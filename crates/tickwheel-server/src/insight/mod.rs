//! What operators see: everything at one glance, what happened before, and the timing wheel.
//!
//! - [`overview`] gathers the glance: health, totals, and a line for each queue.
//! - [`trouble`] says in plain sentences what is wrong.
//! - [`series`] keeps bounded histories: a second apart for 15 minutes, a minute apart for 24 hours.
//! - [`recent`] knows what happened in the last seconds, for rates.
//! - [`sampler`] fills both, once a second.
//! - [`workers`] counts the workers that reserved jobs in the last minute.
//! - [`upcoming`] counts waiting jobs by their due time, while a client asks for them.
//! - [`live`] sends all of it to its listeners, twice a second.
//!
//! Ground rules: a number that is not known is `None`, never 0. What is shown is limited to the
//! queues that the caller may see. Without clients, one sample a second is the only work.

pub(crate) mod live;
mod overview;
mod recent;
mod sampler;
mod series;
mod trouble;
mod upcoming;
mod workers;

use std::sync::{Mutex, MutexGuard, PoisonError};

use tickwheel_queue::Error;

use crate::api::{History, HistoryWindow, Wheel, WheelLevel};
use crate::app::App;
use crate::auth::Caller;
use crate::problem::Failure;
use crate::tokens::Scope;

pub(crate) use overview::{MAX_QUEUES, overview};
pub(crate) use sampler::{keep_sampling, take_sample};
pub(crate) use workers::{WorkerName, Workers};

use live::Hub;
use sampler::Samples;
use upcoming::DueCounts;

/// What is kept for operators.
#[derive(Default)]
pub(crate) struct Insight {
    samples: Mutex<Samples>,
    pub(crate) workers: Workers,
    due: DueCounts,
    live: Hub,
}

impl Insight {
    fn samples(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what happened in the last minutes or hours, in a queue or in all that the caller may see.
pub(crate) async fn history(
    app: &App,
    caller: &Caller,
    window: HistoryWindow,
    queue: Option<String>,
) -> Result<History, Failure> {
    let queues = app.queues_for(caller, Scope::Read)?;
    let Some(queue) = queue else {
        let samples = app.insight().samples();
        return Ok(if caller.access().is_limited() {
            samples.of_some(window, |name| caller.access().allows(name))
        } else {
            samples.of_all(window)
        });
    };
    caller.may(Scope::Read, &queue)?;
    if queues.queue(queue.clone()).await?.is_none() {
        return Err(Error::NoSuchQueue(queue).into());
    }
    Ok(app.insight().samples().of_queue(window, queue))
}

/// Returns what the timing wheel holds of the queues that the caller may see.
pub(crate) async fn wheel(app: &App, caller: &Caller) -> Result<Wheel, Failure> {
    let info = app.queues_for(caller, Scope::Read)?.wheel().await?;
    let level = |(level, number): (tickwheel_queue::WheelLevel, u32)| WheelLevel {
        level: number,
        slots: level.slot_count,
        slot_ms: level.slot_ms,
        position: level.position,
        start_ms: level.start.as_millis(),
        occupied: level.slots.iter().map(|slot| slot.slot).collect(),
        jobs: level.slots.iter().map(|slot| slot.jobs).collect(),
        leases: level.slots.iter().map(|slot| slot.leases).collect(),
    };
    Ok(Wheel {
        at_ms: info.now.as_millis(),
        horizon_ms: app.config().horizon.as_millis() as u64,
        levels: info.levels.into_iter().zip(0..).map(level).collect(),
        ready: info.ready,
        beyond: info.beyond,
    })
}
