//! Merging the answers of all partitions into one.
//!
//! Lists are joined, and sorted by name. Numbers are added; a sum is unknown if a partition does
//! not know its part, except in histories. Percentiles cannot be added: the highest one of all
//! partitions counts.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::route::parameter;
use crate::api::{
    Activity, Code, Counts, ErrorGroup, ErrorGroups, History, JobIds, Live, Overview,
    OverviewTotals, Percentiles, QueueList, Rates, ScheduleList, Stats, TargetList, Wheel,
    WheelLevel,
};
use crate::app::Common;
use crate::metrics;
use crate::problem::Failure;

/// The largest number of queues in an overview.
const MAX_QUEUES: usize = crate::insight::MAX_QUEUES;
/// The default of the parameter `limit` for groups of errors.
const DEFAULT_GROUPS: usize = 100;

/// How answers are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    Queues,
    Ids,
    Errors,
    Schedules,
    Targets,
    Overview,
    Wheel,
    Stats,
    History,
    Metrics,
}

/// Merges the answers of all partitions.
pub(super) fn merge(
    merge: Merge,
    bodies: &[Bytes],
    query: &str,
    common: &Common,
) -> Result<Vec<u8>, Failure> {
    match merge {
        Merge::Queues => json(bodies, |all| Some(queues(all))),
        Merge::Ids => json(bodies, |all| Some(ids(all))),
        Merge::Errors => {
            let limit = parameter(query, "limit").and_then(|limit| limit.parse().ok());
            json(bodies, |all| Some(errors(all, limit.unwrap_or(DEFAULT_GROUPS))))
        }
        Merge::Schedules => json(bodies, |all| Some(schedules(all))),
        Merge::Targets => json(bodies, |all| Some(targets(all))),
        Merge::Overview => json(bodies, |all| overview(all, MAX_QUEUES)),
        Merge::Wheel => json(bodies, wheel),
        Merge::Stats => json(bodies, stats),
        Merge::History => json(bodies, history),
        Merge::Metrics => {
            let texts: Vec<_> = bodies.iter().map(|body| String::from_utf8_lossy(body)).collect();
            let own = metrics::text_of_node(common.counts(), common.memory().used());
            Ok(metrics::merged(texts.iter().map(|text| &text[..]), &own).into())
        }
    }
}

fn json<T: DeserializeOwned + Serialize>(
    bodies: &[Bytes],
    merge: impl FnOnce(Vec<T>) -> Option<T>,
) -> Result<Vec<u8>, Failure> {
    let failure = |error: serde_json::Error| {
        let why = format!("the answers of partitions cannot be merged: {error}");
        Failure::new(Code::Internal, why)
    };
    let all = bodies.iter().map(|body| serde_json::from_slice(body)).collect::<Result<_, _>>();
    let none = || Failure::new(Code::Internal, "there is no partition");
    serde_json::to_vec(&merge(all.map_err(failure)?).ok_or_else(none)?).map_err(failure)
}

fn queues(all: Vec<QueueList>) -> QueueList {
    let mut queues: Vec<_> = all.into_iter().flat_map(|list| list.queues).collect();
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    QueueList { queues }
}

fn ids(all: Vec<JobIds>) -> JobIds {
    JobIds { ids: all.into_iter().flat_map(|found| found.ids).collect() }
}

fn schedules(all: Vec<ScheduleList>) -> ScheduleList {
    let mut schedules: Vec<_> = all.into_iter().flat_map(|list| list.schedules).collect();
    schedules.sort_by(|a, b| a.name.cmp(&b.name));
    ScheduleList { schedules }
}

fn targets(all: Vec<TargetList>) -> TargetList {
    let mut targets: Vec<_> = all.into_iter().flat_map(|list| list.targets).collect();
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    TargetList { targets }
}

