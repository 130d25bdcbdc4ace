//! The timer against its peers: threads, real time, and other languages.
//!
//! * `contender`, `ours`, `peers`: the systems in Rust; `bench/peers` has those in Java and Go
//! * `run`: one run; `pause`: the longest calls
//! * `setup`: installs and builds what the peers need

mod contender;
mod ours;
mod pause;
mod peers;
mod run;
mod setup;

use std::process::Command;

use anyhow::Result;
use clap::Arg;

use crate::suite::chart::Scale::{Linear, Logarithmic};
use crate::suite::goal::Of;
use crate::suite::options::{Choice, flag};
use crate::suite::unit::Unit::{
    Bytes, Milliseconds, MillisecondsPerSecond, Nanoseconds, PerSecond, Seconds, Timers,
};
use crate::suite::{
    Case, Outcome, Ready, Run, Section, Sizes, Spec, Suite, Versus, figure, ours, panel, peer,
    workload,
};
use crate::work::{SEED, Size};

pub(crate) struct Timer;

const TIMERS: usize = 1_000_000;
/// Pauses grow with the number of timers, so they are measured with more of them.
const PAUSE_TIMES: usize = 10;
/// The chart shows our timer in its default configuration and the peers; the table shows all
/// systems.
const CHART: &[&str] = &["tickwheel", "go", "netty", "jdk", "tokio", "async-io"];
const OURS: Of = Of("tickwheel");

