//! The whole report.

use std::fmt;

use serde::Serialize;

use super::goals::goals;
use super::options::Options;
use super::results::Results;
use super::{picture, summary};
use crate::machine::Machine;
use crate::report::chart::Chart;
use crate::report::destinations::Kept;
use crate::report::goal::{self, Goal};
use crate::report::origin;

const HOW_MEASURED: &str = "\
Medians over the rounds, systems in turns, each run a process of its own on the same seeded work. \
Processor time of the one thread.";

const WHAT_IS_SHOWN: &str = "\
Nanoseconds an operation, or bytes a pending timer. The last two columns say how many times our \
hierarchical wheel's figure the other one is: above 1 is in our favour.";

const WHAT_TO_KNOW: &str = "\
No system is told the number of timers in advance. Who cancels or moves a timer has its key at \
hand; a BTreeMap's key changes with the deadline and is looked up. BTreeMap and hash_wheel_timer \
have no reset: it is a removal and an insertion. What moving DelayQueue's clock takes is not \
counted. Above 2M timers the slow peers (-) run only when they are named with --only.";

/// What was measured, on what, how and when.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) command: String,
    pub(super) date: String,
    pub(super) machine: Machine,
    pub(super) peers: Vec<Peer>,
    pub(super) rounds: u32,
    pub(super) sizes: Vec<usize>,
    pub(super) goals: Vec<Goal>,
    #[serde(flatten)]
    pub(super) results: Results,
}

/// A crate that takes part, and its version.
#[derive(Serialize)]
pub(super) struct Peer {
    name: &'static str,
    version: String,
}

impl Report {
    pub(super) fn new(options: &Options, results: Results) -> Self {
        let peers = ["tokio-util", "tokio", "hierarchical_hash_wheel_timer"];
        Self {
            command: origin::command(),
            date: origin::date(),
            machine: Machine::read(),
            peers: peers.map(|name| Peer { name, version: origin::locked_version(name) }).into(),
            rounds: options.rounds,
            goals: goals(&results, &options.sizes()),
            sizes: options.sizes(),
            results,
        }
    }

    /// What the columns of the peers stand for.
    pub(super) fn versions(&self) -> String {
        let names: Vec<String> = self.peers.iter().map(Peer::to_string).collect();
        format!("Peers: {}", names.join(", "))
    }
}

impl Kept for Report {
    fn markdown(&self) -> String {
        format!("# The wheels and their peers\n\n{self}")
    }

    fn chart(&self) -> Chart {
        picture::chart(self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", summary::figures(&self.results, &self.sizes))?;
        writeln!(f, "* `{}`, {}, rounds: {}", self.command, self.date, self.rounds)?;
        writeln!(f, "* {}", self.machine)?;
        writeln!(f, "* {}", self.versions())?;
        writeln!(f, "* {HOW_MEASURED}\n* {WHAT_IS_SHOWN}\n* {WHAT_TO_KNOW}")?;
        if !self.goals.is_empty() {
            write!(f, "\n## Goals\n\n{}", goal::table(&self.goals))?;
        }
        Ok(())
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}