/// Joins groups of errors, the largest first. Jobs of groups beyond the limit count as `others`.
fn errors(all: Vec<ErrorGroups>, limit: usize) -> ErrorGroups {
    let complete = all.iter().all(|it| it.complete);
    let mut others = all.iter().map(|it| it.others).sum();
    let mut by_text: BTreeMap<String, ErrorGroup> = BTreeMap::new();
    for group in all.into_iter().flat_map(|it| it.groups) {
        let Some(same) = by_text.get_mut(&group.error) else {
            by_text.insert(group.error.clone(), group);
            continue;
        };
        let is_newer = group.newest_ms > same.newest_ms;
        let sum = ErrorGroup {
            count: same.count + group.count,
            dead: same.dead + group.dead,
            retrying: same.retrying + group.retrying,
            newest_ms: same.newest_ms.max(group.newest_ms),
            oldest_ms: [same.oldest_ms, group.oldest_ms].into_iter().flatten().min(),
            ..if is_newer { group } else { same.clone() }
        };
        *same = sum;
    }
    let mut groups: Vec<_> = by_text.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    others += groups.iter().skip(limit).map(|group| group.count).sum::<u64>();
    groups.truncate(limit);
    ErrorGroups { groups, others, complete }
}

/// Adds two numbers. The sum is unknown unless both are known.
fn plus(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a? + b?)
}

/// Returns the greater of two numbers, or the known one.
fn worst(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.max(b)
}

fn percentiles(a: &Percentiles, b: &Percentiles) -> Percentiles {
    Percentiles {
        count: a.count + b.count,
        p50_us: a.p50_us.max(b.p50_us),
        p99_us: a.p99_us.max(b.p99_us),
        p999_us: a.p999_us.max(b.p999_us),
        max_us: a.max_us.max(b.max_us),
    }
}

fn activity(a: &Activity, b: &Activity) -> Activity {
    let earlier = if a.since_ms <= b.since_ms { a } else { b };
    Activity {
        since: earlier.since.clone(),
        since_ms: earlier.since_ms,
        window_ms: a.window_ms.max(b.window_ms),
        put: a.put + b.put,
        delivered: a.delivered + b.delivered,
        acked: a.acked + b.acked,
        failed: a.failed + b.failed,
        expired: a.expired + b.expired,
        released: a.released + b.released,
        died: a.died + b.died,
        cancelled: a.cancelled + b.cancelled,
        kicked: a.kicked + b.kicked,
        lateness: percentiles(&a.lateness, &b.lateness),
    }
}

fn stats(all: Vec<Stats>) -> Option<Stats> {
    all.into_iter().reduce(|a, b| Stats {
        queues: a.queues + b.queues,
        pending: a.pending + b.pending,
        leased: a.leased + b.leased,
        in_memory: plus(a.in_memory, b.in_memory),
        disk_bytes: plus(a.disk_bytes, b.disk_bytes),
        put: plus(a.put, b.put),
        delivered: plus(a.delivered, b.delivered),
        acked: plus(a.acked, b.acked),
        failed: plus(a.failed, b.failed),
        expired: plus(a.expired, b.expired),
        released: plus(a.released, b.released),
        died: plus(a.died, b.died),
        cancelled: plus(a.cancelled, b.cancelled),
        kicked: plus(a.kicked, b.kicked),
        damaged: plus(a.damaged, b.damaged),
        commits: plus(a.commits, b.commits),
        failures: plus(a.failures, b.failures),
        commit_time: a.commit_time.zip(b.commit_time).map(|(a, b)| percentiles(&a, &b)),
        lateness: a.lateness.zip(b.lateness).map(|(a, b)| percentiles(&a, &b)),
        recent: a.recent.zip(b.recent).map(|(a, b)| activity(&a, &b)),
        durability: a.durability,
        horizon: a.horizon,
    })
}

fn counts(a: &Counts, b: &Counts) -> Counts {
    Counts {
        scheduled: a.scheduled + b.scheduled,
        ready: a.ready + b.ready,
        leased: a.leased + b.leased,
        dead: a.dead + b.dead,
        done: a.done + b.done,
        cancelled: a.cancelled + b.cancelled,
    }
}

fn rates(a: Rates, b: Rates) -> Rates {
    Rates {
        put: a.put + b.put,
        delivered: a.delivered + b.delivered,
        acked: a.acked + b.acked,
        failed: a.failed + b.failed,
        died: a.died + b.died,
    }
}

