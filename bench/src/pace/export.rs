//! The whole report: a table, goals, a chart.

use std::fmt;

use serde::Serialize;

use super::Results;
use super::figure::{Figure, System};
use super::options::Options;
use crate::machine::Machine;
use crate::report::chart::{Chart, Scale};
use crate::report::destinations::Kept;
use crate::report::goal::{self, Goal};
use crate::report::numbers::{count, figure_text};
use crate::report::results::{Measured, Named};
use crate::report::unit::Unit;
use crate::report::{origin, summary};

/// What submitting and starting a task may take together, in nanoseconds.
const MOST: f64 = 500.0;

const NOTES: [&str; 5] = [
    "Medians over the rounds, each run a process of its own on the same seeded work. Processor time \
     of the one thread that submits and starts; where the timer has its own thread, of the whole \
     process.",
    "Every key is met in random order, so nearly every access to its state misses the caches. New \
     keys include what it takes to grow to their number.",
    "Wait: of three tasks a key one may start each second, so two of three wait in the timing wheel; \
     nanoseconds for each of all. Forget: the window has passed, and the memory of the keys is \
     given back.",
    "Check: `try_acquire` against governor's `check_key` on its default store, a DashMap, two an \
     hour allowed. governor keeps one number for each key, which allows up to twice as many calls \
     in some windows as in others; a pacer keeps the times of the starts, for which no window has \
     too many. governor reads the processor's own clock, a pacer that of the operating system.",
    "Bytes are those that were asked of the allocator.",
];

/// What was measured, on what, how and when.
#[derive(Serialize)]
pub(super) struct Report {
    command: String,
    date: String,
    machine: Machine,
    governor: String,
    rounds: u32,
    keys: usize,
    goals: Vec<Goal>,
    #[serde(flatten)]
    results: Results,
}

impl Report {
    pub(super) fn new(options: &Options, results: Results) -> Self {
        Self {
            command: origin::command(),
            date: origin::date(),
            machine: Machine::read(),
            governor: origin::locked_version("governor"),
            rounds: options.rounds(),
            keys: options.keys(),
            goals: goals(&results),
            results,
        }
    }
}

/// All goals that the results can answer.
fn goals(results: &Results) -> Vec<Goal> {
    let stated = [Figure::BothNew, Figure::BothKnown, Figure::Threads];
    let goal = |figure: Figure| {
        let value = results.value(System::Tickwheel, figure)?;
        Some(Goal {
            what: figure.label().to_owned(),
            wanted: format!("under {MOST:.0} ns"),
            measured: format!("{} ns", figure_text(value)),
            reached: value < MOST,
        })
    };
    stated.into_iter().filter_map(goal).collect()
}

impl Kept for Report {
    fn markdown(&self) -> String {
        format!("# Pacing\n\n{self}")
    }

    fn chart(&self) -> Chart {
        let panel = |title, unit| {
            let figures = Figure::ALL.into_iter().filter(|figure| figure.unit() == unit);
            let figures: Vec<Figure> = figures.collect();
            summary::panel(&self.results, &System::ALL, title, Scale::Linear, &figures)
        };
        Chart {
            title: format!("Pacing, {} keys", count(self.keys)),
            subtitle: String::from("Shorter is better."),
            systems: System::ALL.map(|system| system.label().to_owned()).into(),
            marked: None,
            panels: vec![
                panel("processor time each", Unit::Nanoseconds),
                panel("memory", Unit::Bytes),
            ],
            caption: vec![
                format!("{}, {}, medians (rounds: {})", self.command, self.date, self.rounds),
                self.machine.to_string(),
                format!("governor {}", self.governor),
            ],
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = summary::table(&self.results, &System::ALL, &[System::Governor], &Figure::ALL);
        writeln!(f, "{table}")?;
        writeln!(f, "* `{}`, {}", self.command, self.date)?;
        writeln!(f, "* {} keys, rounds: {}", count(self.keys), self.rounds)?;
        writeln!(f, "* {}", self.machine)?;
        writeln!(f, "* governor {}", self.governor)?;
        NOTES.iter().try_for_each(|note| writeln!(f, "* {note}"))?;
        if self.goals.is_empty() {
            return Ok(());
        }
        write!(f, "\n## Goals\n\n{}", goal::table(&self.goals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_reached_below_its_limit_and_not_at_it() {
        let reached = |value| {
            let mut results = Results::default();
            results.add(System::Tickwheel, Figure::BothKnown, value);
            goals(&results).into_iter().map(|goal| goal.reached).collect::<Vec<_>>()
        };
        assert_eq!(reached(499.0), [true]);
        assert_eq!(reached(500.0), [false]);
        assert!(goals(&Results::default()).is_empty());
    }
}
