//! The report as a chart: a panel for each kind of figure.

use super::export::Report;
use super::figure::Figure;
use super::system::System;
use crate::report::chart::{Chart, Panel, Scale};
use crate::report::results::Named;
use crate::report::summary::panel;

pub(super) fn chart(report: &Report) -> Chart {
    use Figure::{LateP50, LateP99, Put8, Put64, PutAhead64, PutBatch8, PutBatch64};
    let figures = |title: &str, scale, figures: &[Figure]| -> Panel {
        panel(&report.results, &System::ALL, title, scale, figures)
    };
    let panels = [
        figures("single jobs: longer is better", Scale::Linear, &[Put8, Put64, PutAhead64]),
        figures("batches: longer is better", Scale::Linear, &[PutBatch8, PutBatch64]),
        figures("lateness: shorter is better", Scale::Logarithmic, &[LateP50, LateP99]),
    ];
    Chart {
        title: String::from("The service, the queue in it, and its peers"),
        subtitle: String::from("On stable storage when answered."),
        systems: System::ALL.map(|system| system.label().to_owned()).into(),
        marked: None,
        panels: panels.into_iter().filter(|panel| !panel.groups.is_empty()).collect(),
        caption: vec![
            format!("{}, {}, medians (rounds: {})", report.command, report.date, report.rounds),
            report.machine.to_string(),
            report.versions(),
        ],
    }
}
