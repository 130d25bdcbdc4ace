//! The whole report, and the files it is kept in.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;

use super::goals::{Goal, goals};
use super::options::Options;
use super::results::Results;
use super::{picture, summary};
use crate::machine::Machine;
use crate::report::file;

/// Where results are kept: `bench/results`, wherever the program is called from.
const KEPT_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/results");

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

const LOCK_FILE: &str = include_str!("../../Cargo.lock");

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
            command: command(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
            machine: Machine::read(),
            peers: peers.map(|name| Peer { name, version: locked_version(name) }).into(),
            rounds: options.rounds,
            goals: goals(&results, &options.sizes()),
            sizes: options.sizes(),
            results,
        }
    }

    fn markdown(&self) -> String {
        format!("# The wheels and their peers\n\n{self}")
    }

    /// What the columns of the peers stand for.
    pub(super) fn versions(&self) -> String {
        let names: Vec<String> = self.peers.iter().map(Peer::to_string).collect();
        format!("Peers: {}", names.join(", "))
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
            write!(f, "\n## Goals\n\n{}", summary::goals(&self.goals))?;
        }
        Ok(())
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// The files that were asked for.
#[derive(Default)]
pub(super) struct Destinations {
    json: Vec<PathBuf>,
    svg: Vec<PathBuf>,
    markdown: Vec<PathBuf>,
}

impl Destinations {
    /// Finds out before the measuring whether they can be written.
    pub(super) fn check(options: &Options) -> Result<Self> {
        let mut all = Self::default();
        all.json.extend(options.json.clone());
        all.svg.extend(options.svg.clone());
        if options.save {
            let folder = PathBuf::from(KEPT_IN);
            std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {KEPT_IN}"))?;
            all.json.push(folder.join("wheel.json"));
            all.svg.push(folder.join("wheel.svg"));
            all.markdown.push(folder.join("wheel.md"));
        }
        let mut paths = all.json.iter().chain(&all.svg).chain(&all.markdown);
        paths.try_for_each(|path| file::check(path))?;
        Ok(all)
    }

    pub(super) fn write(&self, report: &Report) -> Result<()> {
        self.json.iter().try_for_each(|path| file::write_json(path, report))?;
        let picture = picture::chart(report).to_string();
        self.svg.iter().try_for_each(|path| file::write_text(path, &picture))?;
        let markdown = report.markdown();
        self.markdown.iter().try_for_each(|path| file::write_text(path, &markdown))
    }
}

/// The command that gives this report.
fn command() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!("cargo xtask bench {}", arguments.join(" "))
}

/// The version of a dependency that this program was built with.
fn locked_version(name: &str) -> String {
    LOCK_FILE
        .split("[[package]]")
        .find(|package| package.contains(&format!("name = \"{name}\"")))
        .and_then(|package| package.split_once("version = \""))
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or_else(|| String::from("unknown"), |(version, _)| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::locked_version;

    #[test]
    fn versions_come_from_the_lock_file() {
        assert!(locked_version("tokio-util").starts_with("0."));
        assert_eq!(locked_version("no such crate"), "unknown");
    }
}
