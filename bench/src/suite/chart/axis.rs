//! Maps values to positions on the page.

use super::drawing::{LEFT, RIGHT};
use super::{Panel, Scale};

/// An axis between `LEFT` and `RIGHT`. A logarithmic axis begins at 1.
pub(super) struct Axis {
    scale: Scale,
    most: f64,
}

impl Axis {
    pub(super) fn of(panel: &Panel) -> Self {
        let bars = panel.groups.iter().flat_map(|group| group.bars.iter().flatten());
        let values = bars.flat_map(|bar| std::iter::once(bar.value).chain(bar.mark));
        let most = values.fold(10.0, f64::max);
        Self { scale: panel.scale, most }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => value / self.most,
            Scale::Logarithmic => value.max(1.0).log10() / self.most.log10(),
        };
        LEFT + share * (RIGHT - LEFT)
    }

    /// Returns the values with a grid line, and their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let ticks: Vec<f64> = match self.scale {
            Scale::Linear => {
                let step = round_step(self.most / 5.0);
                (0..=5).map(|n| f64::from(n) * step).collect()
            }
            Scale::Logarithmic => (0..8).map(|n| 10_f64.powi(n)).collect(),
        };
        ticks
            .into_iter()
            .filter(|&tick| tick <= self.most)
            .map(|tick| (tick, tick.to_string()))
            .collect()
    }
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let decade = 10_f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|digit| digit * decade)
        .into_iter()
        .find(|&round| round >= step)
        .unwrap_or(step)
}
