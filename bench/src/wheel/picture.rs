//! The report as a chart: bars for the smallest size, a mark on the bar for the next larger one.

use super::export::Report;
use super::system::System;
use super::workload::{Figure, Unit};
use crate::report::chart::{Bar, Chart, Group, Panel, Scale};
use crate::report::numbers::{count, figure_text};

pub(super) fn chart(report: &Report) -> Chart {
    let small = report.sizes[0];
    let large = report.sizes.get(1).copied();
    let marked = large.map(|large| format!("the same with {} timers", count(large)));
    Chart {
        title: format!("Timing wheels and their peers, {} timers", count(small)),
        subtitle: String::from("Shorter is better."),
        systems: System::ALL.iter().map(|system| name(*system)).collect(),
        marked,
        panels: vec![
            panel(report, Unit::Nanoseconds, small, large),
            panel(report, Unit::Bytes, small, large),
        ],
        caption: vec![
            format!("{}, {}, medians (rounds: {})", report.command, report.date, report.rounds),
            report.machine.to_string(),
            report.versions(),
        ],
    }
}

fn name(system: System) -> String {
    if system.is_ours() {
        format!("tickwheel {}", system.label())
    } else {
        system.label().to_owned()
    }
}

fn panel(report: &Report, unit: Unit, small: usize, large: Option<usize>) -> Panel {
    let group = |figure: Figure| Group {
        label: figure.label().to_owned(),
        bars: System::ALL.map(|system| bar(report, system, figure, small, large)).into(),
    };
    // A tick of an empty structure is in the table, to compare; a picture of it says nothing.
    let figures = Figure::ALL
        .into_iter()
        .filter(|&figure| figure.unit() == unit && figure != Figure::EmptyTickAlone);
    let groups = figures.map(group).filter(|group| group.bars.iter().any(Option::is_some));
    let (title, scale) = match unit {
        Unit::Nanoseconds => ("ns per operation, logarithmic", Scale::Logarithmic),
        Unit::Bytes => ("bytes per pending timer", Scale::Linear),
    };
    Panel { title: title.to_owned(), scale, groups: groups.collect() }
}

fn bar(
    report: &Report,
    system: System,
    figure: Figure,
    small: usize,
    large: Option<usize>,
) -> Option<Bar> {
    let value = report.results.median(system, small, figure)?;
    let mark = large.and_then(|large| report.results.median(system, large, figure));
    Some(Bar { value, text: figure_text(value), mark })
}
