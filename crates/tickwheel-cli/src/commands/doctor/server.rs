//! The checks of a running server: what its API says of it, and what follows.
//!
//! A token that may not see something is no failure: what it hides is not checked, and the report
//! says so.

use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use tickwheel_api::{
    Activity, Clock, Cluster, Durability, Health, Overview, Queue, QueueList, Stats, TargetList,
    TargetState, TroubleCode,
};
use tickwheel_server::diagnosis::{ClockWatch, Finding, Severity, clock_synchronization};

use super::super::Context;
use super::cluster;
use crate::client::Path;
use crate::failure::Failure;
use crate::output::text::{bytes, count};
use crate::output::time::rough;

/// The clocks of two machines may differ by this much.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);
/// A difference that makes due times wrong for every purpose.
const LARGE_CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);
/// A job that has been ready for longer than this has no worker.
const LONG_READY: Duration = Duration::from_secs(30);
/// The lateness of one delivery in a hundred that is worth a look, in microseconds.
const LATE_US: u64 = 1_000_000;
/// A commit that takes longer, one in a hundred, limits every put, in microseconds.
const SLOW_COMMIT_US: u64 = 100_000;
/// Dead jobs of a queue that have piled up.
const MANY_DEAD: u64 = 100;
/// The window in which deaths, failures and lateness count.
const WINDOW: &str = "5m";