fn totals(a: &OverviewTotals, b: &OverviewTotals) -> OverviewTotals {
    OverviewTotals {
        queues: a.queues + b.queues,
        paused_queues: a.paused_queues + b.paused_queues,
        jobs: counts(&a.jobs, &b.jobs),
        held: a.held + b.held,
        rates: a.rates.zip(b.rates).map(|(a, b)| rates(a, b)),
        lateness_p50_ms: worst(a.lateness_p50_ms, b.lateness_p50_ms),
        lateness_p99_ms: worst(a.lateness_p99_ms, b.lateness_p99_ms),
        workers: plus(a.workers, b.workers),
        upcoming: a.upcoming.zip(b.upcoming).map(|(mut a, b)| {
            a.add(&b);
            a
        }),
        disk_bytes: plus(a.disk_bytes, b.disk_bytes),
        // Partitions of one node share its disk, and the fullest disk is what matters.
        disk_free_bytes: [a.disk_free_bytes, b.disk_free_bytes].into_iter().flatten().min(),
    }
}

/// Merges overviews. The time of the result is the latest one.
pub(super) fn overview(all: Vec<Overview>, max_queues: usize) -> Option<Overview> {
    let mut merged = all.into_iter().reduce(|a, b| {
        let (first, second) = if a.at_ms >= b.at_ms { (a, b) } else { (b, a) };
        Overview {
            at: first.at,
            at_ms: first.at_ms,
            summary: first.summary,
            health: first.health.into_iter().chain(second.health).collect(),
            totals: first.totals.zip(second.totals).map(|(a, b)| totals(&a, &b)),
            queues: first.queues.into_iter().chain(second.queues).collect(),
            queues_left_out: first.queues_left_out + second.queues_left_out,
        }
    })?;
    merged.health.sort_by_key(|trouble| trouble.code);
    if let Some(trouble) = merged.health.first() {
        merged.summary.clone_from(&trouble.message);
    }
    if merged.queues.len() > max_queues {
        let weight = |jobs: &Counts| jobs.scheduled + jobs.ready + jobs.leased + jobs.dead;
        merged.queues.sort_by_key(|queue| std::cmp::Reverse(weight(&queue.jobs)));
        merged.queues_left_out += (merged.queues.len() - max_queues) as u64;
        merged.queues.truncate(max_queues);
    }
    merged.queues.sort_by(|a, b| a.name.cmp(&b.name));
    Some(merged)
}

/// Adds a level of another partition's wheel to `sum`. Slots are matched by their times, because
/// the hands of the wheels may differ.
fn add_level(sum: &mut WheelLevel, level: &WheelLevel) {
    let mut slots: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let own = sum.occupied.iter().zip(&sum.jobs).zip(&sum.leases);
    for ((slot, jobs), leases) in own {
        slots.insert(*slot, (*jobs, *leases));
    }
    for ((slot, jobs), leases) in level.occupied.iter().zip(&level.jobs).zip(&level.leases) {
        let (first, _) = level.span_of(*slot);
        let last = u64::from(sum.slots.saturating_sub(1));
        let place = first.saturating_sub(sum.start_ms) / sum.slot_ms.max(1);
        let entry = slots.entry(place.min(last) as u32).or_default();
        (entry.0, entry.1) = (entry.0 + jobs, entry.1 + leases);
    }
    sum.occupied = slots.keys().copied().collect();
    sum.jobs = slots.values().map(|(jobs, _)| *jobs).collect();
    sum.leases = slots.values().map(|(_, leases)| *leases).collect();
}

/// Adds up the wheels of all partitions. The hands are those of the first one.
pub(super) fn wheel(all: Vec<Wheel>) -> Option<Wheel> {
    all.into_iter().reduce(|mut sum, wheel| {
        for level in &wheel.levels {
            match sum.levels.iter_mut().find(|it| it.level == level.level) {
                Some(same) => add_level(same, level),
                None => sum.levels.push(level.clone()),
            }
        }
        sum.ready += wheel.ready;
        sum.beyond += wheel.beyond;
        sum
    })
}

