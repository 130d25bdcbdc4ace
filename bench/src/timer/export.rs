//! The whole report.

use std::fmt;

use serde::Serialize;

use super::figure::Figure;
use super::goals::goals;
use super::options::Options;
use super::system::System;
use super::workload::Workload;
use super::{Results, picture};
use crate::machine::Machine;
use crate::report::chart::Chart;
use crate::report::destinations::Kept;
use crate::report::goal::{self, Goal};
use crate::report::numbers::count;
use crate::report::origin::{self, Version};
use crate::report::summary;

/// Whom the last columns compare with.
const COMPARED: [System; 2] = [System::Netty, System::Tokio];

/// How many timers the goals are stated for.
const STATED_FOR: usize = 1_000_000;

const NOTES: [&str; 10] = [
    "Medians over the rounds (of early timers the worst round), systems in turns, each run a \
     process of its own on the same seeded work. Every tick is 1 ms. Processor time is user and \
     system time of all threads of the process, whatever they do: the collectors of Java and Go \
     and the JVM's compiler are in it.",
    "The last columns say how many times the figure of our timer in its default configuration the \
     peer's is: above 1 is in our favour. Inline and hashed are configurations of ours that run \
     only where they differ.",
    "A section ends when a task without a delay has run that was scheduled last. Netty's newTimeout \
     and cancel only enqueue, and its worker does the rest at the next tick: so it is charged for \
     that too.",
    "Java warms up: the same work with a tenth of the timers, on timers of their own, five times \
     (fire, idle and blocked once, memory not at all), then a collection. Its heap has a fixed \
     size and is touched beforehand, so page faults are not charged to it, as they are to Rust and \
     Go. Its collector \
     is G1, the JVM's choice, whose write barriers make linked lists expensive; Netty's other \
     column shows it on the parallel collector. The goals are against Netty as the JVM runs by \
     default. Cancelled tasks leave the JDK's heap at once (setRemoveOnCancelPolicy); it has a \
     thread for each core.",
    "tokio and async-io: where nothing fires, a boxed future that was polled once, without a task \
     around it; where timers fire, a spawned task each, on tokio's default runtime and on one \
     thread for async-io.",
    "Fire: from when all are scheduled until the last has run, each task reading the clock and \
     writing down how late it is. A deadline is the clock before the call plus the delay; early \
     is before that. Blocked: a task sleeps on the thread it is run on, in Go in its goroutine.",
    "Idle: switches of all threads; the harness's own sleep is one or two of them. Processor time \
     is in milliseconds a second: 1000 is a whole core.",
    "Two and eight threads: each schedules a part of the timers, then all begin at once. They churn \
     their own timers or cancel those of the other thread. The machine's cores are fewer than eight.",
    "Longest calls and waits are measured with ten times as many timers: every call is timed while \
     10M are scheduled, half of them cancelled, and 10M scheduled by key; meanwhile, and while a slot \
     with a third 10M is demoted and fired, another thread schedules and cancels. A call during which \
     the system gave the thread's core to another one does not count.",
    "Memory: what a million pending timers add, each with a task of 16 bytes, without the list of \
     handles: resident memory in Rust, live heap after a collection in Java and Go. Of Java \
     resident memory says nothing, because the heap is touched beforehand.",
];

/// What was measured, on what, how and when.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) command: String,
    pub(super) date: String,
    pub(super) machine: Machine,
    pub(super) peers: Vec<Version>,
    pub(super) timers: usize,
    pub(super) rounds: String,
    pub(super) goals: Vec<Goal>,
    #[serde(flatten)]
    pub(super) results: Results,
}

impl Report {
    pub(super) fn new(options: &Options, peers: Vec<Version>, results: Results) -> Self {
        Self {
            command: origin::command(),
            date: origin::date(),
            machine: Machine::read(),
            peers,
            timers: options.timers(),
            rounds: rounds(options),
            goals: goals(&results),
            results,
        }
    }

    /// What the columns of the peers stand for.
    pub(super) fn versions(&self) -> String {
        origin::versions(&self.peers)
    }
}

/// How often things were run, which depends on how long they take.
fn rounds(options: &Options) -> String {
    let quick = options.rounds(Workload::Schedule);
    let slow = options.rounds(Workload::Fire);
    if quick == slow {
        quick.to_string()
    } else {
        format!("{quick}, and {slow} of those that take long")
    }
}

impl Kept for Report {
    fn markdown(&self) -> String {
        format!("# The timer and its peers\n\n{self}")
    }

    fn chart(&self) -> Chart {
        picture::chart(self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timers = count(self.timers);
        let table = summary::table(&self.results, &System::ALL, &COMPARED, &Figure::ALL);
        writeln!(f, "{table}")?;
        writeln!(f, "* `{}`, {}", self.command, self.date)?;
        writeln!(f, "* {timers} timers, rounds: {}", self.rounds)?;
        writeln!(f, "* {}", self.machine)?;
        writeln!(f, "* {}", self.versions())?;
        NOTES.iter().try_for_each(|note| writeln!(f, "* {note}"))?;
        if self.goals.is_empty() {
            return Ok(());
        }
        write!(f, "\n## Goals\n\n")?;
        if self.timers != STATED_FOR {
            let stated = count(STATED_FOR);
            writeln!(f, "They are stated for {stated} timers; this was measured with {timers}.\n")?;
        }
        write!(f, "{}", goal::table(&self.goals))
    }
}
