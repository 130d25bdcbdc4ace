//! The figures as a table.

use super::figure::{Figure, Unit};
use super::results::Results;
use super::system::System;
use crate::report::numbers::ratio_text;
use crate::report::table::Table;

/// Whom the last columns compare with.
const COMPARED: [System; 2] = [System::Netty, System::Tokio];

/// Rows are figures, columns are systems, then the ratios.
pub(super) fn figures(results: &Results) -> Table {
    let systems = results.systems();
    let mut head = vec![String::from("workload"), String::from("unit")];
    head.extend(systems.iter().map(|system| system.label().to_owned()));
    head.extend(COMPARED.iter().map(|peer| format!("vs {}", peer.label())));
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
    cells.extend(COMPARED.map(|peer| ratio(results, peer, figure).map_or_else(absent, ratio_text)));
    cells
}

/// How many times our figure a peer's is.
fn ratio(results: &Results, peer: System, figure: Figure) -> Option<f64> {
    let ours = results.value(System::Tickwheel, figure)?;
    let theirs = results.value(peer, figure)?;
    (figure.unit() != Unit::Timers && ours > 0.0).then(|| theirs / ours)
}

fn absent() -> String {
    String::from("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_a_ratio_where_there_is_one() {
        let mut results = Results::default();
        for (system, churn, switches) in
            [(System::Tickwheel, 100.0, 0.0), (System::Netty, 1_000.0, 900.0)]
        {
            results.add(system, Figure::ChurnCpu, churn);
            results.add(system, Figure::IdleFullSwitches, switches);
        }
        let cells = |figure| row(&results, &results.systems(), figure);
        assert_eq!(cells(Figure::ChurnCpu)[2..], ["100", "1000", "10x", "-"]);
        assert_eq!(cells(Figure::IdleFullSwitches)[2..], ["0.0", "900", "-", "-"]);
    }
}
