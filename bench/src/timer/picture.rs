//! The report as a chart: a panel a unit, and the systems that do everything.

use super::export::Report;
use super::figure::Figure;
use super::system::System;
use crate::report::chart::{Bar, Chart, Group, Panel, Scale};
use crate::report::numbers::count;

/// Our default configuration and the peers; the others of ours are in the table.
const SHOWN: [System; 6] =
    [System::Tickwheel, System::Go, System::Netty, System::Jdk, System::Tokio, System::AsyncIo];

pub(super) fn chart(report: &Report) -> Chart {
    use Figure::{
        BlockedP50, BlockedP99, CancelCpu, ChurnCpu, FireCpu, FireP50, FireP99, FireP999,
        IdleEmptySwitches, IdleFullSwitches, Memory, ResetCpu, ScheduleCpu, TwoProducersCpu,
    };
    let panels = [
        panel(
            report,
            "process CPU an operation",
            Scale::Logarithmic,
            &[ScheduleCpu, CancelCpu, ChurnCpu, ResetCpu, TwoProducersCpu],
        ),
        panel(report, "process CPU to fire all", Scale::Linear, &[FireCpu]),
        panel(
            report,
            "lateness",
            Scale::Logarithmic,
            &[FireP50, FireP99, FireP999, BlockedP50, BlockedP99],
        ),
        panel(
            report,
            "context switches while idle",
            Scale::Logarithmic,
            &[IdleEmptySwitches, IdleFullSwitches],
        ),
        panel(report, "memory a pending timer", Scale::Linear, &[Memory]),
    ];
    Chart {
        title: format!("The timer and its peers, {} timers", count(report.timers)),
        subtitle: String::from("Shorter is better."),
        systems: SHOWN.map(|system| system.label().to_owned()).into(),
        marked: None,
        panels: panels.into(),
        caption: vec![
            format!("{}, {}, medians (rounds: {})", report.command, report.date, report.rounds),
            report.machine.to_string(),
            report.versions(),
        ],
    }
}

/// Figures of one unit.
fn panel(report: &Report, title: &str, scale: Scale, figures: &[Figure]) -> Panel {
    let groups = figures.iter().map(|&figure| Group {
        label: figure.label().to_owned(),
        bars: SHOWN.map(|system| bar(report, system, figure)).into(),
    });
    let unit = figures.first().map_or("", |figure| figure.unit().name());
    let scaled = if scale == Scale::Logarithmic { ", logarithmic" } else { "" };
    Panel {
        title: format!("{title}, {unit}{scaled}"),
        scale,
        groups: groups.filter(|group| group.bars.iter().any(Option::is_some)).collect(),
    }
}

fn bar(report: &Report, system: System, figure: Figure) -> Option<Bar> {
    let value = report.results.value(system, figure)?;
    Some(Bar { value, text: figure.unit().text(value), mark: None })
}
