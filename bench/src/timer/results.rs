//! The figures of all rounds, and what they come to.

use serde::Serialize;

use super::figure::Figure;
use super::system::System;
use crate::report::numbers::median;

/// One figure of one system, round by round.
#[derive(Serialize)]
struct Series {
    system: System,
    figure: Figure,
    unit: &'static str,
    /// The median of the rounds, or their worst where the worst counts.
    value: f64,
    rounds: Vec<f64>,
}

/// Everything that was measured.
#[derive(Default, Serialize)]
pub(super) struct Results {
    series: Vec<Series>,
}

impl Results {
    /// Adds what a round yielded.
    pub(super) fn add(&mut self, system: System, figure: Figure, value: f64) {
        let same = |series: &&mut Series| (series.system, series.figure) == (system, figure);
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
    pub(super) fn value(&self, system: System, figure: Figure) -> Option<f64> {
        let same = |series: &&Series| (series.system, series.figure) == (system, figure);
        self.series.iter().find(same).map(|series| series.value)
    }

    pub(super) fn has(&self, figure: Figure) -> bool {
        self.series.iter().any(|series| series.figure == figure)
    }

    /// The systems of which anything was measured.
    pub(super) fn systems(&self) -> Vec<System> {
        let measured = |system: &System| self.series.iter().any(|series| series.system == *system);
        System::ALL.into_iter().filter(measured).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts_but_of_early_timers_the_worst() {
        let mut results = Results::default();
        for value in [0.0, 3.0, 1.0] {
            results.add(System::Go, Figure::FireCpu, value);
            results.add(System::Go, Figure::FireEarly, value);
        }
        assert_eq!(results.value(System::Go, Figure::FireCpu), Some(1.0));
        assert_eq!(results.value(System::Go, Figure::FireEarly), Some(3.0));
        assert_eq!(results.value(System::Netty, Figure::FireEarly), None);
    }
}
