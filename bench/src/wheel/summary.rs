//! The figures as a table, and how numbers are written.

use super::goals::Goal;
use super::results::Results;
use super::system::System;
use super::workload::{Figure, Unit};
use crate::report::table::Table;

/// Rows are figures, columns are systems, then the ratios.
pub(super) fn figures(results: &Results, sizes: &[usize]) -> Table {
    let systems: Vec<System> = System::ALL
        .into_iter()
        .filter(|&system| results.series().iter().any(|series| series.system == system))
        .collect();
    let mut head = vec![String::from("workload"), String::from("timers")];
    head.extend(systems.iter().map(|system| system.label().to_owned()));
    head.push(String::from("vs best peer"));
    head.push(String::from("vs DelayQueue"));
    let mut table = Table::new(head);
    for &timers in sizes {
        for figure in Figure::ALL {
            if results.series().iter().any(|s| (s.timers, s.figure) == (timers, figure)) {
                table.row(row(results, &systems, timers, figure));
            }
        }
    }
    table
}

fn row(results: &Results, systems: &[System], timers: usize, figure: Figure) -> Vec<String> {
    let mut cells = vec![row_label(figure), count(timers)];
    let medians = systems.iter().map(|&system| results.median(system, timers, figure));
    cells.extend(medians.map(|median| median.map_or_else(absent, figure_text)));
    let ours = results.median(System::Hierarchical, timers, figure);
    let best = results.best_peer(timers, figure);
    let delay_queue = results.median(System::DelayQueue, timers, figure);
    cells.push(match (ours, best) {
        (Some(ours), Some((peer, best))) => {
            format!("{} {}", ratio_text(best / ours), peer.label())
        }
        _ => absent(),
    });
    cells.push(match (ours, delay_queue) {
        (Some(ours), Some(theirs)) => ratio_text(theirs / ours),
        _ => absent(),
    });
    cells
}

/// A table has figures of both units.
fn row_label(figure: Figure) -> String {
    match figure.unit() {
        Unit::Nanoseconds => figure.label().to_owned(),
        Unit::Bytes => format!("{}, bytes", figure.label()),
    }
}

/// One row a goal.
pub(super) fn goals(goals: &[Goal]) -> Table {
    let head = ["goal", "wanted", "measured", ""];
    let mut table = Table::new(head.map(String::from).to_vec());
    for goal in goals {
        let verdict = if goal.reached { "reached" } else { "MISSED" };
        table.row(vec![
            goal.what.clone(),
            goal.wanted.clone(),
            goal.measured.clone(),
            verdict.to_owned(),
        ]);
    }
    table
}

fn absent() -> String {
    String::from("-")
}

/// A number of timers: 1M, 250k, 999.
pub(super) fn count(timers: usize) -> String {
    match timers {
        n if n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n if n % 1_000 == 0 => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

/// A figure with as many digits as mean something.
pub(super) fn figure_text(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// How many times one figure is the other.
pub(super) fn ratio_text(ratio: f64) -> String {
    if ratio < 0.995 {
        format!("{ratio:.2}x")
    } else if ratio < 9.95 {
        format!("{ratio:.1}x")
    } else {
        format!("{ratio:.0}x")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(["1M", "250k", "999"], [1_000_000, 250_000, 999].map(count)[..]);
        assert_eq!(["1.5", "10", "1234"], [1.5, 9.96, 1234.4].map(figure_text)[..]);
        assert_eq!(["0.04x", "1.5x", "16x"], [0.04, 1.5, 16.4].map(ratio_text)[..]);
    }
}
