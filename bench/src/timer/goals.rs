//! What the timer is meant to reach in its default configuration, and whether it did.
//!
//! A goal that needs a figure which was not measured is left out.

use super::Results;
use super::figure::Figure;
use super::system::System;
use crate::report::goal::Goal;
use crate::report::numbers::ratio_text;
use crate::report::results::{Measured, Named};

/// How many times less than a peer's figure ours shall be. Netty has no reset: what its users do
/// instead is to cancel and schedule.
const LESS: [(Figure, System, Figure, f64); 9] = [
    (Figure::ScheduleCpu, System::Netty, Figure::ScheduleCpu, 2.0),
    (Figure::CancelCpu, System::Netty, Figure::CancelCpu, 5.0),
    (Figure::ChurnCpu, System::Netty, Figure::ChurnCpu, 8.0),
    (Figure::ResetCpu, System::Netty, Figure::ChurnCpu, 12.0),
    (Figure::FireCpu, System::Netty, Figure::FireCpu, 3.0),
    (Figure::FireP99, System::Netty, Figure::FireP99, 2.0),
    (Figure::ScheduleCpu, System::Tokio, Figure::ScheduleCpu, 4.0),
    (Figure::ResetCpu, System::Tokio, Figure::ResetCpu, 4.0),
    (Figure::FireCpu, System::Tokio, Figure::FireCpu, 8.0),
];

/// The most that a figure of ours may be.
const AT_MOST: [(Figure, f64); 2] = [(Figure::FireEarly, 0.0), (Figure::Memory, 56.0)];

/// What a figure of ours must stay under.
const UNDER: [(Figure, f64); 2] = [(Figure::IdleFullSwitches, 1.0), (Figure::BlockedP99, 5.0)];

/// All goals that the results can answer.
pub(super) fn goals(results: &Results) -> Vec<Goal> {
    let less = LESS.iter().filter_map(|&(ours, peer, theirs, times)| {
        let ratio = results.value(peer, theirs)? / results.value(System::Tickwheel, ours)?;
        let against = if ours == theirs { "" } else { " cancel and schedule" };
        Some(Goal {
            what: format!("{}, against {}{against}", ours.label(), peer.label()),
            wanted: format!("at least {times:.0}x less"),
            measured: ratio_text(ratio),
            reached: ratio >= times,
        })
    });
    let at_most = AT_MOST.iter().filter_map(|&(figure, most)| {
        limit(results, figure, "at most", most, |value| value <= most)
    });
    let under = UNDER
        .iter()
        .filter_map(|&(figure, most)| limit(results, figure, "under", most, |value| value < most));
    less.chain(at_most).chain(under).collect()
}

fn limit(
    results: &Results,
    figure: Figure,
    word: &str,
    most: f64,
    reached: impl Fn(f64) -> bool,
) -> Option<Goal> {
    let value = results.value(System::Tickwheel, figure)?;
    let unit = figure.unit();
    let of_netty = results
        .value(System::Netty, figure)
        .map_or_else(String::new, |netty| format!(" (Netty: {})", unit.text(netty)));
    Some(Goal {
        what: figure.label().to_owned(),
        wanted: format!("{word} {most:.0} {}", unit.name()),
        measured: format!("{} {}{of_netty}", unit.text(value), unit.name()),
        reached: reached(value),
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
        assert!(verdicts(&[(System::Netty, Figure::ScheduleCpu, 100.0)]).is_empty());
    }

    #[test]
    fn a_ratio_is_reached_at_its_limit_and_not_below() {
        let schedule = |ours| {
            let figures = [
                (System::Tickwheel, Figure::ScheduleCpu, ours),
                (System::Netty, Figure::ScheduleCpu, 100.0),
            ];
            verdicts(&figures)
        };
        assert_eq!(schedule(50.0), [(String::from("schedule, against Netty"), true)]);
        assert_eq!(schedule(51.0), [(String::from("schedule, against Netty"), false)]);
    }

    #[test]
    fn our_reset_is_held_against_what_netty_does_instead() {
        let figures = [
            (System::Tickwheel, Figure::ResetCpu, 100.0),
            (System::Netty, Figure::ChurnCpu, 1_300.0),
        ];
        let what = String::from("reset, against Netty cancel and schedule");
        assert_eq!(verdicts(&figures), [(what, true)]);
    }

    #[test]
    fn one_early_timer_is_too_many_and_one_switch_a_second_too() {
        let figures = [
            (System::Tickwheel, Figure::FireEarly, 0.0),
            (System::Tickwheel, Figure::FireEarly, 1.0),
            (System::Tickwheel, Figure::FireEarly, 0.0),
            (System::Tickwheel, Figure::IdleFullSwitches, 1.0),
        ];
        assert!(verdicts(&figures).iter().all(|(_, reached)| !reached));
    }
}
