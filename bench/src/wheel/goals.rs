//! What the wheels are meant to reach, and whether they did.
//!
//! A goal that needs a figure which was not measured is left out.

use super::results::Results;
use super::system::System;
use super::workload::Figure;
use crate::report::goal::Goal;
use crate::report::numbers::{count, figure_text, ratio_text};

/// The size that the goals against `DelayQueue` are stated for.
const STATED_FOR: usize = 1_000_000;

/// How many times faster than `DelayQueue` the hierarchical wheel shall be.
const FASTER: [(Figure, f64); 5] = [
    (Figure::Insert, 4.0),
    (Figure::Cancel, 10.0),
    (Figure::Churn, 5.0),
    (Figure::PushLater, 16.0),
    (Figure::Fire, 14.0),
];

/// The most that a figure of the hierarchical wheel may be.
const AT_MOST: [(Figure, f64); 4] = [
    (Figure::Memory, 48.0),
    (Figure::MemoryAfterChurn, 72.0),
    (Figure::EmptyTickAlone, 5.0),
    (Figure::EmptyTick, 5.0),
];

/// How much worse a figure may be with more timers.
const GROWTH: f64 = 2.0;

/// By how much a figure may miss "at least as good as" before it counts: what two runs of the
/// same code differ by.
const NOISE: f64 = 1.05;

/// All goals that the results can answer.
pub(super) fn goals(results: &Results, sizes: &[usize]) -> Vec<Goal> {
    let mut goals = Vec::new();
    goals.extend(FASTER.iter().filter_map(|&(figure, times)| faster(results, figure, times)));
    goals.extend(AT_MOST.iter().filter_map(|&(figure, most)| at_most(results, figure, most)));
    goals.extend(
        [Figure::Insert, Figure::Cancel, Figure::Ring]
            .into_iter()
            .filter_map(|figure| hashed_keeps_up(results, figure)),
    );
    for &larger in sizes.iter().filter(|&&timers| timers > STATED_FOR) {
        for system in System::ALL.into_iter().filter(|system| system.is_ours()) {
            goals.extend(
                Figure::ALL
                    .into_iter()
                    .filter_map(|figure| scales(results, system, larger, figure)),
            );
        }
    }
    goals
}

fn faster(results: &Results, figure: Figure, times: f64) -> Option<Goal> {
    let ours = results.median(System::Hierarchical, STATED_FOR, figure)?;
    let theirs = results.median(System::DelayQueue, STATED_FOR, figure)?;
    let ratio = theirs / ours;
    Some(Goal {
        what: format!("{}, against DelayQueue", figure.label()),
        wanted: format!("at least {times:.0}x faster"),
        measured: ratio_text(ratio),
        reached: ratio >= times,
    })
}

fn at_most(results: &Results, figure: Figure, most: f64) -> Option<Goal> {
    let ours = results.median(System::Hierarchical, STATED_FOR, figure)?;
    let unit = figure.unit().name();
    Some(Goal {
        what: figure.label().to_owned(),
        wanted: format!("at most {most:.0} {unit}"),
        measured: format!("{ours:.1} {unit}"),
        reached: ours <= most,
    })
}

fn hashed_keeps_up(results: &Results, figure: Figure) -> Option<Goal> {
    let hashed = results.median(System::Hashed, STATED_FOR, figure)?;
    let hierarchical = results.median(System::Hierarchical, STATED_FOR, figure)?;
    Some(Goal {
        what: format!("hashed: {}", figure.label()),
        wanted: String::from("as good as hierarchical"),
        measured: format!("{} against {} ns", figure_text(hashed), figure_text(hierarchical)),
        reached: hashed <= hierarchical * NOISE,
    })
}

fn scales(results: &Results, system: System, larger: usize, figure: Figure) -> Option<Goal> {
    let small = results.median(system, STATED_FOR, figure)?;
    let large = results.median(system, larger, figure)?;
    let ratio = large / small;
    Some(Goal {
        what: format!(
            "{}: {}, {} against {}",
            system.label(),
            figure.label(),
            count(larger),
            count(STATED_FOR)
        ),
        wanted: format!("at most {GROWTH:.0}x"),
        measured: ratio_text(ratio),
        reached: ratio <= GROWTH,
    })
}