type Column = fn(&mut History) -> &mut Vec<Option<u64>>;

const SUMS: [Column; 9] = [
    |it| &mut it.put,
    |it| &mut it.delivered,
    |it| &mut it.acked,
    |it| &mut it.failed,
    |it| &mut it.died,
    |it| &mut it.scheduled,
    |it| &mut it.ready,
    |it| &mut it.leased,
    |it| &mut it.dead,
];
const WORST: [Column; 3] =
    [|it| &mut it.lateness_p50_ms, |it| &mut it.lateness_p99_ms, |it| &mut it.lateness_max_ms];

/// Adds histories by time. A number that a partition does not know counts as 0 if another one knows
/// it.
pub(super) fn history(all: Vec<History>) -> Option<History> {
    let mut all = all.into_iter();
    let mut sum = all.next()?;
    for mut other in all {
        let times: std::collections::BTreeSet<u64> =
            sum.at_ms.iter().chain(&other.at_ms).copied().collect();
        let add = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        for column in SUMS {
            let (a, b) = (by_time(&sum.at_ms.clone(), column(&mut sum)), other.at_ms.clone());
            let b = by_time(&b, column(&mut other));
            *column(&mut sum) = times.iter().map(|at| add(of(&a, *at), of(&b, *at))).collect();
        }
        for column in WORST {
            let (a, b) = (by_time(&sum.at_ms.clone(), column(&mut sum)), other.at_ms.clone());
            let b = by_time(&b, column(&mut other));
            *column(&mut sum) = times.iter().map(|at| worst(of(&a, *at), of(&b, *at))).collect();
        }
        sum.pacing_utilisation = vec![None; times.len()];
        sum.tracked &= other.tracked;
        sum.at_ms = times.into_iter().collect();
    }
    Some(sum)
}

fn by_time(times: &[u64], column: &[Option<u64>]) -> BTreeMap<u64, u64> {
    times.iter().zip(column).filter_map(|(at, value)| Some((*at, (*value)?))).collect()
}

fn of(column: &BTreeMap<u64, u64>, at: u64) -> Option<u64> {
    column.get(&at).copied()
}

