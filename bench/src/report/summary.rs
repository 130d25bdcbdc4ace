//! The figures as a table, and as panels of a chart.

use super::chart::{Bar, Group, Panel, Scale};
use super::numbers::ratio_text;
use super::results::{Measured, Named, Results};
use super::table::Table;

/// Rows are the figures that were measured, columns the systems; the last columns say how many
/// times the figure of the first system those of `compared` are.
pub(crate) fn table<S: Named, F: Measured>(
    results: &Results<S, F>,
    systems: &[S],
    compared: &[S],
    figures: &[F],
) -> Table {
    let shown = results.measured(systems);
    let mut head = vec![String::from("workload"), String::from("unit")];
    head.extend(shown.iter().map(|system| system.label().to_owned()));
    head.extend(compared.iter().map(|peer| format!("vs {}", peer.label())));
    let mut table = Table::new(head);
    for &figure in figures.iter().filter(|&&figure| results.has(figure)) {
        let unit = figure.unit();
        let mut cells = vec![figure.label().to_owned(), unit.name().to_owned()];
        let values = shown.iter().map(|&system| results.value(system, figure));
        cells.extend(values.map(|value| value.map_or_else(absent, |value| unit.text(value))));
        let ratios = compared.iter().map(|&peer| results.ratio(systems[0], peer, figure));
        cells.extend(ratios.map(|ratio| ratio.map_or_else(absent, ratio_text)));
        table.row(cells);
    }
    table
}

fn absent() -> String {
    String::from("-")
}

/// Figures of one unit as a panel.
pub(crate) fn panel<S: Named, F: Measured>(
    results: &Results<S, F>,
    systems: &[S],
    title: &str,
    scale: Scale,
    figures: &[F],
) -> Panel {
    let bar = |system, figure: F| {
        let value = results.value(system, figure)?;
        Some(Bar { value, text: figure.unit().text(value), mark: None })
    };
    let groups = figures.iter().map(|&figure| Group {
        label: figure.label().to_owned(),
        bars: systems.iter().map(|&system| bar(system, figure)).collect(),
    });
    let unit = figures.first().map_or("", |figure| figure.unit().name());
    let scaled = if scale == Scale::Logarithmic { ", logarithmic" } else { "" };
    Panel {
        title: format!("{title}, {unit}{scaled}"),
        scale,
        groups: groups.filter(|group| group.bars.iter().any(Option::is_some)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{Figure, System};
    use super::*;

    const SYSTEMS: [System; 2] = [System::Ours, System::Theirs];

    fn results() -> Results<System, Figure> {
        let mut results = Results::default();
        results.add(System::Ours, Figure::Fire, 100.0);
        results.add(System::Theirs, Figure::Fire, 1_000.0);
        results.add(System::Ours, Figure::Early, 0.0);
        results
    }

    #[test]
    fn rows_have_a_ratio_where_there_is_one() {
        let figures = [Figure::Fire, Figure::Early];
        let table = table(&results(), &SYSTEMS, &SYSTEMS[1..], &figures).to_string();
        let rows: Vec<Vec<&str>> =
            table.lines().map(|row| row.split('|').map(str::trim).collect()).collect();
        assert_eq!(rows[2], ["", "fire", "ns", "100", "1000", "10x", ""]);
        assert_eq!(rows[3], ["", "early", "timers", "0", "-", "-", ""]);
    }

    #[test]
    fn a_panel_has_a_place_for_each_system_and_no_empty_group() {
        let panel = panel(&results(), &SYSTEMS, "CPU", Scale::Linear, &[Figure::Fire]);
        assert_eq!(panel.title, "CPU, ns");
        assert_eq!(panel.groups[0].bars.len(), 2);
        let empty = Results::<System, Figure>::default();
        let panel = super::panel(&empty, &SYSTEMS, "CPU", Scale::Linear, &[Figure::Fire]);
        assert!(panel.groups.is_empty());
    }
}
