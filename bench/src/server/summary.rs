//! The figures as a table.

use super::Results;
use super::figure::Figure;
use super::goals::{best_peer, of_embedded};
use super::system::System;
use crate::report::numbers::ratio_text;
use crate::report::results::{Measured, Named};
use crate::report::table::Table;
use crate::report::unit::Unit;

/// Rows are figures, columns are systems; then what the service does of what the queue does
/// without it, and how many times better than the best peer it is.
pub(super) fn figures(results: &Results) -> Table {
    let systems = results.measured(&System::ALL);
    let mut head = vec![String::from("workload"), String::from("unit")];
    head.extend(systems.iter().map(|system| system.label().to_owned()));
    head.extend(["of embedded", "vs best peer"].map(String::from));
    let mut table = Table::new(head);
    for figure in Figure::ALL.into_iter().filter(|&figure| results.has(figure)) {
        table.row(row(results, &systems, figure));
    }
    table
}

fn row(results: &Results, systems: &[System], figure: Figure) -> Vec<String> {
    let unit = figure.unit();
    let mut cells = vec![figure.label().to_owned(), unit.name().to_owned()];
    let values = systems.iter().map(|&system| results.value(system, figure));
    cells.extend(values.map(|value| value.map_or_else(absent, |value| unit.text(value))));
    let share = of_embedded(results, figure).filter(|_| unit == Unit::JobsPerSecond);
    cells.push(share.map_or_else(absent, |share| format!("{:.0} %", 100.0 * share)));
    cells.push(advantage(results, figure).map_or_else(absent, ratio_text));
    cells
}

fn advantage(results: &Results, figure: Figure) -> Option<f64> {
    let ours = results.value(System::Service, figure)?;
    let (_, theirs) = best_peer(results, figure)?;
    (figure.unit() != Unit::Jobs && ours > 0.0).then(|| figure.unit().advantage(ours, theirs))
}

fn absent() -> String {
    String::from("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_compares_with_the_embedded_queue_and_the_best_peer() {
        let mut results = Results::default();
        results.add(System::Service, Figure::Put64, 3_000.0);
        results.add(System::Embedded, Figure::Put64, 4_000.0);
        results.add(System::Redis, Figure::Put64, 1_500.0);
        results.add(System::Beanstalkd, Figure::Put64, 1_000.0);
        let systems = results.measured(&System::ALL);
        let cells = row(&results, &systems, Figure::Put64);
        assert_eq!(cells[2..], ["3000", "4000", "1500", "1000", "75 %", "2.0x"]);
        results.add(System::Redis, Figure::PutAhead64, 9_000.0);
        let cells = row(&results, &systems, Figure::PutAhead64);
        assert_eq!(cells[2..], ["-", "-", "9000", "-", "-", "-"]);
    }
}
