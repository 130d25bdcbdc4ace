//! What the futures are meant to reach, and whether they did.
//!
//! A goal that needs a figure which was not measured is left out.

use super::Results;
use super::figure::Figure;
use super::system::System;
use crate::report::goal::Goal;
use crate::report::numbers::ratio_text;
use crate::report::results::{Measured, Named};

/// How many times less than tokio's figure ours shall be.
const LESS: [(Figure, f64); 8] = [
    (Figure::TimeoutReadyCpu, 3.0),
    (Figure::TimeoutOnceCpu, 3.0),
    (Figure::TimeoutSeveralCpu, 3.0),
    (Figure::BriefCpu, 2.0),
    (Figure::ChurnCpu, 4.0),
    (Figure::ResetCpu, 2.0),
    (Figure::IntervalCpu, 1.0),
    (Figure::FireCpu, 2.0),
];

/// How many times less than tokio's a timeout of ours shall add to what a receive takes by itself.
const LESS_ADDED: f64 = 3.0;

/// All goals that the results can answer.
pub(super) fn goals(results: &Results) -> Vec<Goal> {
    let less = LESS.iter().filter_map(|&(figure, times)| {
        let ratio = results.ratio(System::Tickwheel, System::Tokio, figure)?;
        Some(goal(format!("{}, against tokio", figure.label()), times, ratio))
    });
    less.chain(added(results)).chain(early(results)).collect()
}

fn goal(what: String, times: f64, ratio: f64) -> Goal {
    Goal {
        what,
        wanted: format!("at least {times:.0}x less"),
        measured: ratio_text(ratio),
        reached: ratio >= times,
    }
}

fn added(results: &Results) -> Option<Goal> {
    let figure = Figure::ReceiveCpu;
    let bare = results.value(System::Bare, figure)?;
    let ours = results.value(System::Tickwheel, figure)? - bare;
    let theirs = results.value(System::Tokio, figure)? - bare;
    let what = format!("{}: what it adds, against tokio", figure.label());
    // What is lost in the noise is nothing to divide by.
    (ours > 0.0).then(|| goal(what, LESS_ADDED, theirs / ours))
}

fn early(results: &Results) -> Option<Goal> {
    let figure = Figure::FireEarly;
    let value = results.value(System::Tickwheel, figure)?;
    let unit = figure.unit();
    Some(Goal {
        what: figure.label().to_owned(),
        wanted: String::from("none"),
        measured: format!("{} {}", unit.text(value), unit.name()),
        reached: value <= 0.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(figures: &[(System, Figure, f64)]) -> Vec<(String, bool)> {
        let mut results = Results::default();
        for &(system, figure, value) in figures {
            results.add(system, figure, value);
        }
        goals(&results).into_iter().map(|goal| (goal.what, goal.reached)).collect()
    }

    #[test]
    fn nothing_measured_means_no_goals() {
        assert!(verdicts(&[]).is_empty());
        assert!(verdicts(&[(System::Tokio, Figure::FireCpu, 1.0)]).is_empty());
    }

    #[test]
    fn a_ratio_is_reached_at_its_limit_and_not_below() {
        let fire = |ours| {
            let figures =
                [(System::Tickwheel, Figure::FireCpu, ours), (System::Tokio, Figure::FireCpu, 2.0)];
            verdicts(&figures)
        };
        assert_eq!(fire(1.0), [(String::from("fire, against tokio"), true)]);
        assert_eq!(fire(1.1), [(String::from("fire, against tokio"), false)]);
    }

    #[test]
    fn of_a_receive_only_what_the_timeout_adds_counts() {
        let receive = |ours| {
            let figures =
                [(System::Bare, 100.0), (System::Tickwheel, ours), (System::Tokio, 160.0)];
            let figures = figures.map(|(system, value)| (system, Figure::ReceiveCpu, value));
            verdicts(&figures).into_iter().map(|(_, reached)| reached).collect::<Vec<_>>()
        };
        assert_eq!(receive(120.0), [true]);
        assert_eq!(receive(121.0), [false]);
        assert!(receive(99.0).is_empty());
    }

    #[test]
    fn one_early_sleep_is_too_many() {
        let early = |count| verdicts(&[(System::Tickwheel, Figure::FireEarly, count)]);
        assert!(early(0.0)[0].1);
        assert!(!early(1.0)[0].1);
    }
}