static SPEC: Spec = Spec {
    name: "timer",
    about: "The timer against Netty, the JDK, Go, tokio and async-io",
    examples: "\
Examples: everything once and small; our timer against two others; the run whose results are kept
  cargo xtask bench timer --quick
  cargo xtask bench timer --peers netty,tokio --workload schedule,churn --rounds 1
  cargo xtask bench timer --save

The benchmark installs what the peers need: Debian's libnetty-java and default-jdk-headless with
apt-get, and a Go toolchain from PyPI into bench/target.",
    title: "The timer and its peers",
    sizes: Some(Sizes {
        option: "timers",
        things: "timers",
        usual: &[TIMERS],
        quick: 20_000,
        most: 4_000_000,
        bytes: 512,
    }),
    stores: false,
    workloads: &[
        workload("schedule", 5, 2, "Timers due in 60 s to 3600 s, on a fresh timer"),
        workload("cancel", 5, 2, "All of those, in shuffled order"),
        workload("churn", 3, 9, "Random timers are cancelled and scheduled anew, 5 times as many"),
        workload("reset", 3, 9, "The same with a reset, by those that have one"),
        workload("two-producers", 5, 2, "Two threads schedule half of the timers each"),
        workload("two-churn", 3, 7, "Two threads churn timers that they scheduled themselves"),
        workload("two-cancel", 5, 2, "Two threads cancel each other's timers, in shuffled order"),
        workload("eight-producers", 5, 2, "Eight threads schedule an eighth of the timers each"),
        workload("eight-churn", 3, 7, "Eight threads churn timers that they scheduled themselves"),
        workload("fire", 3, 9, "Timers spread over 5 s: processor time, lateness, early ones"),
        workload("idle", 3, 9, "Nothing is due: processor time and context switches"),
        workload("memory", 5, 2, "Bytes a pending timer whose task captures 16 bytes"),
        workload("blocked", 3, 7, "10,000 tasks a second, of which 10 sleep 100 ms: lateness"),
        workload("pause", 3, 30, "The longest single call with ten times as many timers"),
    ],
    systems: &[
        ours("tickwheel", "tickwheel", "Tickwheel's `Timer` as `Timer::new` makes it"),
        ours("inline", "inline", "The same with tasks on the wheel's own thread"),
        ours("hashed", "hashed", "The same on a hashed wheel with 512 slots"),
        ours("keyed", "keyed", "The same with a key for every task"),
        peer("netty", "netty", "Netty", "Netty's `HashedWheelTimer` with 512 slots"),
        peer("netty", "netty-parallel", "Netty, parallel GC", "The same, with another collector"),
        peer("jdk", "jdk", "JDK", "The JDK's `ScheduledThreadPoolExecutor`"),
        peer("go", "go", "Go", "Go's `time.AfterFunc`"),
        peer("tokio", "tokio", "tokio", "tokio's `Sleep`"),
        peer("async-io", "async-io", "async-io", "async-io's `Timer`"),
    ],
    figures: &[
        figure("schedule-cpu", "schedule", Nanoseconds),
        figure("schedule-wall", "schedule, wall", Nanoseconds),
        figure("cancel-cpu", "cancel, shuffled", Nanoseconds),
        figure("cancel-wall", "cancel, wall", Nanoseconds),
        figure("churn-cpu", "churn: cancel and schedule", Nanoseconds),
        figure("churn-wall", "churn, wall", Nanoseconds),
        figure("reset-cpu", "reset", Nanoseconds),
        figure("reset-wall", "reset, wall", Nanoseconds),
        figure("two-producers-cpu", "schedule, two producers", Nanoseconds),
        figure("two-producers-wall", "two producers, wall", Nanoseconds),
        figure("two-churn-cpu", "churn, two threads", Nanoseconds),
        figure("two-churn-wall", "churn, two threads, wall", Nanoseconds),
        figure("two-cancel-cpu", "cancel another thread's", Nanoseconds),
        figure("two-cancel-wall", "cancel another thread's, wall", Nanoseconds),
        figure("eight-producers-cpu", "schedule, eight threads", Nanoseconds),
        figure("eight-producers-wall", "schedule, eight threads, wall", Nanoseconds),
        figure("eight-churn-cpu", "churn, eight threads", Nanoseconds),
        figure("eight-churn-wall", "churn, eight threads, wall", Nanoseconds),
        figure("fire-cpu", "fire", Seconds),
        figure("fire-p50", "fire: late, p50", Milliseconds),
        figure("fire-p99", "fire: late, p99", Milliseconds),
        figure("fire-p999", "fire: late, p99.9", Milliseconds),
        figure("fire-max", "fire: late, at most", Milliseconds),
        figure("fire-early", "fire: early", Timers),
        figure("idle-empty-cpu", "idle, 0 pending", MillisecondsPerSecond),
        figure("idle-empty-switches", "idle, 0 pending: switches", PerSecond),
        figure("idle-full-cpu", "idle, all pending", MillisecondsPerSecond),
        figure("idle-full-switches", "idle, all pending: switches", PerSecond),
        figure("memory", "memory", Bytes),
        figure("memory-resident", "memory, resident", Bytes),
        figure("blocked-p50", "blocked: others late, p50", Milliseconds),
        figure("blocked-p99", "blocked: others late, p99", Milliseconds),
        figure("blocked-p999", "blocked: others late, p99.9", Milliseconds),
        figure("blocked-max", "blocked: others late, at most", Milliseconds),
        figure("pause-schedule", "longest call: schedule", Milliseconds),
        figure("pause-cancel", "longest call: cancel", Milliseconds),
        figure("pause-key", "longest call: schedule by key", Milliseconds),
        figure("pause-wait", "longest wait of another thread", Milliseconds),
    ],
    sections: &[Section {
        heading: "",
        systems: &[],
        versus: &[Versus::System("netty"), Versus::System("tokio")],
    }],
    goals: &[
        OURS.times("schedule-cpu", 2.0, "netty"),
        OURS.times("cancel-cpu", 5.0, "netty"),
        OURS.times("churn-cpu", 8.0, "netty"),
        OURS.times("schedule-wall", 1.2, "netty-parallel"),
        OURS.times("cancel-wall", 1.5, "netty-parallel"),
        OURS.times("churn-wall", 2.0, "netty-parallel"),
        OURS.times("two-producers-wall", 1.5, "netty"),
        OURS.times("two-producers-wall", 1.5, "netty-parallel"),
        // Netty has no reset: its users cancel and schedule again.
        OURS.times_other("reset-cpu", 12.0, "netty", "churn-cpu"),
        OURS.times("fire-cpu", 3.0, "netty"),
        OURS.times("fire-p99", 1.0, "netty"),
        OURS.times("fire-p999", 1.0, "netty"),
        OURS.times("schedule-cpu", 4.0, "tokio"),
        OURS.times("cancel-cpu", 4.0, "tokio"),
        OURS.times("reset-cpu", 3.0, "tokio"),
        OURS.times("fire-cpu", 8.0, "tokio"),
        // The throughput of several threads, compared with that of one.
        OURS.times_other("two-producers-wall", 1.7, "tickwheel", "schedule-wall"),
        OURS.times_other("two-churn-wall", 1.7, "tickwheel", "churn-wall"),
        OURS.times_other("two-cancel-wall", 1.3, "tickwheel", "cancel-wall"),
        OURS.times_other("eight-producers-wall", 1.3, "tickwheel", "schedule-wall"),
        OURS.times_other("eight-churn-wall", 1.3, "tickwheel", "churn-wall"),
        OURS.at_most("fire-early", 0.0),
        OURS.at_most("memory", 56.0),
        OURS.at_most("pause-schedule", 1.0),
        OURS.at_most("pause-cancel", 1.0),
        OURS.at_most("pause-key", 1.0),
        OURS.at_most("pause-wait", 1.0),
        OURS.under("idle-full-switches", 1.0),
        OURS.under("blocked-p99", 5.0),
    ],
    subtitle: "Shorter is better.",
    legend: &["tickwheel", "Go", "Netty", "JDK", "tokio", "async-io"],
    panels: &[
        panel(
            "process CPU an operation",
            Logarithmic,
            CHART,
            &["schedule-cpu", "cancel-cpu", "churn-cpu", "reset-cpu", "two-producers-cpu"],
        ),
        panel("process CPU to fire all", Linear, CHART, &["fire-cpu"]),
        panel(
            "lateness",
            Logarithmic,
            CHART,
            &["fire-p50", "fire-p99", "fire-p999", "blocked-p50", "blocked-p99"],
        ),
        panel(
            "context switches while idle",
            Logarithmic,
            CHART,
            &["idle-empty-switches", "idle-full-switches"],
        ),
        panel("memory a pending timer", Linear, CHART, &["memory"]),
    ],
    notes: include_str!("notes.md"),
};

