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
const LESS: [(Figure, System, Figure, f64); 16] = [
    (Figure::ScheduleCpu, System::Netty, Figure::ScheduleCpu, 2.0),
    (Figure::CancelCpu, System::Netty, Figure::CancelCpu, 5.0),
    (Figure::ChurnCpu, System::Netty, Figure::ChurnCpu, 8.0),
    (Figure::ScheduleWall, System::NettyParallel, Figure::ScheduleWall, 1.2),
    (Figure::CancelWall, System::NettyParallel, Figure::CancelWall, 1.5),
    (Figure::ChurnWall, System::NettyParallel, Figure::ChurnWall, 2.0),
    (Figure::TwoProducersWall, System::Netty, Figure::TwoProducersWall, 1.5),
    (Figure::TwoProducersWall, System::NettyParallel, Figure::TwoProducersWall, 1.5),
    (Figure::ResetCpu, System::Netty, Figure::ChurnCpu, 12.0),
    (Figure::FireCpu, System::Netty, Figure::FireCpu, 3.0),
    (Figure::FireP99, System::Netty, Figure::FireP99, 1.0),
    (Figure::FireP999, System::Netty, Figure::FireP999, 1.0),
    (Figure::ScheduleCpu, System::Tokio, Figure::ScheduleCpu, 4.0),
    (Figure::CancelCpu, System::Tokio, Figure::CancelCpu, 4.0),
    (Figure::ResetCpu, System::Tokio, Figure::ResetCpu, 3.0),
    (Figure::FireCpu, System::Tokio, Figure::FireCpu, 8.0),
];

/// How many times the throughput of one thread several shall have: the figure of several threads,
/// that of one, and the factor. One thread cancels its own timers where two cancel each other's.
const SCALES: [(Figure, Figure, f64); 5] = [
    (Figure::TwoProducersWall, Figure::ScheduleWall, 1.7),
    (Figure::TwoChurnWall, Figure::ChurnWall, 1.7),
    (Figure::TwoCancelWall, Figure::CancelWall, 1.3),
    (Figure::EightProducersWall, Figure::ScheduleWall, 1.3),
    (Figure::EightChurnWall, Figure::ChurnWall, 1.3),
];

/// The most that a figure of ours may be.
const AT_MOST: [(Figure, f64); 6] = [
    (Figure::FireEarly, 0.0),
    (Figure::Memory, 56.0),
    (Figure::PauseSchedule, 1.0),
    (Figure::PauseCancel, 1.0),
    (Figure::PauseKey, 1.0),
    (Figure::PauseWait, 1.0),
];

/// What a figure of ours must stay under.
const UNDER: [(Figure, f64); 2] = [(Figure::IdleFullSwitches, 1.0), (Figure::BlockedP99, 5.0)];

/// All goals that the results can answer.
pub(super) fn goals(results: &Results) -> Vec<Goal> {
    let less = LESS.iter().filter_map(|&(ours, peer, theirs, times)| {
        let ratio = results.value(peer, theirs)? / results.value(System::Tickwheel, ours)?;
        let against = if ours == theirs { "" } else { " cancel and schedule" };
        Some(Goal {
            what: format!("{}, against {}{against}", ours.label(), peer.label()),
            wanted: format!("at least {times}x less"),
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
    less.chain(SCALES.iter().filter_map(|scales| scaling(results, scales)))
        .chain(at_most)
        .chain(under)
        .collect()
}

fn scaling(results: &Results, &(several, one, times): &(Figure, Figure, f64)) -> Option<Goal> {
    let alone = results.value(System::Tickwheel, one)?;
    let ratio = alone / results.value(System::Tickwheel, several)?;
    Some(Goal {
        what: format!("{}, against one thread", several.label()),
        wanted: format!("at least {times}x the throughput"),
        measured: ratio_text(ratio),
        reached: ratio >= times,
    })
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
        let cancel = |ours| {
            let figures = [
                (System::Tickwheel, Figure::CancelWall, ours),
                (System::NettyParallel, Figure::CancelWall, 150.0),
            ];
            verdicts(&figures)
        };
        let what = || String::from("cancel, wall, against Netty, parallel GC");
        assert_eq!(cancel(100.0), [(what(), true)]);
        assert_eq!(cancel(101.0), [(what(), false)]);
    }

    #[test]
    fn several_threads_are_held_against_one() {
        let two = |wall| {
            let figures = [
                (System::Tickwheel, Figure::ScheduleWall, 100.0),
                (System::Tickwheel, Figure::TwoProducersWall, wall),
            ];
            verdicts(&figures)
        };
        let what = || String::from("two producers, wall, against one thread");
        assert_eq!(two(50.0), [(what(), true)]);
        assert_eq!(two(60.0), [(what(), false)]);
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
