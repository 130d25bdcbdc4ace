//! The figures of all rounds, and their medians.

use anyhow::{Context, Result};
use serde::Serialize;

use super::numbers::median;
use super::{Figure, Spec, System};

/// One figure of one system, round by round.
#[derive(Serialize)]
pub(super) struct Series {
    system: &'static str,
    /// The number of timers, in suites with several sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    timers: Option<usize>,
    figure: &'static str,
    unit: &'static str,
    /// The median of the rounds; the worst round of a figure that counts errors.
    value: f64,
    rounds: Vec<f64>,
}

/// Everything that was measured.
pub(crate) struct Results {
    pub(super) spec: &'static Spec,
    /// Smallest first.
    pub(crate) sizes: Vec<usize>,
    pub(super) series: Vec<Series>,
}

impl Results {
    pub(crate) fn new(spec: &'static Spec, sizes: Vec<usize>) -> Self {
        Self { spec, sizes, series: Vec::new() }
    }

    fn timers(&self, size: usize) -> Option<usize> {
        (self.sizes.len() > 1).then_some(size)
    }

    /// Adds the value of a round.
    pub(crate) fn add(
        &mut self,
        system: &'static System,
        size: usize,
        figure: &str,
        value: f64,
    ) -> Result<()> {
        let known = self.spec.figure(figure);
        let Figure { name: figure, unit, .. } =
            *known.with_context(|| format!("{} yields an unknown figure {figure}", system.name))?;
        let (system, timers) = (system.name, self.timers(size));
        let same = |it: &&mut Series| (it.system, it.timers, it.figure) == (system, timers, figure);
        let Some(series) = self.series.iter_mut().find(same) else {
            let (unit, rounds) = (unit.name(), vec![value]);
            self.series.push(Series { system, timers, figure, unit, value, rounds });
            return Ok(());
        };
        series.rounds.push(value);
        let is_count = unit.is_count();
        series.value = if is_count { series.value.max(value) } else { median(&series.rounds) };
        Ok(())
    }

    /// Returns a figure at the smallest size, if it was measured.
    pub(crate) fn value(&self, system: &str, figure: &str) -> Option<f64> {
        self.value_at(self.sizes[0], system, figure)
    }

    pub(crate) fn value_at(&self, size: usize, system: &str, figure: &str) -> Option<f64> {
        let timers = self.timers(size);
        let same = |it: &&Series| (it.system, it.timers, it.figure) == (system, timers, figure);
        self.series.iter().find(same).map(|series| series.value)
    }

    /// Returns how many times better our value is than a peer's; `None` for counts of errors and
    /// for zero.
    pub(super) fn advantage(figure: &Figure, ours: f64, theirs: f64) -> Option<f64> {
        let unit = figure.unit;
        (!unit.is_count() && ours > 0.0).then(|| unit.advantage(ours, theirs))
    }

    /// Returns the best of the peers among some systems.
    pub(super) fn best_peer(
        &self,
        size: usize,
        systems: &[&'static System],
        figure: &Figure,
    ) -> Option<(&'static System, f64)> {
        let peers = systems.iter().filter(|system| system.peer.is_some());
        let values =
            peers.filter_map(|peer| Some((*peer, self.value_at(size, peer.name, figure.name)?)));
        values.max_by(|(_, one), (_, other)| figure.unit.advantage(*one, *other).total_cmp(&1.0))
    }

    /// Returns the systems that have any results.
    pub(super) fn measured(&self, systems: &[&'static System]) -> Vec<&'static System> {
        let has = |system: &&&System| self.series.iter().any(|it| it.system == system.name);
        systems.iter().filter(has).copied().collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Results of a suite, from one value for each pair of a system and a figure.
    pub(crate) fn results(suite: &str, values: &[(&str, &str, f64)]) -> Results {
        let named = crate::SUITES.iter().map(|suite| suite.spec()).find(|it| it.name == suite);
        let mut results = Results::new(named.unwrap(), vec![0]);
        for &(system, figure, value) in values {
            results.add(results.spec.system(system).unwrap(), 0, figure, value).unwrap();
        }
        results
    }

    #[test]
    fn the_median_counts_but_of_early_timers_the_worst() {
        let rounds = [0.0, 3.0, 1.0];
        let of = |figure: &'static str| rounds.map(|value| ("tickwheel", figure, value));
        let results = results("timer", &[of("fire-cpu"), of("fire-early")].concat());
        assert_eq!(results.value("tickwheel", "fire-cpu"), Some(1.0));
        assert_eq!(results.value("tickwheel", "fire-early"), Some(3.0));
        assert_eq!(results.value("netty", "fire-early"), None);
        assert_eq!(results.measured(&results.spec.systems_of(&[])).len(), 1);
    }

    #[test]
    fn an_unknown_figure_is_an_error() {
        let mut results = results("timer", &[]);
        assert!(results.add(&results.spec.systems[0], 0, "fire-gpu", 1.0).is_err());
    }

    #[test]
    fn the_best_peer_has_the_most_jobs_or_the_least_lateness() {
        let values = [("tickwheel", 9.0), ("redis-always", 3.0), ("postgresql-on", 2.0)];
        for (figure, best) in [("late-p99", "postgresql-on"), ("put64", "redis-always")] {
            let results = results("queue", &values.map(|(system, it)| (system, figure, it)));
            let spec = results.spec;
            let found = results.best_peer(0, &spec.systems_of(&[]), spec.figure(figure).unwrap());
            assert_eq!(found.unwrap().0.name, best);
        }
    }
}
