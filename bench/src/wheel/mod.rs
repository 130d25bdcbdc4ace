//! The two wheels against their peers, as data structures: no thread and no real time.
//!
//! * `work`: the deadlines, orders and moves that all systems are given
//! * `contender`, `ours`, `peers`: the systems
//! * `run`, `verify`: one run and its checks

mod contender;
mod ours;
mod peers;
mod run;
mod verify;
mod work;

use anyhow::Result;
use clap::Arg;
use std::process::Command;

use self::work::MOST_TIMERS;
use crate::suite::chart::Scale;
use crate::suite::goal::{Of, Verdict};
use crate::suite::numbers::{count, ratio_text};
use crate::suite::options::{Choice, flag};
use crate::suite::origin::locked;
use crate::suite::results::Results;
use crate::suite::rounds::this_program;
use crate::suite::unit::Unit::{Bytes, Nanoseconds};
use crate::suite::{
    Case, Outcome, Ready, Run, Section, Sizes, Spec, Suite, Versus, figure, ours, panel, peer,
    workload,
};

pub(crate) struct Wheels;

/// Up to this many timers every system runs by default.
const ALL_RUN_UP_TO: usize = 2_000_000;
/// How much worse a figure may be with more timers.
const GROWTH: f64 = 2.0;
/// The ratio by which two runs of the same code may differ.
const NOISE: f64 = 0.95;

const HASH_WHEEL_TIMER: &str = "The cancellable wheel of `hierarchical_hash_wheel_timer`";

const TREE: Of = Of("hierarchical");
const RING: Of = Of("hashed");

static SPEC: Spec = Spec {
    name: "wheel",
    about: "The two timing wheels against DelayQueue, BinaryHeap, BTreeMap and another wheel",
    examples: "\
Examples: a quick look at two systems; the run whose results are kept
  cargo xtask bench wheel --sizes 1m --rounds 1 --only hierarchical,delay-queue --workload churn,fire
  cargo xtask bench wheel --save

Above 2M timers only our wheels and DelayQueue run, unless --only names others. The workloads fire,
empty-tick and ring run with the smallest size alone.",
    title: "Timing wheels and their peers",
    sizes: Some(Sizes {
        option: "sizes",
        things: "timers",
        usual: &[1_000_000, 10_000_000],
        quick: 20_000,
        most: MOST_TIMERS,
        bytes: 128,
    }),
    stores: false,
    workloads: &[
        workload("insert", 5, 1, "Timers due in 60 s to 3600 s; also bytes per timer"),
        workload("cancel", 5, 1, "All of those, in shuffled order"),
        workload("churn", 5, 3, "5M resets of random timers; also bytes per timer afterwards"),
        workload("push-later", 5, 3, "5M resets of random timers to later deadlines: heartbeats"),
        workload("fire", 5, 1, "Timers spread over 60 s, popped tick by tick"),
        workload("empty-tick", 5, 1, "Ticks that find nothing: no timers, and all a day away"),
        workload("jump", 5, 1, "Timers spread over 24 h, popped after one step of 24 h"),
        workload("ring", 5, 1, "Timers within 512 ticks, each replaced when it fires"),
    ],
    systems: &[
        ours("hierarchical", "hierarchical", "Tickwheel's `HierarchicalWheel`"),
        ours("hashed", "hashed", "Tickwheel's `HashedWheel` with 512 slots"),
        peer("delay-queue", "delay-queue", "DelayQueue", "tokio-util's `DelayQueue`"),
        peer("binary-heap", "binary-heap", "BinaryHeap", "std's `BinaryHeap` with lazy cancel"),
        peer("btree-map", "btree-map", "BTreeMap", "std's `BTreeMap` by deadline"),
        peer("hash-wheel-timer", "hash-wheel-timer", "hash_wheel_timer", HASH_WHEEL_TIMER),
    ],
    figures: &[
        figure("insert", "insert", Nanoseconds),
        figure("cancel", "cancel, shuffled", Nanoseconds),
        figure("churn", "churn: random reset", Nanoseconds),
        figure("push-later", "push later", Nanoseconds),
        figure("fire", "fire over 60 s", Nanoseconds),
        figure("empty-tick-alone", "empty tick, 0 pending", Nanoseconds),
        figure("empty-tick", "empty tick, all far", Nanoseconds),
        figure("jump", "jump of 24 h", Nanoseconds),
        figure("ring", "ring: pop and insert", Nanoseconds),
        figure("memory", "memory after insert", Bytes),
        figure("memory-after-churn", "memory after churn", Bytes),
    ],
    sections: &[Section {
        heading: "",
        systems: &[],
        versus: &[Versus::BestPeer, Versus::System("delay-queue")],
    }],
    goals: &[
        TREE.times("insert", 4.0, "delay-queue"),
        TREE.times("cancel", 10.0, "delay-queue"),
        TREE.times("churn", 5.0, "delay-queue"),
        TREE.times("push-later", 16.0, "delay-queue"),
        TREE.times("fire", 14.0, "delay-queue"),
        TREE.at_most("memory", 48.0),
        TREE.at_most("memory-after-churn", 72.0),
        TREE.at_most("empty-tick-alone", 5.0),
        TREE.at_most("empty-tick", 5.0),
        RING.times("insert", NOISE, "hierarchical"),
        RING.times("cancel", NOISE, "hierarchical"),
        RING.times("ring", NOISE, "hierarchical"),
    ],
    subtitle: "Shorter is better.",
    legend: &[
        "tickwheel hierarchical",
        "tickwheel hashed",
        "DelayQueue",
        "BinaryHeap",
        "BTreeMap",
        "hash_wheel_timer",
    ],
    panels: &[
        // Only the table shows the tick of an empty structure.
        panel(
            "per operation",
            Scale::Logarithmic,
            &[],
            &["insert", "cancel", "churn", "push-later", "fire", "empty-tick", "jump", "ring"],
        ),
        panel("per pending timer", Scale::Linear, &[], &["memory", "memory-after-churn"]),
    ],
    notes: include_str!("notes.md"),
};

