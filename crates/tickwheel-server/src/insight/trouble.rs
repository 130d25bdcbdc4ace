//! What is wrong, in plain sentences.

use std::time::Duration;

use tickwheel_queue::{Error, Stats, Time};

use crate::api::{QueueOverview, Target, TargetState, Trouble, TroubleCode};

/// A job that has been ready for longer waits for too long.
const TOO_LONG_MS: u64 = 30_000;
/// A failure of the store is told for this long.
const FAILURE_SHOWN: Duration = Duration::from_secs(300);
/// With less room for puts the disk is nearly full, unless that is much of what there is.
const LITTLE_ROOM: u64 = 256 << 20;

fn trouble(code: TroubleCode, message: String) -> Trouble {
    Trouble { code, message, queue: None, target: None }
}

/// Returns a duration as people say it, in its largest unit.
fn about(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

fn workers(count: u64) -> String {
    match count {
        0 => "and no worker asked for jobs in the last minute".to_owned(),
        1 => "with 1 worker".to_owned(),
        count => format!("with {count} workers"),
    }
}

/// The store does not answer.
pub(super) fn of_error(error: &Error) -> Trouble {
    trouble(TroubleCode::StoreFailing, format!("the store does not answer: {error}"))
}

/// The store does not answer in time.
pub(super) fn of_silence(patience: Duration) -> Trouble {
    let message = format!("the store did not answer within {patience:?}");
    trouble(TroubleCode::StoreFailing, message)
}

/// What is wrong with the whole server.
pub(super) fn of_server(stats: &Stats, last_failure: Option<Time>, now: Time) -> Vec<Trouble> {
    let mut found = Vec::new();
    if let Some(failed) = last_failure.filter(|failed| now.since(*failed) < FAILURE_SHOWN) {
        let ago = about(now.since(failed).as_millis() as u64);
        let message =
            format!("the store failed {ago} ago and was opened again ({} times)", stats.failures);
        found.push(trouble(TroubleCode::StoreFailing, message));
    }
    if let Some(room) = stats.disk_room
        && room < LITTLE_ROOM.min((stats.disk + room) / 10)
    {
        let message = if room == 0 {
            "the disk is full: puts are refused until jobs are removed or space is freed".to_owned()
        } else {
            format!("the disk is nearly full: room for {} MiB of new jobs", room >> 20)
        };
        found.push(trouble(TroubleCode::DiskNearlyFull, message));
    }
    if stats.damaged > 0 {
        let message = format!(
            "{} rows or jobs cannot be read: run `tickwheel doctor`, and restart with `--salvage`",
            stats.damaged
        );
        found.push(trouble(TroubleCode::DamagedRows, message));
    }
    found
}

/// A queue whose jobs wait for too long.
pub(super) fn of_queue(queue: &QueueOverview) -> Option<Trouble> {
    let waited = queue.waiting_ms.filter(|waited| *waited > TOO_LONG_MS && !queue.paused)?;
    let mut message =
        format!("{}: the oldest ready job has waited for {}", queue.name, about(waited));
    if let Some(target) = &queue.target {
        message.extend([", for target ", target]);
    } else if let Some(count) = queue.workers {
        message += ", ";
        message += &workers(count);
    }
    if queue.held > 0 {
        message.extend(["; ", &queue.held.to_string(), " ready jobs are held by limits"]);
    }
    Some(Trouble { queue: Some(queue.name.clone()), ..trouble(TroubleCode::JobsWait, message) })
}

/// Returns the trouble of a target that gets no requests although it is not paused.
pub(super) fn of_target(target: &Target, now_ms: u64) -> Option<Trouble> {
    let why = target.reason.as_deref().unwrap_or("no reason is known");
    let message = match (target.state, target.next_probe_ms) {
        (TargetState::Held, Some(probe_ms)) => {
            let left = about(probe_ms.saturating_sub(now_ms));
            format!("target {} is held for {left} more: {why}", target.name)
        }
        (TargetState::Held, None) => format!("target {} is held: {why}", target.name),
        (TargetState::Stopped, _) => {
            format!("target {} is stopped until it is resumed: {why}", target.name)
        }
        _ => return None,
    };
    Some(Trouble { target: Some(target.name.clone()), ..trouble(TroubleCode::TargetHeld, message) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(waiting_ms: Option<u64>) -> QueueOverview {
        QueueOverview {
            name: "mail".into(),
            paused: false,
            target: None,
            jobs: crate::api::Counts::default(),
            more_ready: false,
            held: 0,
            rates: None,
            oldest_ready_ms: None,
            waiting_ms,
            lateness_p50_ms: None,
            lateness_p99_ms: None,
            workers: Some(3),
            upcoming: None,
            pacing_utilisation: None,
        }
    }

    #[test]
    fn a_job_that_waits_too_long_is_told_with_its_workers() {
        assert_eq!(of_queue(&queue(None)), None);
        assert_eq!(of_queue(&queue(Some(TOO_LONG_MS))), None);
        let told = |queue: &QueueOverview| of_queue(queue).unwrap().message;
        let waiting = queue(Some(4 * 60_000));
        assert_eq!(
            told(&waiting),
            "mail: the oldest ready job has waited for 4 min, with 3 workers"
        );
        let alone = QueueOverview { workers: Some(0), ..waiting.clone() };
        assert!(told(&alone).ends_with("and no worker asked for jobs in the last minute"));
        let unknown = QueueOverview { workers: None, held: 7, ..waiting.clone() };
        assert!(told(&unknown).ends_with("for 4 min; 7 ready jobs are held by limits"));
        assert_eq!(of_queue(&QueueOverview { paused: true, ..waiting }), None);
    }

    #[test]
    fn troubles_of_the_server_are_told_while_they_last() {
        let now = Time::from_millis(10_000_000);
        let codes = |stats: &Stats, failed: Option<u64>| -> Vec<TroubleCode> {
            let failed = failed.map(Time::from_millis);
            of_server(stats, failed, now).into_iter().map(|trouble| trouble.code).collect()
        };
        let mut stats = Stats::default();
        assert_eq!(codes(&stats, None), []);
        assert_eq!(codes(&stats, Some(9_990_000)), [TroubleCode::StoreFailing]);
        assert_eq!(codes(&stats, Some(9_000_000)), []);
        stats.disk = 1 << 30;
        stats.disk_room = Some(1 << 30);
        assert_eq!(codes(&stats, None), []);
        stats.disk_room = Some(10 << 20);
        assert_eq!(codes(&stats, None), [TroubleCode::DiskNearlyFull]);
        (stats.disk_room, stats.damaged) = (Some(0), 2);
        assert_eq!(codes(&stats, None), [TroubleCode::DiskNearlyFull, TroubleCode::DamagedRows]);
    }
}
