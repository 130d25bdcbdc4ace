//! The report as a chart: a panel for each kind of figure and class of durability.

use super::export::Report;
use super::figure::Figure;
use super::system::{Class, System};
use crate::report::chart::{Bar, Chart, Group, Panel, Scale};
use crate::report::results::{Measured, Named};

pub(super) fn chart(report: &Report) -> Chart {
    use Figure::{
        Cancel, EndToEnd, LateP50, LateP99, MemoryAgain, Put1, Put8, Put64, PutBatch1, PutBatch8,
        PutBatch64, Restart,
    };
    let work = [Put1, Put8, Put64, PutBatch1, PutBatch8, PutBatch64, EndToEnd, Cancel];
    let (synced, relaxed) = (Class::Synced, Class::Relaxed);
    let panels = [
        panel(report, synced, "on stable storage when answered: longer is better", &work),
        panel(report, relaxed, "on stable storage a moment later: longer is better", &work),
        panel(report, synced, "lateness: shorter is better", &[LateP50, LateP99]),
        panel(report, relaxed, "memory with 1M pending: shorter is better", &[MemoryAgain]),
        panel(report, relaxed, "starting again with 1M pending: shorter is better", &[Restart]),
    ];
    Chart {
        title: String::from("The durable queue and its peers"),
        subtitle: String::from("Logarithmic scales."),
        systems: ["tickwheel", "Redis", "PostgreSQL", "beanstalkd"].map(String::from).into(),
        marked: None,
        panels: panels.into_iter().filter(|panel| !panel.groups.is_empty()).collect(),
        caption: vec![
            format!("{}, {}, medians (rounds: {})", report.command, report.date, report.rounds),
            report.machine.to_string(),
            report.versions(),
        ],
    }
}

/// Figures of one unit and class.
fn panel(report: &Report, class: Class, title: &str, figures: &[Figure]) -> Panel {
    let systems = System::ALL.into_iter().filter(|system| system.class() == class);
    let systems: Vec<System> = systems.collect();
    let groups = figures.iter().map(|&figure| Group {
        label: figure.label().to_owned(),
        bars: systems.iter().map(|&system| bar(report, system, figure)).collect(),
    });
    let unit = figures.first().map_or("", |figure| figure.unit().name());
    Panel {
        title: format!("{title}, {unit}"),
        scale: Scale::Logarithmic,
        groups: groups.filter(|group| group.bars.iter().any(Option::is_some)).collect(),
    }
}

fn bar(report: &Report, system: System, figure: Figure) -> Option<Bar> {
    let value = report.results.value(system, figure)?;
    Some(Bar { value, text: figure.unit().text(value), mark: None })
}
