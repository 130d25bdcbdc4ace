//! Futures on the timer against those of the runtimes.
//!
//! * `contender`, `ours`, `peers`: the systems
//! * `run`: one run; `timeouts`, `sleeps`, `fire`, `queue`: its workloads

mod contender;
mod fire;
mod ours;
mod peers;
mod queue;
mod run;
mod sleeps;
mod timeouts;

use anyhow::Result;

use crate::suite::chart::Scale::{Linear, Logarithmic};
use crate::suite::goal::{Of, Verdict};
use crate::suite::options::Choice;
use crate::suite::origin::locked;
use crate::suite::results::Results;
use crate::suite::unit::Unit::{Milliseconds, Nanoseconds, Seconds, Timers};
use crate::suite::{
    Case, Outcome, Ready, Run, Section, Sizes, Spec, Suite, Versus, figure, ours, panel, peer,
    workload,
};
use crate::work::{SEED, Size};

pub(crate) struct Futures;

const TIMERS: usize = 1_000_000;
const OURS: Of = Of("tickwheel");
/// The goal for the cost that a timeout adds to a receive: tokio's divided by ours.
const LESS_ADDED: f64 = 3.0;

static SPEC: Spec = Spec {
    name: "async",
    about: "Sleep, timeout, interval and delay queue against tokio, async-io and futures-timer",
    examples: "\
Examples: everything once and small; two peers at two workloads; the run whose results are kept
  cargo xtask bench async --quick
  cargo xtask bench async --peers tokio,async-io --workload timeout,fire --rounds 1
  cargo xtask bench async --save",
    title: "Futures and their peers",
    sizes: Some(Sizes {
        option: "timers",
        things: "timers",
        usual: &[TIMERS],
        quick: 20_000,
        most: 4_000_000,
        bytes: 1_024,
    }),
    stores: false,
    workloads: &[
        workload("timeout", 5, 2, "Timeouts of futures that are ready at once or after some polls"),
        workload("receive", 5, 2, "A timeout around each receive of tasks that exchange messages"),
        workload("sleep", 3, 4, "Create and poll all sleeps, then others beside them; drop all"),
        workload("churn", 3, 4, "Drop a random sleep and create another, as often as there are"),
        workload("reset", 3, 4, "The same with a reset"),
        workload("fire", 3, 8, "Sleeps spread over seconds, each in a task: CPU and lateness"),
        workload("fire-stay", 3, 8, "The same with tasks that do not end, without that cost"),
        workload("interval", 5, 3, "A thousandth as many intervals of 10 ms, each in a task"),
        workload("queue", 3, 4, "A delay queue: push, reset, remove; push again, pop what is due"),
    ],
    systems: &[
        ours("tickwheel", "tickwheel", "Tickwheel's futures on `Timer::new()`"),
        peer("tokio", "tokio", "tokio", "tokio's own, and tokio-util's `DelayQueue`"),
        peer("async-io", "async-io", "async-io", "async-io's `Timer`"),
        peer("futures-timer", "futures-timer", "futures-timer", "futures-timer's `Delay`"),
        ours("bare", "no timeout", "No timeout at all"),
    ],
    figures: &[
        figure("timeout-ready-cpu", "timeout, ready at once", Nanoseconds),
        figure("timeout-ready-wall", "timeout, ready at once, wall", Nanoseconds),
        figure("timeout-once-cpu", "timeout, ready after 1 poll", Nanoseconds),
        figure("timeout-once-wall", "timeout, ready after 1 poll, wall", Nanoseconds),
        figure("timeout-several-cpu", "timeout, ready after 4 polls", Nanoseconds),
        figure("timeout-several-wall", "timeout, ready after 4 polls, wall", Nanoseconds),
        figure("receive-cpu", "timeout, around a receive", Nanoseconds),
        figure("receive-wall", "timeout, around a receive, wall", Nanoseconds),
        figure("create-cpu", "sleep: create and poll", Nanoseconds),
        figure("create-wall", "sleep: create and poll, wall", Nanoseconds),
        figure("brief-cpu", "sleep: create, poll and drop", Nanoseconds),
        figure("brief-wall", "sleep: create, poll and drop, wall", Nanoseconds),
        figure("churn-cpu", "sleep: drop a random one, create", Nanoseconds),
        figure("churn-wall", "sleep: drop a random one, create, wall", Nanoseconds),
        figure("reset-cpu", "sleep: reset", Nanoseconds),
        figure("reset-wall", "sleep: reset, wall", Nanoseconds),
        figure("drop-cpu", "sleep: drop, shuffled", Nanoseconds),
        figure("drop-wall", "sleep: drop, shuffled, wall", Nanoseconds),
        figure("fire-cpu", "fire", Seconds),
        figure("fire-p50", "fire: late, p50", Milliseconds),
        figure("fire-p99", "fire: late, p99", Milliseconds),
        figure("fire-max", "fire: late, at most", Milliseconds),
        figure("fire-early", "fire: early", Timers),
        figure("fire-stay-cpu", "fire, tasks stay", Seconds),
        figure("interval-cpu", "interval: tick", Nanoseconds),
        figure("push-cpu", "delay queue: push", Nanoseconds),
        figure("push-wall", "delay queue: push, wall", Nanoseconds),
        figure("queue-reset-cpu", "delay queue: reset", Nanoseconds),
        figure("queue-reset-wall", "delay queue: reset, wall", Nanoseconds),
        figure("remove-cpu", "delay queue: remove, shuffled", Nanoseconds),
        figure("remove-wall", "delay queue: remove, shuffled, wall", Nanoseconds),
        figure("pop-cpu", "delay queue: pop", Nanoseconds),
        figure("pop-wall", "delay queue: pop, wall", Nanoseconds),
    ],
    sections: &[Section { heading: "", systems: &[], versus: &[Versus::System("tokio")] }],
    goals: &[
        OURS.times("timeout-ready-cpu", 3.0, "tokio"),
        OURS.times("timeout-once-cpu", 3.0, "tokio"),
        OURS.times("timeout-several-cpu", 3.0, "tokio"),
        OURS.times("brief-cpu", 2.0, "tokio"),
        OURS.times("churn-cpu", 4.0, "tokio"),
        OURS.times("reset-cpu", 2.0, "tokio"),
        OURS.times("interval-cpu", 1.0, "tokio"),
        OURS.times("fire-cpu", 2.0, "tokio"),
        OURS.at_most("fire-early", 0.0),
    ],
    subtitle: "Shorter is better. Of tokio, the delay queue is tokio-util's.",
    legend: &[],
    panels: &[
        panel(
            "process CPU, timeouts",
            Logarithmic,
            &[],
            &["timeout-ready-cpu", "timeout-once-cpu", "timeout-several-cpu", "receive-cpu"],
        ),
        panel(
            "process CPU, sleeps and intervals",
            Logarithmic,
            &[],
            &["create-cpu", "brief-cpu", "churn-cpu", "reset-cpu", "drop-cpu", "interval-cpu"],
        ),
        panel(
            "process CPU, delay queue",
            Linear,
            &[],
            &["push-cpu", "queue-reset-cpu", "remove-cpu", "pop-cpu"],
        ),
        panel("process CPU to fire all", Linear, &[], &["fire-cpu", "fire-stay-cpu"]),
        panel("lateness", Logarithmic, &[], &["fire-p50", "fire-p99"]),
    ],
    notes: include_str!("notes.md"),
};

