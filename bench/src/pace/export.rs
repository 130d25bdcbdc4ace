//! The whole report: a table, goals, a chart.

use std::fmt;

use serde::Serialize;

use super::figure::{Figure, System};
use super::options::Options;
use super::results::Results;
use crate::machine::Machine;
use crate::report::chart::{Bar, Chart, Group, Panel, Scale};
use crate::report::destinations::Kept;
use crate::report::goal::{self, Goal};
use crate::report::numbers::{count, figure_text, ratio_text};
use crate::report::origin;
use crate::report::table::Table;

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
            rounds: options.rounds,
            keys: options.keys,
            goals: goals(&results),
            results,
        }
    }

    fn measured(&self) -> impl Iterator<Item = Figure> {
        let any = |figure| System::ALL.iter().any(|&s| self.results.median(s, figure).is_some());
        Figure::ALL.into_iter().filter(move |&figure| any(figure))
    }

    /// Rows are figures, columns are systems, then the ratio.
    fn table(&self) -> Table {
        let mut head = vec![String::from("workload"), String::from("unit")];
        head.extend(System::ALL.map(|system| system.label().to_owned()));
        head.push(String::from("vs governor"));
        let mut table = Table::new(head);
        for figure in self.measured() {
            let medians = System::ALL.map(|system| self.results.median(system, figure));
            let mut cells = vec![figure.label().to_owned(), figure.unit().to_owned()];
            cells.extend(medians.map(|value| value.map_or_else(absent, figure_text)));
            let ratio = match medians {
                [Some(ours), Some(theirs)] => ratio_text(theirs / ours),
                _ => absent(),
            };
            cells.push(ratio);
            table.row(cells);
        }
        table
    }

    fn panel(&self, title: &str, unit: &str) -> Panel {
        let bar = |system, figure| {
            let value = self.results.median(system, figure)?;
            Some(Bar { value, text: figure_text(value), mark: None })
        };
        let groups = self.measured().filter(|figure| figure.unit() == unit).map(|figure| Group {
            label: figure.label().to_owned(),
            bars: System::ALL.map(|system| bar(system, figure)).into(),
        });
        Panel { title: title.to_owned(), scale: Scale::Linear, groups: groups.collect() }
    }
}

fn absent() -> String {
    String::from("-")
}

/// All goals that the results can answer.
fn goals(results: &Results) -> Vec<Goal> {
    let stated = [Figure::BothNew, Figure::BothKnown, Figure::Threads];
    let goal = |figure: Figure| {
        let value = results.median(System::Tickwheel, figure)?;
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
        Chart {
            title: format!("Pacing, {} keys", count(self.keys)),
            subtitle: String::from("Shorter is better."),
            systems: System::ALL.map(|system| system.label().to_owned()).into(),
            marked: None,
            panels: vec![
                self.panel("processor time each, ns", "ns"),
                self.panel("memory, bytes", "bytes"),
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
        writeln!(f, "{}", self.table())?;
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
