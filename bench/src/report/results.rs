//! The figures of all rounds, and what they come to.

use serde::Serialize;

use super::numbers::median;
use super::unit::Unit;

/// A system under test, as a table names it.
pub(crate) trait Named: Copy + PartialEq + Serialize {
    fn label(self) -> &'static str;
}

/// What is measured: one row of a table.
pub(crate) trait Measured: Named {
    fn unit(self) -> Unit;

    /// Whether the worst round counts instead of the median: once is too often.
    fn worst_counts(self) -> bool {
        false
    }
}

/// One figure of one system, round by round.
#[derive(Serialize)]
struct Series<S, F> {
    system: S,
    figure: F,
    unit: &'static str,
    /// The median of the rounds, or their worst where the worst counts.
    value: f64,
    rounds: Vec<f64>,
}

/// Everything that was measured.
#[derive(Serialize)]
pub(crate) struct Results<S, F> {
    series: Vec<Series<S, F>>,
}

impl<S, F> Default for Results<S, F> {
    fn default() -> Self {
        Self { series: Vec::new() }
    }
}

impl<S: Named, F: Measured> Results<S, F> {
    /// Adds what a round yielded.
    pub(crate) fn add(&mut self, system: S, figure: F, value: f64) {
        let same = |series: &&mut Series<S, F>| series.system == system && series.figure == figure;
        if let Some(series) = self.series.iter_mut().find(same) {
            series.rounds.push(value);
            series.value = if figure.worst_counts() {
                series.value.max(value)
            } else {
                median(&series.rounds)
            };
        } else {
            let unit = figure.unit().name();
            self.series.push(Series { system, figure, unit, value, rounds: vec![value] });
        }
    }

    /// What a figure comes to, if it was measured.
    pub(crate) fn value(&self, system: S, figure: F) -> Option<f64> {
        let same = |series: &&Series<S, F>| series.system == system && series.figure == figure;
        self.series.iter().find(same).map(|series| series.value)
    }

    /// How many times our figure a peer's is, where that says something.
    pub(crate) fn ratio(&self, ours: S, peer: S, figure: F) -> Option<f64> {
        let (ours, theirs) = (self.value(ours, figure)?, self.value(peer, figure)?);
        (!matches!(figure.unit(), Unit::Timers | Unit::Jobs) && ours > 0.0).then(|| theirs / ours)
    }

    pub(crate) fn has(&self, figure: F) -> bool {
        self.series.iter().any(|series| series.figure == figure)
    }

    /// Those of the systems of which anything was measured.
    pub(crate) fn measured(&self, all: &[S]) -> Vec<S> {
        let measured = |system: &S| self.series.iter().any(|series| series.system == *system);
        all.iter().copied().filter(measured).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Serialize)]
    pub(in crate::report) enum System {
        Ours,
        Theirs,
    }

    impl Named for System {
        fn label(self) -> &'static str {
            match self {
                Self::Ours => "ours",
                Self::Theirs => "theirs",
            }
        }
    }

    #[derive(Clone, Copy, PartialEq, Serialize)]
    pub(in crate::report) enum Figure {
        Fire,
        Early,
    }

    impl Named for Figure {
        fn label(self) -> &'static str {
            match self {
                Self::Fire => "fire",
                Self::Early => "early",
            }
        }
    }

    impl Measured for Figure {
        fn unit(self) -> Unit {
            match self {
                Self::Fire => Unit::Nanoseconds,
                Self::Early => Unit::Timers,
            }
        }

        fn worst_counts(self) -> bool {
            self == Self::Early
        }
    }

    #[test]
    fn the_median_counts_but_of_early_timers_the_worst() {
        let mut results = Results::default();
        for value in [0.0, 3.0, 1.0] {
            results.add(System::Ours, Figure::Fire, value);
            results.add(System::Ours, Figure::Early, value);
        }
        assert_eq!(results.value(System::Ours, Figure::Fire), Some(1.0));
        assert_eq!(results.value(System::Ours, Figure::Early), Some(3.0));
        assert_eq!(results.value(System::Theirs, Figure::Early), None);
        assert!(results.measured(&[System::Theirs, System::Ours]) == [System::Ours]);
    }

    #[test]
    fn there_is_a_ratio_where_it_says_something() {
        let mut results = Results::default();
        for (system, fire) in [(System::Ours, 100.0), (System::Theirs, 150.0)] {
            results.add(system, Figure::Fire, fire);
            results.add(system, Figure::Early, fire);
        }
        assert_eq!(results.ratio(System::Ours, System::Theirs, Figure::Fire), Some(1.5));
        assert_eq!(results.ratio(System::Ours, System::Theirs, Figure::Early), None);
    }
}
