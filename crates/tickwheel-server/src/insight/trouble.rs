//! What is wrong, in plain sentences: in English for the API, in the visitor's language for the
//! dashboard.

use std::time::Duration;

use tickwheel_page::Texts;
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

/// Returns a duration in its largest unit.
fn about(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// The store does not answer.
pub(super) fn of_error(error: &Error, texts: &Texts) -> Trouble {
    let message = texts.trouble("store_error", &[("{why}", &error.to_string())]);
    trouble(TroubleCode::StoreFailing, message)
}

/// The store does not answer in time.
pub(super) fn of_silence(patience: Duration, texts: &Texts) -> Trouble {
    let message = texts.trouble("store_silent", &[("{time}", &format!("{patience:?}"))]);
    trouble(TroubleCode::StoreFailing, message)
}

/// What is wrong with the whole server.
pub(super) fn of_server(
    stats: &Stats,
    last_failure: Option<Time>,
    now: Time,
    texts: &Texts,
) -> Vec<Trouble> {
    let mut found = Vec::new();
    if let Some(failed) = last_failure.filter(|failed| now.since(*failed) < FAILURE_SHOWN) {
        let ago = about(now.since(failed).as_millis() as u64);
        let values = [("{time}", &ago[..]), ("{n}", &stats.failures.to_string())];
        found.push(trouble(TroubleCode::StoreFailing, texts.trouble("store_failed", &values)));
    }
    if let Some(room) = stats.disk_room
        && room < LITTLE_ROOM.min((stats.disk + room) / 10)
    {
        let message = match room {
            0 => texts.trouble("disk_full", &[]),
            _ => texts.trouble("disk_nearly_full", &[("{n}", &(room >> 20).to_string())]),
        };
        found.push(trouble(TroubleCode::DiskNearlyFull, message));
    }
    if stats.damaged > 0 {
        let message = texts.trouble("damaged", &[("{n}", &stats.damaged.to_string())]);
        found.push(trouble(TroubleCode::DamagedRows, message));
    }
    found
}

/// A queue whose jobs wait for too long.
pub(super) fn of_queue(queue: &QueueOverview, texts: &Texts) -> Option<Trouble> {
    let waited = queue.waiting_ms.filter(|waited| *waited > TOO_LONG_MS && !queue.paused)?;
    let values = [("{queue}", &queue.name[..]), ("{time}", &about(waited))];
    let mut message = texts.trouble("waits", &values);
    if let Some(target) = &queue.target {
        message += &texts.trouble("waits_target", &[("{target}", target)]);
    } else if let Some(count) = queue.workers {
        let name = match count {
            0 => "waits_no_worker",
            1 => "waits_one_worker",
            _ => "waits_workers",
        };
        message += &texts.trouble(name, &[("{n}", &count.to_string())]);
    }
    if queue.held > 0 {
        message += &texts.trouble("waits_limits", &[("{n}", &queue.held.to_string())]);
    }
    Some(Trouble { queue: Some(queue.name.clone()), ..trouble(TroubleCode::JobsWait, message) })
}

/// Returns the trouble of a target that gets no requests although it is not paused.
pub(super) fn of_target(target: &Target, now_ms: u64, texts: &Texts) -> Option<Trouble> {
    let left = target.next_probe_ms.map(|probe_ms| about(probe_ms.saturating_sub(now_ms)));
    let name = match (target.state, &left) {
        (TargetState::Held, Some(_)) => "held_for",
        (TargetState::Held, None) => "held",
        (TargetState::Stopped, _) => "stopped",
        _ => return None,
    };
    let why = match &target.reason {
        Some(reason) => texts.cause(target.cause.as_ref(), reason),
        None => texts.trouble("no_reason", &[]),
    };
    let left = left.unwrap_or_default();
    let values = [("{target}", &target.name[..]), ("{time}", &left), ("{why}", &why)];
    let message = texts.trouble(name, &values);
    Some(Trouble { target: Some(target.name.clone()), ..trouble(TroubleCode::TargetHeld, message) })
}

#[cfg(test)]
mod tests {
    use tickwheel_page::Language;

    use super::*;

    const ENGLISH: &Texts = Language::English.texts();

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
        assert_eq!(of_queue(&queue(None), ENGLISH), None);
        assert_eq!(of_queue(&queue(Some(TOO_LONG_MS)), ENGLISH), None);
        let told = |queue: &QueueOverview| of_queue(queue, ENGLISH).unwrap().message;
        let waiting = queue(Some(4 * 60_000));
        assert_eq!(
            told(&waiting),
            "mail: the oldest ready job has waited for 4 min, with 3 workers"
        );
        let alone = QueueOverview { workers: Some(0), ..waiting.clone() };
        assert!(told(&alone).ends_with("and no worker asked for jobs in the last minute"));
        let unknown = QueueOverview { workers: None, held: 7, ..waiting.clone() };
        assert!(told(&unknown).ends_with("for 4 min; 7 ready jobs are held by limits"));
        assert_eq!(of_queue(&QueueOverview { paused: true, ..waiting }, ENGLISH), None);
    }

    #[test]
    fn troubles_of_the_server_are_told_while_they_last() {
        let now = Time::from_millis(10_000_000);
        let codes = |stats: &Stats, failed: Option<u64>| -> Vec<TroubleCode> {
            let failed = failed.map(Time::from_millis);
            of_server(stats, failed, now, ENGLISH).into_iter().map(|trouble| trouble.code).collect()
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

    #[test]
    fn a_held_target_is_told_in_the_language_of_the_visitor() {
        let target: Target = serde_json::from_str(
            r#"{"name": "partner", "settings": {"url": "https://partner.example"}, "state": "held",
                "reason": "answered 429: {n} {time}",
                "cause": {"code": "answered", "detail": "429: {n} {time}"}, "next_probe_ms": 30000, "queues": [],
                "in_flight": 0, "secrets": [], "counts": {"delivered": 0, "failed": 0, "held": 1}}"#,
        )
        .unwrap();
        let told = |texts| of_target(&target, 2_000, texts).unwrap().message;
        assert_eq!(told(ENGLISH), "target partner is held for 28 s more: answered 429: {n} {time}");
        let chinese = told(Language::Chinese.texts());
        assert_eq!(chinese, "推送目标 partner 还将暂缓 28 s:目标返回 429: {n} {time}");
        let waiting = queue(Some(240_000));
        let chinese = of_queue(&waiting, Language::Chinese.texts()).unwrap().message;
        assert_eq!(chinese, "mail:最早就绪的任务已等待 4 min,有 3 个工作进程");
    }
}
