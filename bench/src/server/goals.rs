//! What the service is meant to reach, and whether it did.
//!
//! A goal that needs a figure which was not measured is left out.

use super::Results;
use super::figure::Figure;
use super::system::System;
use crate::report::goal::Goal;
use crate::report::numbers::ratio_text;
use crate::report::results::{Measured, Named};

/// The share of the embedded queue's jobs that shall come through HTTP.
const SHARE: f64 = 0.6;
/// How many times the best peer's single puts ours shall be.
const TIMES: f64 = 1.5;

/// What a figure must stay under.
const UNDER: [(Figure, f64); 5] = [
    (Figure::LateP99, 10.0),
    (Figure::StartAfterKill, 1.0),
    (Figure::StartAfterStop, 1.0),
    (Figure::Idle, 1.0),
    (Figure::Binary, 40.0),
];

/// All goals that the results can answer.
pub(super) fn goals(results: &Results) -> Vec<Goal> {
    let batches = [Figure::PutBatch8, Figure::PutBatch64];
    let shares = batches.into_iter().filter_map(|figure| share(results, figure));
    // A peer whose client sends commands ahead has more of them on their way than ours.
    let peers = [Figure::Put64, Figure::PutAhead64];
    let more = peers.into_iter().filter_map(|theirs| more(results, theirs));
    let more = more.chain(beanstalk_goals(results));
    let under = UNDER.iter().filter_map(|&(figure, most)| under(results, figure, most));
    shares.chain(more).chain(under).chain(early(results)).collect()
}

/// The peer with the best figure.
pub(super) fn best_peer(results: &Results, figure: Figure) -> Option<(System, f64)> {
    let peers = System::ALL.into_iter().filter(|system| system.peer().is_some());
    let values = peers.filter_map(|peer| Some((peer, results.value(peer, figure)?)));
    let advantage = |(_, one): &(_, f64), (_, other): &(_, f64)| {
        figure.unit().advantage(*one, *other).total_cmp(&1.0)
    };
    values.max_by(advantage)
}

/// What comes through HTTP of what the queue does without it.
pub(super) fn of_embedded(results: &Results, figure: Figure) -> Option<f64> {
    Some(results.value(System::Service, figure)? / results.value(System::Embedded, figure)?)
}

fn share(results: &Results, figure: Figure) -> Option<Goal> {
    let share = of_embedded(results, figure)?;
    Some(Goal {
        what: format!("{}, against {}", figure.label(), System::Embedded.label()),
        wanted: format!("at least {:.0} %", 100.0 * SHARE),
        measured: format!("{:.0} %", 100.0 * share),
        reached: share >= SHARE,
    })
}

fn more(results: &Results, theirs: Figure) -> Option<Goal> {
    let (peer, best) = best_peer(results, theirs)?;
    let ratio = results.value(System::Service, Figure::Put64)? / best;
    let ahead = if theirs == Figure::PutAhead64 { " with 16 sent ahead" } else { "" };
    Some(Goal {
        what: format!("{}, against {}{ahead}", Figure::Put64.label(), peer.label()),
        wanted: format!("at least {TIMES}x"),
        measured: ratio_text(ratio),
        reached: ratio >= TIMES,
    })
}

/// What the port for the beanstalkd protocol shall reach: the figure, of which peer, how many times.
const BEANSTALK: [(Figure, System, f64); 3] = [
    (Figure::Put64, System::Redis, 1.5),
    (Figure::Put64, System::Beanstalkd, 5.0),
    (Figure::PutAhead64, System::Redis, 1.0),
];

fn beanstalk_goals(results: &Results) -> impl Iterator<Item = Goal> {
    BEANSTALK.into_iter().filter_map(|(figure, peer, times)| {
        let ours = System::Beanstalk;
        let ratio = results.value(ours, figure)? / results.value(peer, figure)?;
        Some(Goal {
            what: format!("{}, {}, against {}", ours.label(), figure.label(), peer.label()),
            wanted: format!("at least {times}x"),
            measured: ratio_text(ratio),
            reached: ratio >= times,
        })
    })
}

fn under(results: &Results, figure: Figure, most: f64) -> Option<Goal> {
    let value = results.value(System::Service, figure)?;
    let unit = figure.unit();
    Some(Goal {
        what: figure.label().to_owned(),
        wanted: format!("under {most:.0} {}", unit.name()),
        measured: format!("{} {}", unit.text(value), unit.name()),
        reached: value < most,
    })
}

fn early(results: &Results) -> Option<Goal> {
    let early = results.value(System::Service, Figure::Early)?;
    Some(Goal {
        what: Figure::Early.label().to_owned(),
        wanted: "none".to_owned(),
        measured: Figure::Early.unit().text(early),
        reached: early == 0.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(figures: &[(System, Figure, f64)]) -> Vec<bool> {
        let mut results = Results::default();
        for &(system, figure, value) in figures {
            results.add(system, figure, value);
        }
        goals(&results).into_iter().map(|goal| goal.reached).collect()
    }

    #[test]
    fn nothing_measured_means_no_goals() {
        assert!(reached(&[]).is_empty());
        assert!(reached(&[(System::Redis, Figure::Put64, 100.0)]).is_empty());
    }

    #[test]
    fn the_best_peer_counts_and_those_who_send_ahead_apart() {
        let put = |ours| {
            reached(&[
                (System::Service, Figure::Put64, ours),
                (System::Embedded, Figure::Put64, 9_000.0),
                (System::Redis, Figure::Put64, 100.0),
                (System::Beanstalkd, Figure::Put64, 50.0),
                (System::Redis, Figure::PutAhead64, 200.0),
            ])
        };
        assert_eq!(put(149.0), [false, false]);
        assert_eq!(put(150.0), [true, false]);
        assert_eq!(put(300.0), [true, true]);
    }

    #[test]
    fn the_beanstalk_port_has_goals_of_its_own() {
        let put = |single, ahead| {
            reached(&[
                (System::Beanstalk, Figure::Put64, single),
                (System::Beanstalk, Figure::PutAhead64, ahead),
                (System::Redis, Figure::Put64, 100.0),
                (System::Redis, Figure::PutAhead64, 400.0),
                (System::Beanstalkd, Figure::Put64, 40.0),
            ])
        };
        assert_eq!(put(200.0, 400.0), [true, true, true]);
        assert_eq!(put(199.0, 399.0), [true, false, false]);
        assert_eq!(put(149.0, 399.0), [false, false, false]);
    }

    #[test]
    fn a_share_of_the_embedded_queue_is_wanted() {
        let batch = |ours| {
            reached(&[
                (System::Service, Figure::PutBatch64, ours),
                (System::Embedded, Figure::PutBatch64, 100.0),
            ])
        };
        assert_eq!((batch(60.0), batch(59.0)), (vec![true], vec![false]));
    }

    #[test]
    fn what_must_stay_under_is_not_reached_at_the_bound() {
        let idle = |percent| reached(&[(System::Service, Figure::Idle, percent)]);
        assert_eq!((idle(0.9), idle(1.0)), (vec![true], vec![false]));
        let early = |jobs| reached(&[(System::Service, Figure::Early, jobs)]);
        assert_eq!((early(0.0), early(1.0)), (vec![true], vec![false]));
    }
}