/// Checks the server. The most severe findings come first.
pub(super) fn check(context: &Context) -> Result<Vec<Finding>, Failure> {
    let watch = ClockWatch::start();
    let mut findings = Vec::new();
    readiness(context, &mut findings)?;
    let cluster = ask::<Cluster>(context, &Path::new(&["cluster"]))?;
    let is_whole = cluster.is_none_or(|cluster| cluster::check(&cluster, &mut findings));
    if !is_whole {
        // The other questions are for owners.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        return Ok(findings);
    }
    let now_ms = clock(context, &mut findings)?;
    if context.client.is_local() {
        findings.push(clock_synchronization());
    }
    access(context, &mut findings);
    if let Some(stats) = ask::<Stats>(context, &Path::new(&["stats"]).query("since", WINDOW))? {
        store(&stats, &mut findings);
        if let Some(recent) = stats.recent.as_ref().filter(|_| stats.put.is_some()) {
            lateness(recent, &mut findings);
        }
        if stats.put.is_none() {
            let what = "the token is limited to some queues: the store was not checked";
            findings.push(Finding::new(Severity::Note, "store", what));
        }
    }
    let overview = ask::<Overview>(context, &Path::new(&["overview"]))?;
    if let Some(overview) = &overview {
        troubles(overview, &mut findings);
    }
    if let Some(list) = ask::<QueueList>(context, &Path::new(&["queues"]))? {
        queues(&list.queues, overview.as_ref(), now_ms, &mut findings);
    }
    if let Some(list) = ask::<TargetList>(context, &Path::new(&["targets"]))? {
        targets(&list, &mut findings);
    }
    findings.extend(watch.finding());
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

/// Asks the API. `None` if the token does not allow it, or the server does not know the route.
fn ask<T: DeserializeOwned>(context: &Context, path: &Path) -> Result<Option<T>, Failure> {
    match context.client.get(path) {
        Ok(answer) => answer.read().map(Some),
        Err(Failure::Refused { problem, .. }) if matches!(problem.status, 403 | 404) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn readiness(context: &Context, findings: &mut Vec<Finding>) -> Result<(), Failure> {
    match context.client.get(&Path::at_root("readyz")) {
        Ok(answer) => {
            let health: Health = answer.read()?;
            let own = env!("CARGO_PKG_VERSION");
            let what = format!("the server, version {}, is ready", health.version);
            findings.push(Finding::new(Severity::Fine, "server", what));
            if health.version != own {
                let what = format!("the server has version {}, this program {own}", health.version);
                let advice = "use the same version, so that no check is missing";
                findings.push(Finding::new(Severity::Note, "server", what).advice(advice));
            }
            Ok(())
        }
        Err(Failure::Refused { problem, .. }) => {
            let what = format!("the server is not ready: {}", problem.detail);
            let advice = "look at its log; a disk that fails or is full says so there";
            findings.push(Finding::new(Severity::Error, "server", what).advice(advice));
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

/// Compares the clocks. Returns the time of the server.
fn clock(context: &Context, findings: &mut Vec<Finding>) -> Result<u64, Failure> {
    let before = SystemTime::now();
    let Some(clock) = ask::<Clock>(context, &Path::new(&["clock"]))? else {
        let here = before.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        return Ok(here.as_millis() as u64);
    };
    let round_trip = before.elapsed().unwrap_or_default();
    if clock.manual {
        let what = "the clock of the server is manual: no job becomes due by itself";
        let advice = "start the server without `--clock manual`, which is for tests";
        findings.push(Finding::new(Severity::Warning, "clock", what).advice(advice));
        return Ok(clock.now_ms);
    }
    let server = SystemTime::UNIX_EPOCH + Duration::from_millis(clock.now_ms);
    let here = before + round_trip / 2;
    let (difference, direction) = match server.duration_since(here) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(error) => (error.duration(), "behind"),
    };
    // Half of the way is not known.
    if difference <= CLOCK_DIFFERENCE + round_trip / 2 {
        let what = "the clocks of the server and of this machine agree";
        findings.push(Finding::new(Severity::Fine, "clock", what));
        return Ok(clock.now_ms);
    }
    let is_large = difference > LARGE_CLOCK_DIFFERENCE;
    let severity = if is_large { Severity::Error } else { Severity::Warning };
    let what = format!(
        "the clock of the server is {} {direction} that of this machine",
        rough(difference)
    );
    let advice = "synchronize both, with chrony or systemd-timesyncd";
    findings.push(Finding::new(severity, "clock", what).advice(advice));
    Ok(clock.now_ms)
}

/// Whether the server answers without a token, and how.
fn access(context: &Context, findings: &mut Vec<Finding>) {
    let (is_local, is_tls) = (context.client.is_local(), context.client.is_tls());
    let is_open = context.client.without_token().get(&Path::new(&["queues"])).is_ok();
    findings.push(match (is_open, is_local) {
        (false, _) => Finding::new(Severity::Fine, "tokens", "the server asks for a token"),
        (true, true) => Finding::new(
            Severity::Note,
            "tokens",
            "the server answers every program on this machine without a token",
        )
        .advice("make tokens with `tickwheel token new` if other users share the machine"),
        (true, false) => Finding::new(
            Severity::Error,
            "tokens",
            "the server answers everybody who reaches it, without a token",
        )
        .advice("make tokens with `tickwheel token new`, and remove `insecure`"),
    });
    if !is_local && !is_tls {
        let what = "requests go over the network without TLS: others can read tokens and payloads";
        let advice = "set `tls.cert` and `tls.key`, or keep the port inside a private network";
        findings.push(Finding::new(Severity::Warning, "tls", what).advice(advice));
    }
}

fn store(stats: &Stats, findings: &mut Vec<Finding>) {
    if let Some(damaged) = stats.damaged {
        findings.push(if damaged > 0 {
            let what = format!("{} could not be read", count(damaged, "row or job"));
            let advice = "stop the server and run `tickwheel doctor --data DIRECTORY`";
            Finding::new(Severity::Error, "damage", what).advice(advice)
        } else {
            Finding::new(Severity::Fine, "damage", "no damaged row was met since the start")
        });
    }
    if let Some(failures) = stats.failures.filter(|failures| *failures > 0) {
        let what = format!("the store failed and was opened again {}", count(failures, "time"));
        let advice = "look at the log of the server and of the kernel, and check the disk";
        findings.push(Finding::new(Severity::Warning, "disk", what).advice(advice));
    }
    if let Some(time) = stats.commit_time.as_ref().filter(|time| time.count > 0) {
        let told = |micros| format!("{:.1} ms", micros as f64 / 1_000.0);
        let what =
            format!("a commit takes {} (median), {} (p99)", told(time.p50_us), told(time.p99_us));
        findings.push(if time.p99_us > SLOW_COMMIT_US {
            let advice = "find out what else writes to the disk, or use a faster one";
            Finding::new(Severity::Warning, "sync", what).advice(advice)
        } else {
            Finding::new(Severity::Fine, "sync", what)
        });
    }
    let lost = match stats.durability {
        Durability::Sync => return,
        Durability::Interval => "the changes since the last sync",
        Durability::None => "changes that the operating system has not written yet",
    };
    let what = format!("a power failure loses {lost}: `durability` is not `sync`");
    findings.push(Finding::new(Severity::Note, "durability", what));
}

fn lateness(recent: &Activity, findings: &mut Vec<Finding>) {
    let late = &recent.lateness;
    if late.count > 0 {
        let told = |micros| rough(Duration::from_micros(micros));
        let what = format!(
            "jobs were delivered {} (median), {} (p99) after they were due, in the last {WINDOW}",
            told(late.p50_us),
            told(late.p99_us)
        );
        findings.push(if late.p99_us > LATE_US {
            let advice = "add workers; `tickwheel queue show QUEUE` shows the lateness and the \
                          pacing of each queue";
            Finding::new(Severity::Warning, "lateness", what).advice(advice)
        } else {
            Finding::new(Severity::Fine, "lateness", what)
        });
    }
    if recent.died > 0 {
        let what = format!("{} died in the last {WINDOW}", count(recent.died, "job"));
        let advice = "`tickwheel ls --by error` shows why";
        findings.push(Finding::new(Severity::Warning, "dead jobs", what).advice(advice));
    }
}

/// What the server itself says is wrong, except what the other checks tell with more detail.
fn troubles(overview: &Overview, findings: &mut Vec<Finding>) {
    for trouble in &overview.health {
        let (check, severity, advice) = match trouble.code {
            TroubleCode::StoreFailing => {
                ("store", Severity::Error, "look at the log of the server, and check the disk")
            }
            TroubleCode::DiskNearlyFull => {
                ("disk", Severity::Error, "make room, or remove finished jobs")
            }
            TroubleCode::DamagedRows | TroubleCode::JobsWait | TroubleCode::TargetHeld => continue,
        };
        findings.push(Finding::new(severity, check, &*trouble.message).advice(advice));
    }
    let totals = overview.totals.as_ref();
    let disk = totals.and_then(|it| it.disk_free_bytes.zip(it.disk_bytes));
    if let Some((free, used)) = disk {
        let what = format!("{} are free, {} are used", bytes(free), bytes(used));
        findings.push(if free < used {
            let what = format!("{what}; merging tables can take as much again");
            let advice = "make room, or move the directory to a larger file system";
            Finding::new(Severity::Warning, "disk", what).advice(advice)
        } else {
            Finding::new(Severity::Fine, "disk", what)
        });
    }
}

fn queues(queues: &[Queue], overview: Option<&Overview>, now_ms: u64, findings: &mut Vec<Finding>) {
    let before = findings.len();
    for queue in queues {
        let name = &queue.name;
        let seen = overview.and_then(|it| it.queues.iter().find(|other| other.name == *name));
        let ready = queue.jobs.ready;
        let waits = queue
            .oldest_ready_ms
            .map(|due_ms| Duration::from_millis(now_ms.saturating_sub(due_ms)))
            .filter(|waits| *waits > LONG_READY);
        if queue.paused && ready > 0 {
            let what = format!("queue {name:?} is paused, and {} wait", count(ready, "ready job"));
            let advice = format!("resume it with `tickwheel queue resume {name}`");
            findings.push(Finding::new(Severity::Note, "queues", what).advice(advice));
        } else if let Some(waits) = waits.filter(|_| queue.settings.target.is_none()) {
            let workers = seen.and_then(|seen| seen.workers);
            let held = seen.map_or(0, |seen| seen.held);
            let has_workers = workers.map_or(queue.jobs.leased > 0, |workers| workers > 0);
            findings.push(waiting(queue, waits, has_workers, held));
        }
        if queue.jobs.dead > 0 {
            let what = format!("queue {name:?} has {}", count(queue.jobs.dead, "dead job"));
            let is_much = queue.jobs.dead >= MANY_DEAD;
            let severity = if is_much { Severity::Warning } else { Severity::Note };
            let advice = format!(
                "`tickwheel ls {name} --state dead` shows why; `tickwheel kick --queue {name}` \
                 tries them again, `tickwheel remove-finished {name} --state dead` removes \
                 them"
            );
            findings.push(Finding::new(severity, "dead jobs", what).advice(advice));
        }
    }
    if findings.len() == before {
        let what = format!("no job waits for long in {}", count(queues.len() as u64, "queue"));
        findings.push(Finding::new(Severity::Fine, "queues", what));
    }
}

fn waiting(queue: &Queue, waits: Duration, has_workers: bool, held: u64) -> Finding {
    let name = &queue.name;
    let ready = count(queue.jobs.ready, "ready job");
    let waits = rough(waits);
    if held > 0 && held >= queue.jobs.ready {
        let what =
            format!("queue {name:?} holds {ready} back by its limits, the oldest for {waits}");
        let advice = format!("`tickwheel queue show {name}` shows the pacing; raise it if you can");
        return Finding::new(Severity::Note, "queues", what).advice(advice);
    }
    let (what, advice) = if has_workers {
        let what = format!("queue {name:?} has too few workers: {ready}, the oldest for {waits}");
        (what, "add workers, or make each job faster".to_owned())
    } else {
        let what = format!("queue {name:?} has no worker: {ready}, the oldest for {waits}");
        (
            what,
            format!(
                "start a worker, or set a target; `tickwheel ls {name} --state ready` shows the jobs"
            ),
        )
    };
    Finding::new(Severity::Warning, "queues", what).advice(advice)
}

fn targets(list: &TargetList, findings: &mut Vec<Finding>) {
    let before = findings.len();
    for target in &list.targets {
        let name = &target.name;
        let reason = target.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        let state = target.state.as_str();
        let what = format!("target {name:?} is {state}{reason}");
        let (severity, advice) = match target.state {
            TargetState::Active => continue,
            TargetState::Slow => (Severity::Note, "its rate rises by itself".to_owned()),
            TargetState::Held => (
                Severity::Warning,
                format!("it is probed by itself; `tickwheel target test {name}` tries it now"),
            ),
            TargetState::Stopped => {
                (Severity::Error, format!("check its URL, then `tickwheel target resume {name}`"))
            }
            TargetState::Paused => {
                (Severity::Note, format!("resume it with `tickwheel target resume {name}`"))
            }
        };
        findings.push(Finding::new(severity, "targets", what).advice(advice));
    }
    if findings.len() == before && !list.targets.is_empty() {
        let what = format!("{} deliver", count(list.targets.len() as u64, "target"));
        findings.push(Finding::new(Severity::Fine, "targets", what));
    }
}
