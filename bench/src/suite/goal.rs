//! Goals, and whether the results reach them.

use serde::Serialize;

use super::numbers::ratio_text;
use super::results::Results;
use super::table::Table;
use super::{Figure, Spec, System};

/// A bound or ratio that a figure of one of our systems should reach.
pub(crate) struct Goal {
    system: &'static str,
    figure: &'static str,
    wanted: Wanted,
}

enum Wanted {
    /// A value that satisfies a comparison with a bound. The text names the comparison.
    Bound(&'static str, f64, fn(&f64, &f64) -> bool),
    /// At least this many times better than a figure of a system; without a system, than the best
    /// peer in the same table.
    Times(f64, Option<&'static str>, &'static str),
}

/// Sets goals for a system.
#[derive(Clone, Copy)]
pub(crate) struct Of(pub(crate) &'static str);

impl Of {
    pub(crate) const fn at_most(self, figure: &'static str, most: f64) -> Goal {
        Goal { system: self.0, figure, wanted: Wanted::Bound("at most", most, f64::le) }
    }

    pub(crate) const fn under(self, figure: &'static str, bound: f64) -> Goal {
        Goal { system: self.0, figure, wanted: Wanted::Bound("under", bound, f64::lt) }
    }

    pub(crate) const fn at_least(self, figure: &'static str, least: f64) -> Goal {
        Goal { system: self.0, figure, wanted: Wanted::Bound("at least", least, f64::ge) }
    }

    /// Compares the same figure of two systems.
    pub(crate) const fn times(self, figure: &'static str, times: f64, peer: &'static str) -> Goal {
        self.times_other(figure, times, peer, figure)
    }

    /// Compares a figure with another one.
    pub(crate) const fn times_other(
        self,
        figure: &'static str,
        times: f64,
        peer: &'static str,
        other: &'static str,
    ) -> Goal {
        Goal { system: self.0, figure, wanted: Wanted::Times(times, Some(peer), other) }
    }

    /// Compares with the peer that is best at a figure.
    pub(crate) const fn times_best(
        self,
        figure: &'static str,
        times: f64,
        other: &'static str,
    ) -> Goal {
        Goal { system: self.0, figure, wanted: Wanted::Times(times, None, other) }
    }
}

/// A goal and what was measured.
#[derive(Serialize)]
pub(crate) struct Verdict {
    pub(crate) what: String,
    pub(crate) wanted: String,
    pub(crate) measured: String,
    pub(crate) reached: bool,
}

impl Verdict {
    /// Judges a ratio that should be at least `times`.
    pub(crate) fn ratio(what: String, times: f64, ratio: f64) -> Self {
        let (wanted, measured) = (format!("at least {times}x"), ratio_text(ratio));
        Self { what, wanted, measured, reached: ratio >= times }
    }
}

impl Goal {
    /// Returns the verdict, if all that the goal needs was measured.
    pub(super) fn check(&self, results: &Results) -> Option<Verdict> {
        let spec = results.spec;
        let (system, figure) = (spec.system(self.system)?, spec.figure(self.figure)?);
        let value = results.value(self.system, self.figure)?;
        let what = self.what(spec, system, figure);
        Some(match self.wanted {
            Wanted::Bound(word, bound, holds) => {
                let (unit, text) = (figure.unit.name(), figure.unit.text(value));
                let reached = holds(&value, &bound);
                let bound = if bound.fract() == 0.0 && bound < 1_000.0 {
                    bound.to_string()
                } else {
                    figure.unit.text(bound)
                };
                let wanted = format!("{word} {bound} {unit}");
                Verdict { what, wanted, measured: format!("{text} {unit}"), reached }
            }
            Wanted::Times(times, peer, other) => {
                let (peer, theirs) = match peer {
                    Some(name) => (spec.system(name)?, results.value(name, other)?),
                    None => self.best_peer(results, other)?,
                };
                let against = against(spec, system, figure, peer, other)?;
                let ratio = Results::advantage(figure, value, theirs)?;
                Verdict::ratio(format!("{what}, against {against}"), times, ratio)
            }
        })
    }

    /// Returns the best peer in the table of this goal's system.
    fn best_peer(&self, results: &Results, figure: &str) -> Option<(&'static System, f64)> {
        let spec = results.spec;
        let mut tables = spec.sections.iter().map(|it| spec.systems_of(it.systems));
        let table = tables.find(|all| all.iter().any(|it| it.name == self.system))?;
        results.best_peer(results.sizes[0], &table, spec.figure(figure)?)
    }

    /// Names the figure, and the system unless it is the one that goals are usually about.
    fn what(&self, spec: &Spec, system: &System, figure: &Figure) -> String {
        if self.system == spec.systems[0].name {
            return figure.label.to_owned();
        }
        format!("{}: {}", system.label, figure.label)
    }

    #[cfg(test)]
    pub(super) fn systems(&self) -> Vec<&'static str> {
        match self.wanted {
            Wanted::Times(_, Some(peer), _) => vec![self.system, peer],
            _ => vec![self.system],
        }
    }

    #[cfg(test)]
    pub(super) fn figures(&self) -> Vec<&'static str> {
        match self.wanted {
            Wanted::Times(_, _, other) => vec![self.figure, other],
            Wanted::Bound(..) => vec![self.figure],
        }
    }
}

