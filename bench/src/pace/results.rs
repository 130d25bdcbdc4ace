//! The figures of all rounds, and their medians.

use serde::Serialize;

use super::figure::{Figure, System};
use crate::report::numbers::median;

/// One figure of one system, round by round.
#[derive(Serialize)]
struct Series {
    system: System,
    figure: Figure,
    unit: &'static str,
    median: f64,
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
            series.median = median(&series.rounds);
        } else {
            let (unit, rounds) = (figure.unit(), vec![value]);
            self.series.push(Series { system, figure, unit, median: value, rounds });
        }
    }

    /// The median of a figure, if it was measured.
    pub(super) fn median(&self, system: System, figure: Figure) -> Option<f64> {
        let same = |series: &&Series| (series.system, series.figure) == (system, figure);
        self.series.iter().find(same).map(|series| series.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_rounds_counts() {
        let mut results = Results::default();
        for value in [3.0, 1.0, 2.0] {
            results.add(System::Tickwheel, Figure::Wait, value);
        }
        assert_eq!(results.median(System::Tickwheel, Figure::Wait), Some(2.0));
        assert_eq!(results.median(System::Governor, Figure::Wait), None);
    }
}