impl Suite for Timer {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn options(&self) -> Vec<Arg> {
        let help = "Give every Rust program and the JVM huge pages (glibc 2.35 or later)";
        vec![flag("huge-pages", help)]
    }

    /// Netty and the JDK cannot reset. Variants of a system do only the workloads in which they
    /// differ. Workloads with threads are compared with Netty and tokio; pauses are measured for
    /// our timer alone.
    fn does(&self, system: &str, workload: &str) -> bool {
        if workload == "pause" {
            return system == "tickwheel";
        }
        if run::threads(workload) > 1 {
            return ["tickwheel", "netty", "netty-parallel", "tokio"].contains(&system);
        }
        let basic = ["schedule", "cancel", "churn"].contains(&workload);
        match system {
            "netty" | "jdk" => workload != "reset",
            "netty-parallel" => basic || ["two-producers", "fire"].contains(&workload),
            "inline" => ["fire", "blocked"].contains(&workload),
            "hashed" => !["two-producers", "memory", "blocked"].contains(&workload),
            "keyed" => basic || ["reset", "memory"].contains(&workload),
            _ => true,
        }
    }

    fn set_up(&self, choice: &Choice) -> Result<Ready> {
        Ok(Ready { versions: setup::set_up(choice)?, ..Ready::default() })
    }

    fn settings(&self, choice: &Choice, case: &Case) -> Vec<(&'static str, u64)> {
        let (workload, quick) = (case.workload.name, choice.quick());
        let timers = case.size * if workload == "pause" { PAUSE_TIMES } else { 1 };
        let lead_ms = match (quick, workload) {
            (true, _) | (_, "blocked") => 500,
            // The slowest system needs less than two seconds for a million.
            _ => 2_000 + 2_000 * timers.div_ceil(TIMERS) as u64,
        };
        let span_ms = if quick { 1_000 } else { 5_000 };
        let size = Size { timers, seed: SEED, moves: 5 * timers, lead_ms, span_ms };
        let mut settings = size.settings();
        settings.push(("idle-ms", if quick { 500 } else { 3_000 }));
        settings
    }

    fn program(&self, choice: &Choice, case: &Case) -> Result<Command> {
        let timers = self.settings(choice, case)[0].1 as usize;
        setup::command(case.system, timers, choice.flag("huge-pages"))
    }

    fn run(&self, run: &Run) -> Result<Outcome> {
        run::perform(run)
    }
}