impl Suite for Futures {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    /// A task without timeouts can only do the workload `receive`.
    fn does(&self, system: &str, workload: &str) -> bool {
        match system {
            "tickwheel" | "tokio" => true,
            "bare" => workload == "receive",
            _ => workload != "queue",
        }
    }

    fn set_up(&self, _choice: &Choice) -> Result<Ready> {
        let versions = locked(&["tokio", "tokio-util", "async-io", "futures-timer"]);
        Ok(Ready { versions, ..Ready::default() })
    }

    fn settings(&self, choice: &Choice, case: &Case) -> Vec<(&'static str, u64)> {
        let timers = case.size;
        let (lead_ms, span_ms) = match (choice.quick(), case.workload.name) {
            (true, _) => (500, 500),
            (false, "interval") => (100, 2_000),
            // The slowest system needs two to three seconds until a million tasks wait.
            _ => (1_000 + 4_000 * timers.div_ceil(TIMERS) as u64, 3_000),
        };
        Size { timers, seed: SEED, moves: timers, lead_ms, span_ms }.settings()
    }

    fn run(&self, run: &Run) -> Result<Outcome> {
        run::perform(run)
    }

    /// Compares what timeouts add to a receive.
    fn more_goals(&self, results: &Results) -> Vec<Verdict> {
        let added = |system| {
            let of = |system| results.value(system, "receive-cpu");
            Some(of(system)? - of("bare")?)
        };
        let (Some(ours), Some(theirs)) = (added("tickwheel"), added("tokio")) else {
            return Vec::new();
        };
        let what = "timeout, around a receive: what it adds, against tokio".to_owned();
        // A difference within the noise cannot be a divisor.
        if ours > 0.0 { vec![Verdict::ratio(what, LESS_ADDED, theirs / ours)] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_receive_only_what_the_timeout_adds_counts() {
        let receive = |ours| {
            let mut results = Results::new(&SPEC, vec![0]);
            for (system, value) in [("bare", 100.0), ("tickwheel", ours), ("tokio", 160.0)] {
                results.add(SPEC.system(system).unwrap(), 0, "receive-cpu", value).unwrap();
            }
            let verdicts = Futures.more_goals(&results);
            verdicts.into_iter().map(|verdict| verdict.reached).collect::<Vec<_>>()
        };
        assert_eq!(receive(120.0), [true]);
        assert_eq!(receive(121.0), [false]);
        assert!(receive(99.0).is_empty());
    }
}
