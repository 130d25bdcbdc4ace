//! The whole report: a table, goals, a chart.

use std::fmt;

use serde::Serialize;

use super::Results;
use super::figure::Figure;
use super::goals::goals;
use super::options::Options;
use super::system::System;
use super::workload::Workload;
use crate::machine::Machine;
use crate::report::chart::{Chart, Scale};
use crate::report::destinations::Kept;
use crate::report::goal::{self, Goal};
use crate::report::numbers::count;
use crate::report::results::Named;
use crate::report::{origin, summary};

/// How many timers the goals are stated for.
const STATED_FOR: usize = 1_000_000;

const PEERS: [&str; 4] = ["tokio", "tokio-util", "async-io", "futures-timer"];

const NOTES: [&str; 7] = [
    "Medians over the rounds (of early sleeps the worst round), systems in turns, each run a process \
     of its own on the same seeded work. Figures are processor time, user and system, of all threads \
     of the process, unless they say wall. The last column says how many times ours tokio's is: \
     above 1 is in our favour.",
    "Ours is `Timer::new()`, with nothing tuned, and its thread. A tokio runtime with a worker for \
     each core is there for every system; where futures are polled by hand it sleeps. A section ends \
     when a sleep of 1 ms is over that was begun last, so that a system is charged for what it lets a \
     thread do later.",
    "Timeout: polled by hand around a future that does nothing but count its polls, with a limit of \
     30 s. async-io and futures-timer have none: it is a future and a timer, polled in this order.",
    "Receive: 100 pairs of tasks on the runtime send a message to and fro through channels of tokio; \
     one of each pair waits for the answer with a limit. For one round trip; the column without a \
     timeout is what there is to do beside it.",
    "Sleep: due in 60 s to 3600 s, each in a place that was allocated before, polled once by hand. \
     Create, poll and drop: while all the others are pending, one after the other, as a sleep goes \
     that guards something short.",
    "Fire: all sleeps spread over 3 s, each in a task of the runtime, from when all wait until all \
     have run, and ended: most of that is the runtime's work. Where tasks stay, they do nothing after \
     they have run. A deadline is the clock before the call plus the delay; early is before that. \
     Interval: 10 ms, beginning at random times; futures-timer has none, and is reset each time.",
    "Delay queue: against tokio-util's, used by one task as that needs it. Push from none to all; pop \
     what was due when the first is popped, in order of deadline.",
];

/// What was measured, on what, how and when.
#[derive(Serialize)]
pub(super) struct Report {
    command: String,
    date: String,
    machine: Machine,
    peers: String,
    timers: usize,
    rounds: String,
    goals: Vec<Goal>,
    #[serde(flatten)]
    results: Results,
}

impl Report {
    pub(super) fn new(options: &Options, results: Results) -> Self {
        let peers = PEERS.map(|name| format!("{name} {}", origin::locked_version(name)));
        Self {
            command: origin::command(),
            date: origin::date(),
            machine: Machine::read(),
            peers: peers.join(", "),
            timers: options.timers(),
            rounds: rounds(options),
            goals: goals(&results),
            results,
        }
    }
}

/// How often things were run, which depends on how long they take.
fn rounds(options: &Options) -> String {
    let (quick, slow) = (options.rounds(Workload::Timeout), options.rounds(Workload::Fire));
    if quick == slow {
        quick.to_string()
    } else {
        format!("{quick} of timeouts and intervals, {slow} of the rest")
    }
}

impl Kept for Report {
    fn markdown(&self) -> String {
        format!("# Futures and their peers\n\n{self}")
    }

    fn chart(&self) -> Chart {
        use Figure::{
            BriefCpu, ChurnCpu, CreateCpu, DropCpu, FireCpu, FireP50, FireP99, FireStayCpu,
            IntervalCpu, PopCpu, PushCpu, QueueResetCpu, ReceiveCpu, RemoveCpu, ResetCpu,
            TimeoutOnceCpu, TimeoutReadyCpu, TimeoutSeveralCpu,
        };
        let panel = |title, scale, figures: &[Figure]| {
            summary::panel(&self.results, &System::ALL, title, scale, figures)
        };
        let timeouts = [TimeoutReadyCpu, TimeoutOnceCpu, TimeoutSeveralCpu, ReceiveCpu];
        let sleeps = [CreateCpu, BriefCpu, ChurnCpu, ResetCpu, DropCpu, IntervalCpu];
        let queue = [PushCpu, QueueResetCpu, RemoveCpu, PopCpu];
        Chart {
            title: format!("Futures and their peers, {} timers", count(self.timers)),
            subtitle: String::from("Shorter is better. Of tokio, the delay queue is tokio-util's."),
            systems: System::ALL.map(|system| system.label().to_owned()).into(),
            marked: None,
            panels: vec![
                panel("process CPU, timeouts", Scale::Logarithmic, &timeouts),
                panel("process CPU, sleeps and intervals", Scale::Logarithmic, &sleeps),
                panel("process CPU, delay queue", Scale::Linear, &queue),
                panel("process CPU to fire all", Scale::Linear, &[FireCpu, FireStayCpu]),
                panel("lateness", Scale::Logarithmic, &[FireP50, FireP99]),
            ],
            caption: vec![
                format!("{}, {}, medians (rounds: {})", self.command, self.date, self.rounds),
                self.machine.to_string(),
                self.peers.clone(),
            ],
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timers = count(self.timers);
        let table = summary::table(&self.results, &System::ALL, &[System::Tokio], &Figure::ALL);
        writeln!(f, "{table}")?;
        writeln!(f, "* `{}`, {}", self.command, self.date)?;
        writeln!(f, "* {timers} timers, rounds: {}", self.rounds)?;
        writeln!(f, "* {}", self.machine)?;
        writeln!(f, "* Peers: {}", self.peers)?;
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
