//! The small timing wheel: a ring for each level, with ticks where slots hold jobs.
//!
//! Time goes clockwise from the top. Each ring has a hand where its present is. A tick is the
//! longer, the more jobs its slot holds.

use std::f64::consts::TAU;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::symbols::Marker;
use ratatui::widgets::Block;
use ratatui::widgets::canvas::{Canvas, Circle, Context, Line};
use tickwheel_api::{Wheel, WheelLevel};

use super::theme::{Theme, Tone};

/// Rings that are told apart on a small drawing.
const MAX_RINGS: usize = 3;
/// The radius of the innermost ring, and the distance of the next ones; the drawing has radius 1.
const INNER: f64 = 0.34;
const STEP: f64 = 0.28;
/// The longest tick.
const LONGEST_TICK: f64 = 0.2;

pub(super) fn draw(frame: &mut Frame, area: Rect, wheel: &Wheel, theme: Theme, block: Block) {
    let inner = block.inner(area);
    // A cell has 2 by 4 dots, which are about square.
    let width = f64::from(inner.width) * 2.0 / (f64::from(inner.height) * 4.0).max(1.0);
    let canvas = Canvas::default()
        .block(block)
        .marker(Marker::Braille)
        .x_bounds([-1.05 * width, 1.05 * width])
        .y_bounds([-1.05, 1.05])
        .paint(|context| rings(context, wheel, theme));
    frame.render_widget(canvas, area);
}

fn rings(context: &mut Context, wheel: &Wheel, theme: Theme) {
    let mut radius = INNER;
    for level in wheel.levels.iter().take(MAX_RINGS) {
        let color = theme.colour(Tone::Faint);
        context.draw(&Circle { x: 0.0, y: 0.0, radius, color });
        ticks(context, level, radius, theme);
        let hand = theme.colour(Tone::Good);
        spoke(context, level, level.position, (radius - STEP / 2.0, radius), hand);
        radius += STEP;
    }
}

fn ticks(context: &mut Context, level: &WheelLevel, radius: f64, theme: Theme) {
    let counts = level.jobs.iter().zip(&level.leases);
    for (slot, (jobs, leases)) in level.occupied.iter().zip(counts) {
        let length = tick_length(jobs + leases);
        let tone = if *jobs > 0 { Tone::Accent } else { Tone::Warning };
        spoke(context, level, *slot, (radius, radius + length), theme.colour(tone));
    }
}

/// The length of a tick: a part of the longest for each power of four.
fn tick_length(jobs: u64) -> f64 {
    let steps = f64::from(jobs.max(1).ilog2() / 2 + 1);
    (LONGEST_TICK * steps / 6.0).min(LONGEST_TICK)
}

/// Draws from the inner to the outer radius at the angle of a slot.
fn spoke(
    context: &mut Context,
    level: &WheelLevel,
    slot: u32,
    (from, to): (f64, f64),
    color: ratatui::style::Color,
) {
    let (sin, cos) = (TAU * f64::from(slot) / f64::from(level.slots.max(1))).sin_cos();
    context.draw(&Line { x1: sin * from, y1: cos * from, x2: sin * to, y2: cos * to, color });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_grow_with_jobs_up_to_a_bound() {
        assert!(tick_length(1) < tick_length(5) && tick_length(5) < tick_length(100));
        assert!((tick_length(u64::MAX) - LONGEST_TICK).abs() < f64::EPSILON);
    }
}
