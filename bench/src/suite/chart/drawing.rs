//! Lays a chart out from top to bottom: every part moves one cursor down.

use std::fmt::{self, Write};

use super::axis::Axis;
use super::{Bar, Chart, Group, Panel, escape};

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 28.0;
/// Where bars begin and where the longest one ends.
pub(super) const LEFT: f64 = 196.0;
pub(super) const RIGHT: f64 = 868.0;
const BAR: f64 = 12.0;
const BAR_GAP: f64 = 2.0;
const GROUP_GAP: f64 = 14.0;

/// The number of colours; further systems repeat them.
const COLOURS: usize = 6;

/// The SVG elements so far, and the cursor.
pub(super) struct Drawing {
    body: String,
    y: f64,
}

impl Drawing {
    /// Draws the whole chart.
    pub(super) fn of(chart: &Chart) -> Result<Self, fmt::Error> {
        let mut drawing = Self::at(MARGIN + 14.0);
        drawing.heading(chart)?;
        drawing.legend(chart)?;
        for panel in chart.panels.iter().filter(|panel| !panel.groups.is_empty()) {
            drawing.panel(panel)?;
        }
        drawing.caption(&chart.caption)?;
        Ok(drawing)
    }

    /// Returns an empty drawing with the cursor at `y`.
    fn at(y: f64) -> Self {
        Self { body: String::new(), y }
    }

    pub(super) fn body(&self) -> &str {
        &self.body
    }

    /// Returns the width and height of the page.
    pub(super) fn size(&self) -> (f64, f64) {
        (WIDTH, self.y + MARGIN - 10.0)
    }

    fn text(&mut self, class: &str, x: f64, y: f64, anchor: &str, text: &str) -> fmt::Result {
        let text = escape(text);
        writeln!(
            self.body,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        )
    }

    fn heading(&mut self, chart: &Chart) -> fmt::Result {
        self.text("title", MARGIN, self.y, "start", &chart.title)?;
        self.y += 22.0;
        self.text("note", MARGIN, self.y, "start", &chart.subtitle)?;
        self.y += 26.0;
        Ok(())
    }

    fn legend(&mut self, chart: &Chart) -> fmt::Result {
        let mut x = MARGIN;
        for (system, name) in chart.systems.iter().enumerate() {
            let class = colour(system);
            let top = self.y - 10.0;
            writeln!(
                self.body,
                r#"<rect class="{class}" x="{x:.1}" y="{top:.1}" width="12" height="12" rx="2"/>"#
            )?;
            self.text("key", x + 18.0, self.y, "start", name)?;
            x += 38.0 + 6.6 * name.chars().count() as f64;
        }
        if let Some(marked) = &chart.marked {
            self.y += 20.0;
            self.mark(MARGIN + 6.0, self.y - 4.0)?;
            self.text("key", MARGIN + 18.0, self.y, "start", marked)?;
        }
        self.y += 32.0;
        Ok(())
    }

    fn panel(&mut self, panel: &Panel) -> fmt::Result {
        self.text("heading", MARGIN, self.y, "start", &panel.title)?;
        let axis = Axis::of(panel);
        self.y += 24.0;
        let top = self.y;
        self.y += 8.0;
        let mut bars = Self::at(self.y);
        for group in &panel.groups {
            bars.group(group, &axis)?;
        }
        for (tick, label) in axis.ticks() {
            let x = axis.place(tick);
            let bottom = bars.y - GROUP_GAP + 4.0;
            writeln!(self.body, r#"<path class="grid" d="M{x:.1} {top:.1}V{bottom:.1}"/>"#)?;
            self.text("axis", x, top - 4.0, "middle", &label)?;
        }
        self.body += &bars.body;
        self.y = bars.y + 18.0;
        Ok(())
    }

    fn group(&mut self, group: &Group, axis: &Axis) -> fmt::Result {
        let shown = group.bars.iter().flatten().count() as f64;
        let height = shown * (BAR + BAR_GAP) - BAR_GAP;
        self.text("group", LEFT - 12.0, self.y + height / 2.0 + 4.5, "end", &group.label)?;
        for (system, bar) in group.bars.iter().enumerate() {
            if let Some(bar) = bar {
                self.bar(system, bar, axis)?;
            }
        }
        self.y += GROUP_GAP - BAR_GAP;
        Ok(())
    }

    fn bar(&mut self, system: usize, bar: &Bar, axis: &Axis) -> fmt::Result {
        let end = axis.place(bar.value).max(LEFT + 2.0);
        let (class, width, y) = (colour(system), end - LEFT, self.y);
        writeln!(
            self.body,
            r#"<rect class="{class}" x="{LEFT}" y="{y:.1}" width="{width:.1}" height="{BAR}" rx="2"/>"#
        )?;
        let mut number_at = end + 6.0;
        let number_width = 7.0 * bar.text.chars().count() as f64;
        if let Some(mark) = bar.mark {
            let x = axis.place(mark);
            self.mark(x, self.y + BAR / 2.0)?;
            if x + 6.0 > end && x - 6.0 < number_at + number_width {
                number_at = number_at.max(x + 9.0);
            }
        }
        let number = if system == 0 { "number first" } else { "number" };
        self.text(number, number_at, self.y + BAR - 2.2, "start", &bar.text)?;
        self.y += BAR + BAR_GAP;
        Ok(())
    }

    fn mark(&mut self, x: f64, y: f64) -> fmt::Result {
        writeln!(
            self.body,
            r#"<path class="mark" d="M{x:.1} {:.1}l4.5 4.5l-4.5 4.5l-4.5 -4.5z"/>"#,
            y - 4.5
        )
    }

    fn caption(&mut self, lines: &[String]) -> fmt::Result {
        for line in lines {
            for part in wrap(line, 150) {
                self.text("note", MARGIN, self.y, "start", &part)?;
                self.y += 16.0;
            }
        }
        Ok(())
    }
}

fn colour(system: usize) -> String {
    format!("s{}", system % COLOURS)
}

/// Cuts a line into parts of at most `width` characters, between words.
fn wrap(line: &str, width: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    for word in line.split_whitespace() {
        let part = parts.last_mut().expect("there is always a part");
        if part.is_empty() {
            word.clone_into(part);
        } else if part.chars().count() + 1 + word.chars().count() <= width {
            *part += " ";
            *part += word;
        } else {
            parts.push(word.to_owned());
        }
    }
    parts
}