/// Merges the live views of all partitions.
pub(super) fn live(all: Vec<Live>) -> Option<Live> {
    let (mut overviews, mut points, mut wheels) = (Vec::new(), Vec::new(), Vec::new());
    for live in all {
        overviews.push(live.overview);
        points.extend(live.point);
        wheels.extend(live.wheel);
    }
    // Keeps the newest second, which some partitions may not have sampled yet.
    let point = history(points).map(|mut history| {
        let last = history.at_ms.len().saturating_sub(1);
        history.at_ms.drain(..last);
        for column in SUMS.into_iter().chain(WORST) {
            column(&mut history).drain(..last);
        }
        history.pacing_utilisation.drain(..last);
        history
    });
    Some(Live { overview: overview(overviews, MAX_QUEUES)?, point, wheel: wheel(wheels) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Trouble, TroubleCode};

    #[test]
    fn errors_with_the_same_text_are_one_group() {
        let group = |error: &str, count: u64, newest: u64, queue: &str| ErrorGroup {
            error: error.into(),
            count,
            dead: 1,
            retrying: count - 1,
            newest_ms: Some(newest),
            oldest_ms: Some(newest - 5),
            example: "0190163d-8694-739b-aaa8-966c26f8ad91".parse().unwrap(),
            queue: queue.into(),
            example_error: error.into(),
        };
        let of = |groups| ErrorGroups { groups, others: 1, complete: true };
        let one = of(vec![group("timeout", 3, 10, "a"), group("refused", 2, 20, "a")]);
        let two = of(vec![group("timeout", 4, 30, "b")]);
        let merged = errors(vec![one, two], 1);
        assert_eq!(merged.groups.len(), 1);
        let timeout = &merged.groups[0];
        assert_eq!((timeout.count, timeout.dead, timeout.retrying), (7, 2, 5));
        assert_eq!((timeout.newest_ms, timeout.oldest_ms), (Some(30), Some(5)));
        assert_eq!((&timeout.queue[..], merged.others), ("b", 4));
    }

    #[test]
    fn numbers_are_added_and_percentiles_are_the_worst() {
        let one = |put, p99_us| -> Stats {
            serde_json::from_value(serde_json::json!({
                "durability": "sync", "horizon": "5m", "queues": 2, "pending": 3, "leased": 1,
                "put": put,
                "lateness": {"count": 1, "p50_us": 1, "p99_us": p99_us, "p999_us": 9, "max_us": 9},
            }))
            .unwrap()
        };
        let sum = stats(vec![one(Some(5), 10), one(Some(6), 30), one(Some(7), 20)]).unwrap();
        assert_eq!((sum.queues, sum.pending, sum.put, sum.acked), (6, 9, Some(18), None));
        let lateness = sum.lateness.unwrap();
        assert_eq!((lateness.count, lateness.p99_us), (3, 30));
        assert_eq!(stats(vec![one(Some(5), 1), one(None, 1)]).unwrap().put, None);
    }

    fn of_trouble(at_ms: u64, codes: &[TroubleCode]) -> Overview {
        let trouble = |code: &TroubleCode| Trouble {
            code: *code,
            message: format!("{code:?} at {at_ms}"),
            queue: None,
            target: None,
        };
        Overview {
            at: String::new(),
            at_ms,
            summary: "all on time".into(),
            health: codes.iter().map(trouble).collect(),
            totals: None,
            queues: Vec::new(),
            queues_left_out: 1,
        }
    }

    #[test]
    fn an_overview_says_what_is_worst() {
        let fine = || of_trouble(7, &[]);
        let merged = overview(vec![fine(), fine()], 9).unwrap();
        assert_eq!((&merged.summary[..], merged.queues_left_out), ("all on time", 2));
        let late = of_trouble(8, &[TroubleCode::JobsWait]);
        let full = of_trouble(6, &[TroubleCode::DiskNearlyFull]);
        let merged = overview(vec![fine(), late, full], 9).unwrap();
        assert_eq!(merged.summary, "DiskNearlyFull at 6");
        assert_eq!((merged.health.len(), merged.at_ms), (2, 8));
    }

    #[test]
    fn slots_of_wheels_are_added_by_their_times() {
        let level = |start_ms, occupied: &[u32]| WheelLevel {
            level: 0,
            slots: 256,
            slot_ms: 10,
            position: 0,
            start_ms,
            occupied: occupied.to_vec(),
            jobs: vec![2; occupied.len()],
            leases: vec![1; occupied.len()],
        };
        let of =
            |level| Wheel { at_ms: 0, horizon_ms: 9, levels: vec![level], ready: 1, beyond: 2 };
        let sum = wheel(vec![of(level(1_000, &[3, 5])), of(level(1_020, &[1, 255]))]).unwrap();
        assert_eq!(sum.levels[0].occupied, [3, 5, 255]);
        assert_eq!(sum.levels[0].jobs, [4, 2, 2]);
        assert_eq!((sum.ready, sum.beyond), (2, 4));
    }

    #[test]
    fn histories_are_added_second_by_second() {
        let of = |at_ms: &[u64], put: &[Option<u64>]| {
            let columns = |value: Option<u64>| vec![value; at_ms.len()];
            History {
                at_ms: at_ms.to_vec(),
                put: put.to_vec(),
                lateness_p99_ms: columns(Some(at_ms[0])),
                ..History::default()
            }
        };
        let sum = history(vec![of(&[1, 2], &[Some(4), None]), of(&[2, 3], &[Some(5), Some(6)])]);
        let sum = sum.unwrap();
        assert_eq!(sum.at_ms, [1, 2, 3]);
        assert_eq!(sum.put, [Some(4), Some(5), Some(6)]);
        assert_eq!(sum.lateness_p99_ms, [Some(1), Some(2), Some(2)]);
        assert_eq!(sum.delivered, [None; 3]);
    }
}
