//! What the queue is meant to reach, and whether it did.
//!
//! A goal that needs a figure which was not measured is left out.

use super::Results;
use super::figure::Figure;
use super::ours::CACHE;
use super::system::{Class, System};
use crate::report::goal::Goal;
use crate::report::numbers::ratio_text;
use crate::report::results::{Measured, Named};

/// How many times the best peer's figure ours shall be, of those that answer alike.
const MORE: [(Class, Figure, f64); 6] = [
    (Class::Synced, Figure::Put64, 2.0),
    (Class::Synced, Figure::PutBatch64, 2.0),
    (Class::Synced, Figure::EndToEnd, 2.0),
    (Class::Relaxed, Figure::Put64, 2.0),
    (Class::Relaxed, Figure::PutBatch64, 2.0),
    (Class::Relaxed, Figure::EndToEnd, 2.0),
];

/// Jobs a second that are put in batches and are durable when answered.
const BATCHED: f64 = 100_000.0;

/// What a figure of ours must stay under.
const UNDER: [(System, Figure, f64); 3] = [
    (System::TickwheelInterval, Figure::Restart, 2.0),
    (System::TickwheelInterval, Figure::RestartMany, 5.0),
    (System::Tickwheel, Figure::LateP99, 5.0),
];

/// Mebibytes beyond the cache that may be resident.
const MEMORY: f64 = 200.0;

/// All goals that the results can answer.
pub(super) fn goals(results: &Results) -> Vec<Goal> {
    let more =
        MORE.iter().filter_map(|&(class, figure, times)| more(results, class, figure, times));
    let under = UNDER.iter().filter_map(|&(system, figure, most)| {
        let value = results.value(system, figure)?;
        let unit = figure.unit();
        Some(Goal {
            what: figure.label().to_owned(),
            wanted: format!("under {most:.0} {}", unit.name()),
            measured: format!("{} {}", unit.text(value), unit.name()),
            reached: value < most,
        })
    });
    more.chain(batched(results)).chain(under).chain(memory(results)).chain(early(results)).collect()
}

/// The peer of a class with the best figure.
pub(super) fn best_peer(results: &Results, class: Class, figure: Figure) -> Option<(System, f64)> {
    let peers = System::ALL.into_iter().filter(|it| it.class() == class && !it.is_ours());
    let values = peers.filter_map(|peer| Some((peer, results.value(peer, figure)?)));
    let advantage = |(_, one): &(_, f64), (_, other): &(_, f64)| {
        figure.unit().advantage(*one, *other).total_cmp(&1.0)
    };
    values.max_by(advantage)
}

fn more(results: &Results, class: Class, figure: Figure, times: f64) -> Option<Goal> {
    let (peer, theirs) = best_peer(results, class, figure)?;
    let ours = class.ours();
    let ratio = figure.unit().advantage(results.value(ours, figure)?, theirs);
    Some(Goal {
        what: format!("{}: {}, against {}", ours.label(), figure.label(), peer.label()),
        wanted: format!("at least {times:.0}x"),
        measured: ratio_text(ratio),
        reached: ratio >= times,
    })
}

fn batched(results: &Results) -> Option<Goal> {
    let (system, figure) = (System::Tickwheel, Figure::PutBatch64);
    let value = results.value(system, figure)?;
    Some(Goal {
        what: format!("{}: {}", system.label(), figure.label()),
        wanted: format!("at least {} jobs/s", figure.unit().text(BATCHED)),
        measured: format!("{} jobs/s", figure.unit().text(value)),
        reached: value >= BATCHED,
    })
}

fn memory(results: &Results) -> Option<Goal> {
    let of = |figure| results.value(System::TickwheelInterval, figure);
    let resident = of(Figure::MemoryMany)?.max(of(Figure::MemoryManyAgain)?);
    let beyond = resident - CACHE as f64 / f64::from(1 << 20);
    Some(Goal {
        what: "memory with 10M pending, beyond the cache".to_owned(),
        wanted: format!("at most {MEMORY:.0} MiB"),
        measured: format!("{beyond:.0} MiB"),
        reached: beyond <= MEMORY,
    })
}

fn early(results: &Results) -> Option<Goal> {
    let early = results.value(System::Tickwheel, Figure::Early)?;
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
        assert!(reached(&[(System::RedisAlways, Figure::Put64, 100.0)]).is_empty());
    }

    #[test]
    fn the_best_peer_of_the_same_class_counts() {
        let put = |ours| {
            reached(&[
                (System::Tickwheel, Figure::Put64, ours),
                (System::RedisAlways, Figure::Put64, 100.0),
                (System::BeanstalkdF0, Figure::Put64, 50.0),
                (System::RedisEverysec, Figure::Put64, 10_000.0),
            ])
        };
        assert_eq!(put(200.0), [true]);
        assert_eq!(put(199.0), [false]);
    }

    #[test]
    fn the_least_lateness_is_the_best() {
        let mut results = Results::default();
        results.add(System::RedisAlways, Figure::LateP99, 3.0);
        results.add(System::PostgresqlOn, Figure::LateP99, 2.0);
        let best = best_peer(&results, Class::Synced, Figure::LateP99);
        assert_eq!(best, Some((System::PostgresqlOn, 2.0)));
    }

    #[test]
    fn the_cache_does_not_count_and_one_early_job_is_too_many() {
        let ours = System::TickwheelInterval;
        let memory = |again| {
            reached(&[(ours, Figure::MemoryMany, 9.0), (ours, Figure::MemoryManyAgain, again)])
        };
        assert_eq!((memory(232.0), memory(233.0)), (vec![true], vec![false]));
        let early = |jobs| reached(&[(System::Tickwheel, Figure::Early, jobs)]);
        assert_eq!((early(0.0), early(1.0)), (vec![true], vec![false]));
    }
}