impl Suite for Wheels {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn options(&self) -> Vec<Arg> {
        let help = "Give every system huge pages, not only the one that asks for them (glibc 2.35 \
                    or later)";
        vec![flag("huge-pages", help)]
    }

    fn includes(&self, choice: &Choice, Case { system, workload, size, .. }: &Case) -> bool {
        let more_says_nothing = matches!(workload.name, "fire" | "empty-tick" | "ring");
        // With 10M timers the slow peers take most of an hour, and the result is the same as with
        // 1M.
        let is_quick = system.peer.is_none_or(|peer| peer == "delay-queue");
        (!more_says_nothing || *size == choice.sizes()[0])
            && (is_quick || *size <= ALL_RUN_UP_TO || choice.names("only", system.name))
    }

    fn set_up(&self, _choice: &Choice) -> Result<Ready> {
        let versions = locked(&["tokio-util", "tokio", "hierarchical_hash_wheel_timer"]);
        Ok(Ready { versions, ..Ready::default() })
    }

    fn settings(&self, _choice: &Choice, case: &Case) -> Vec<(&'static str, u64)> {
        // Every round does the same work, so verifying one round is enough.
        vec![("timers", case.size as u64), ("verify", u64::from(case.round == 0))]
    }

    fn program(&self, choice: &Choice, case: &Case) -> Result<Command> {
        let mut command = this_program(&SPEC, case.system)?;
        if choice.flag("huge-pages") {
            command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
        }
        Ok(command)
    }

    fn run(&self, run: &Run) -> Result<Outcome> {
        let (timers, verify) = (run.number("timers")? as usize, run.number("verify")? == 1);
        run::perform(run.system.name, run.workload.name, timers, verify)
    }

    /// Checks that our wheels are at most [`GROWTH`] times slower with more timers.
    fn more_goals(&self, results: &Results) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let Some((&small, larger)) = results.sizes.split_first() else { return verdicts };
        for &large in larger {
            for system in SPEC.systems.iter().filter(|system| system.peer.is_none()) {
                verdicts.extend(SPEC.figures.iter().filter_map(|figure| {
                    let of = |size| results.value_at(size, system.name, figure.name);
                    let (growth, sizes) = (of(large)? / of(small)?, (count(large), count(small)));
                    let what = format!("{}: {}", system.label, figure.label);
                    Some(Verdict {
                        what: format!("{what}, {} against {}", sizes.0, sizes.1),
                        wanted: format!("at most {GROWTH}x"),
                        measured: ratio_text(growth),
                        reached: growth <= GROWTH,
                    })
                }));
            }
        }
        verdicts
    }
}
