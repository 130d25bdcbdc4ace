//! The YAML documents of `stats`, `stats-job`, `stats-tube` and the lists of tubes.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tickwheel_queue::{Job, QueueInfo, Time};

use super::job::{Past, Terms, delay_of, state_name};
use super::number::Number;
use super::priority::to_pri;
use super::tubes::{Tube, Tubes};

/// A list of names.
pub(super) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().fold("---\n".to_owned(), |mut text, name| {
        let _ = writeln!(text, "- {name}");
        text
    })
}

/// What `stats-job` shows; `None` if the protocol does not know such jobs.
pub(super) fn of_job(job: &Job, now: Time, queue_lease_secs: u64) -> Option<String> {
    let state = state_name(job.state)?;
    let terms = Terms::of(&job.headers);
    let ttr = terms.map_or(queue_lease_secs, |terms| terms.ttr.into());
    let time_left = match state {
        "reserved" => job.leased_until.map_or(0, |until| seconds_left(until, now)),
        "delayed" => seconds_left(job.due, now),
        _ => 0,
    };
    let past = Past::of(job);
    Some(document(&[
        ("id", Number::of(job.id).0.to_string()),
        ("tube", quoted(&job.queue)),
        ("state", state.to_owned()),
        ("pri", to_pri(job.priority, terms.map(|terms| terms.pri)).to_string()),
        ("age", now.since(job.created).as_secs().to_string()),
        ("delay", delay_of(job).to_string()),
        ("ttr", ttr.to_string()),
        ("time-left", time_left.to_string()),
        ("file", "0".to_owned()),
        ("reserves", past.reserves.to_string()),
        ("timeouts", past.timeouts.to_string()),
        ("releases", past.releases.to_string()),
        ("buries", past.buries.to_string()),
        ("kicks", past.kicks.to_string()),
    ]))
}

/// What `stats-tube` shows.
pub(super) fn of_tube(name: &str, queue: Option<&QueueInfo>, tube: Tube, now: Time) -> String {
    let of = |count: fn(&QueueInfo) -> u64| queue.map_or(0, count).to_string();
    let until = queue.and_then(|queue| queue.paused_until);
    let left = until.map_or(0, |until| seconds_left(until, now));
    let pause = if until.is_some() { tube.pause } else { 0 };
    document(&[
        ("name", quoted(name)),
        ("current-jobs-urgent", "0".to_owned()),
        ("current-jobs-ready", of(|it| it.ready)),
        ("current-jobs-reserved", of(|it| it.leased)),
        ("current-jobs-delayed", of(|it| it.scheduled)),
        ("current-jobs-buried", of(|it| it.dead)),
        ("total-jobs", of(|it| it.counters.put)),
        ("current-using", tube.using.to_string()),
        ("current-watching", tube.watching.to_string()),
        ("current-waiting", tube.waiting.to_string()),
        ("cmd-delete", tube.deletes.to_string()),
        ("cmd-pause-tube", tube.pauses.to_string()),
        ("pause", pause.to_string()),
        ("pause-time-left", left.to_string()),
    ])
}

/// What `stats` shows of the queues that the caller may see.
pub(super) fn of_service(
    tubes: &Tubes,
    queues: &[QueueInfo],
    current_tubes: usize,
    max_job: u64,
    is_draining: bool,
) -> String {
    let sum = |count: fn(&QueueInfo) -> u64| queues.iter().map(count).sum::<u64>().to_string();
    let counts = &tubes.counts;
    let load = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed).to_string();
    let mut fields = vec![
        ("current-jobs-urgent".to_owned(), "0".to_owned()),
        ("current-jobs-ready".to_owned(), sum(|it| it.ready)),
        ("current-jobs-reserved".to_owned(), sum(|it| it.leased)),
        ("current-jobs-delayed".to_owned(), sum(|it| it.scheduled)),
        ("current-jobs-buried".to_owned(), sum(|it| it.dead)),
    ];
    fields
        .extend(counts.commands().map(|(name, count)| (format!("cmd-{name}"), count.to_string())));
    let machine = Machine::read();
    let rest = [
        ("job-timeouts", sum(|it| it.counters.expired)),
        ("total-jobs", sum(|it| it.counters.put)),
        ("max-job-size", max_job.to_string()),
        ("current-tubes", current_tubes.to_string()),
        ("current-connections", load(&counts.connections)),
        ("current-producers", load(&counts.producers)),
        ("current-workers", load(&counts.workers)),
        ("current-waiting", load(&counts.waiting)),
        ("total-connections", load(&counts.total_connections)),
        ("pid", std::process::id().to_string()),
        ("version", quoted(concat!("tickwheel ", env!("CARGO_PKG_VERSION")))),
        ("rusage-utime", machine.user_time),
        ("rusage-stime", machine.system_time),
        ("uptime", tubes.started.elapsed().as_secs().to_string()),
        ("binlog-oldest-index", "0".to_owned()),
        ("binlog-current-index", "0".to_owned()),
        ("binlog-records-migrated", "0".to_owned()),
        ("binlog-records-written", "0".to_owned()),
        ("binlog-max-size", "0".to_owned()),
        ("draining", is_draining.to_string()),
        ("id", format!("{:016x}", tubes.id)),
        ("hostname", quoted(&machine.host)),
        ("os", quoted(&machine.os)),
        ("platform", quoted(&machine.platform)),
    ];
    fields.extend(rest.map(|(name, value)| (name.to_owned(), value)));
    document(&fields)
}

/// Whole seconds until a time. Right after it was set, a time in ten seconds is nine away.
fn seconds_left(until: Time, now: Time) -> u64 {
    until.since(now).saturating_sub(Duration::from_millis(1)).as_secs()
}

fn document<N: AsRef<str>>(fields: &[(N, String)]) -> String {
    fields.iter().fold("---\n".to_owned(), |mut text, (name, value)| {
        let _ = writeln!(text, "{}: {value}", name.as_ref());
        text
    })
}

/// A text in double quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// What the operating system says about the machine and the process.
#[derive(Default)]
struct Machine {
    host: String,
    os: String,
    platform: String,
    user_time: String,
    system_time: String,
}

impl Machine {
    #[cfg(unix)]
    fn read() -> Self {
        let name = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let (user, system) = cpu_times().unwrap_or_default();
        Self {
            host: text(name.nodename()),
            os: text(name.version()),
            platform: text(name.machine()),
            user_time: format!("{user:.6}"),
            system_time: format!("{system:.6}"),
        }
    }

    #[cfg(not(unix))]
    fn read() -> Self {
        let zero = || "0.000000".to_owned();
        Self { user_time: zero(), system_time: zero(), ..Self::default() }
    }
}

/// The processor time of this process in seconds, user and system, where the kernel shows it.
#[cfg(unix)]
fn cpu_times() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program is in parentheses and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut seconds = || {
        let ticks: u64 = fields.next()?.parse().ok()?;
        Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    };
    Some((seconds()?, seconds()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_yaml() {
        assert_eq!(list(["default", "a"]), "---\n- default\n- a\n");
        assert_eq!(quoted(r#"a"b\"#), r#""a\"b\\""#);
        let text = of_tube("a", None, Tube::default(), Time::from_millis(0));
        assert!(text.starts_with("---\nname: \"a\"\ncurrent-jobs-urgent: 0\n"), "{text}");
        assert!(text.ends_with("pause: 0\npause-time-left: 0\n"), "{text}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernel_shows_the_processor_time() {
        assert!(cpu_times().is_some());
    }
}
