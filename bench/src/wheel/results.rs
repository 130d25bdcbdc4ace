//! The figures of all rounds, and their medians.

use serde::Serialize;

use super::system::System;
use super::workload::Figure;
use crate::report::numbers::median;

/// One figure of one system, round by round.
#[derive(Serialize)]
pub(super) struct Series {
    pub(super) system: System,
    pub(super) timers: usize,
    pub(super) figure: Figure,
    pub(super) unit: &'static str,
    pub(super) median: f64,
    pub(super) rounds: Vec<f64>,
}

/// Everything that was measured.
#[derive(Default, Serialize)]
pub(super) struct Results {
    series: Vec<Series>,
}

impl Results {
    /// Adds what a round yielded.
    pub(super) fn add(&mut self, system: System, timers: usize, figure: Figure, value: f64) {
        let same = |series: &&mut Series| {
            (series.system, series.timers, series.figure) == (system, timers, figure)
        };
        if let Some(series) = self.series.iter_mut().find(same) {
            series.rounds.push(value);
            series.median = median(&series.rounds);
        } else {
            let unit = figure.unit().name();
            let rounds = vec![value];
            self.series.push(Series { system, timers, figure, unit, median: value, rounds });
        }
    }

    pub(super) fn series(&self) -> &[Series] {
        &self.series
    }

    /// The median of a figure, if it was measured.
    pub(super) fn median(&self, system: System, timers: usize, figure: Figure) -> Option<f64> {
        self.series
            .iter()
            .find(|series| {
                (series.system, series.timers, series.figure) == (system, timers, figure)
            })
            .map(|series| series.median)
    }

    /// The peer with the smallest figure.
    pub(super) fn best_peer(&self, timers: usize, figure: Figure) -> Option<(System, f64)> {
        System::ALL
            .into_iter()
            .filter(|system| !system.is_ours())
            .filter_map(|peer| Some((peer, self.median(peer, timers, figure)?)))
            .min_by(|(_, one), (_, other)| one.total_cmp(other))
    }
}
