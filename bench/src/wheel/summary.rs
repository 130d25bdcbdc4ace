//! The figures as a table.

use super::results::Results;
use super::system::System;
use super::workload::{Figure, Unit};
use crate::report::numbers::{count, figure_text, ratio_text};
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

fn absent() -> String {
    String::from("-")
}
