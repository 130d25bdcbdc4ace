//! The report as a chart: a panel a unit, and the systems that do everything.

use super::export::Report;
use super::figure::Figure;
use super::system::System;
use crate::report::chart::{Chart, Scale};
use crate::report::numbers::count;
use crate::report::results::Named;
use crate::report::summary::panel;

/// Our default configuration and the peers; the others of ours are in the table.
const SHOWN: [System; 6] =
    [System::Tickwheel, System::Go, System::Netty, System::Jdk, System::Tokio, System::AsyncIo];

pub(super) fn chart(report: &Report) -> Chart {
    use Figure::{
        BlockedP50, BlockedP99, CancelCpu, ChurnCpu, FireCpu, FireP50, FireP99, FireP999,
        IdleEmptySwitches, IdleFullSwitches, Memory, ResetCpu, ScheduleCpu, TwoProducersCpu,
    };
    let panel =
        |title, scale, figures: &[Figure]| panel(&report.results, &SHOWN, title, scale, figures);
    let panels = [
        panel(
            "process CPU an operation",
            Scale::Logarithmic,
            &[ScheduleCpu, CancelCpu, ChurnCpu, ResetCpu, TwoProducersCpu],
        ),
        panel("process CPU to fire all", Scale::Linear, &[FireCpu]),
        panel(
            "lateness",
            Scale::Logarithmic,
            &[FireP50, FireP99, FireP999, BlockedP50, BlockedP99],
        ),
        panel(
            "context switches while idle",
            Scale::Logarithmic,
            &[IdleEmptySwitches, IdleFullSwitches],
        ),
        panel("memory a pending timer", Scale::Linear, &[Memory]),
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