/// Names the other side of a comparison by what differs: its system, its figure, or both.
fn against(
    spec: &Spec,
    system: &System,
    figure: &Figure,
    peer: &System,
    other: &str,
) -> Option<String> {
    let other = spec.figure(other)?;
    Some(match (system.name == peer.name, figure.name == other.name) {
        (true, _) => other.label.to_owned(),
        (false, true) => peer.label.to_owned(),
        (false, false) => format!("{} ({})", peer.label, other.label),
    })
}

/// Returns a table with one row a goal.
pub(super) fn table(verdicts: &[Verdict]) -> Table {
    let head = ["goal", "wanted", "measured", ""];
    let mut table = Table::new(head.map(String::from).to_vec());
    for Verdict { what, wanted, measured, reached } in verdicts {
        let verdict = if *reached { "reached" } else { "MISSED" };
        table.row([what, wanted, measured, verdict].map(ToString::to_string).into());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use crate::SUITES;

    fn verdicts(suite: &str, values: &[(&str, &str, f64)]) -> Vec<(String, bool)> {
        let results = results(suite, values);
        let all = results.spec.goals.iter().filter_map(|goal| goal.check(&results));
        all.map(|verdict| (verdict.what, verdict.reached)).collect()
    }

    fn reached(suite: &str, values: &[(&str, &str, f64)]) -> Vec<bool> {
        verdicts(suite, values).into_iter().map(|(_, reached)| reached).collect()
    }

    #[test]
    fn nothing_measured_means_no_goals() {
        for suite in SUITES {
            assert!(verdicts(suite.spec().name, &[]).is_empty());
        }
        assert!(verdicts("timer", &[("netty", "schedule-cpu", 100.0)]).is_empty());
    }

    #[test]
    fn a_ratio_is_reached_at_its_limit_and_not_below() {
        let cancel = |ours| {
            let theirs = ("netty-parallel", "cancel-wall", 150.0);
            verdicts("timer", &[("tickwheel", "cancel-wall", ours), theirs])
        };
        let what = || String::from("cancel, wall, against Netty, parallel GC");
        assert_eq!(cancel(100.0), [(what(), true)]);
        assert_eq!(cancel(101.0), [(what(), false)]);
    }

    #[test]
    fn a_figure_is_compared_with_another_one() {
        let two = ("tickwheel", "two-producers-wall", 60.0);
        let found = verdicts("timer", &[("tickwheel", "schedule-wall", 100.0), two]);
        assert_eq!(found, [(String::from("two producers, wall, against schedule, wall"), false)]);
        let churn = ("netty", "churn-cpu", 1_300.0);
        let found = verdicts("timer", &[("tickwheel", "reset-cpu", 100.0), churn]);
        let what = "reset, against Netty (churn: cancel and schedule)";
        assert_eq!(found, [(what.to_owned(), true)]);
    }

    #[test]
    fn the_best_peer_of_the_same_table_counts() {
        let put = |ours| {
            let values = [
                ("tickwheel", "put64", ours),
                ("redis-always", "put64", 100.0),
                ("beanstalkd-f0", "put64", 50.0),
                ("redis-everysec", "put64", 10_000.0),
            ];
            reached("queue", &values)
        };
        assert_eq!((put(200.0), put(199.0)), (vec![true], vec![false]));
    }

    #[test]
    fn bounds_hold_at_most_but_not_under() {
        let one = |suite, figure, value| {
            let mut specs = SUITES.iter().map(|it| it.spec());
            let first = specs.find(|it| it.name == suite).unwrap().systems[0].name;
            reached(suite, &[(first, figure, value)])
        };
        assert_eq!(one("timer", "memory", 56.0), [true]);
        assert_eq!(one("timer", "fire-early", 1.0), [false]);
        assert_eq!(one("pace", "both-known", 499.0), [true]);
        assert_eq!(one("pace", "both-known", 500.0), [false]);
        assert_eq!(one("server", "idle", 1.0), [false]);
        assert_eq!(one("queue", "put-batch64", 100_000.0), [true]);
    }
}
