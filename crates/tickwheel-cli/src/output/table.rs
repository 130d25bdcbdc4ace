//! Tables whose columns line up.
//!
//! A cell is plain text with an optional style, which does not count in widths. Columns are as wide
//! as their widest cell. The last one is not padded, so no line ends with blanks.

use super::style::{Paint, Style};
use super::text::{shortened, width};

/// A piece of text and its style.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Option<Style>,
    to_the_right: bool,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), style: None, to_the_right: false }
    }

    /// A number, aligned to the right.
    pub(crate) fn number(number: u64) -> Self {
        Self { to_the_right: true, ..Self::new(super::text::grouped(number)) }
    }

    /// The same cell, aligned to the right.
    pub(crate) fn right_aligned(self) -> Self {
        Self { to_the_right: true, ..self }
    }

    pub(crate) fn style(mut self, style: Style) -> Self {
        self.style = Some(style);
        self
    }

    fn width(&self) -> usize {
        width(&self.text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// The usual width of a terminal.
pub(crate) const WIDTH: usize = 80;
/// The least width of the last column of a narrow table.
const LEAST_SHOWN: usize = 8;
/// Blanks between two columns.
const GAP: usize = 2;

/// Rows of cells, under a heading or without one.
#[derive(Debug, Default)]
pub(crate) struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    is_narrow: bool,
}

impl Table {
    pub(crate) fn new(heading: impl IntoIterator<Item = &'static str>) -> Self {
        Self { heading: heading.into_iter().collect(), ..Self::default() }
    }

    /// Shortens the last column so that lines fit a terminal of 80 columns.
    pub(crate) fn narrow(self) -> Self {
        Self { is_narrow: true, ..self }
    }

    /// Creates a table of names and values, without a heading.
    pub(crate) fn of_fields() -> Self {
        Self::default()
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a name and its value.
    pub(crate) fn field(&mut self, name: &str, value: impl Into<Cell>) {
        self.row([Cell::new(name).style(Style::Faint), value.into()]);
    }

    /// Returns the table as text, with line ends.
    pub(crate) fn render(&self, paint: Paint) -> String {
        let heading: Vec<Cell> = self.heading.iter().map(|name| self.heading_cell(name)).collect();
        let lines =
            || Some(&heading).filter(|cells| !cells.is_empty()).into_iter().chain(&self.rows);
        let columns = lines().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                lines().filter_map(|cells| cells.get(column)).map(Cell::width).max().unwrap_or(0)
            })
            .collect();
        let Some((_, others)) = widths.split_last().filter(|_| self.is_narrow) else {
            return lines().map(|cells| line(cells, &widths, paint)).collect();
        };
        let left = WIDTH.saturating_sub(others.iter().map(|width| width + GAP).sum());
        let fitting = |cells: &Vec<Cell>| {
            let mut cells = cells.clone();
            if let Some(last) = cells.get_mut(others.len()) {
                last.text = shortened(&last.text, left.max(LEAST_SHOWN));
            }
            line(&cells, &widths, paint)
        };
        lines().map(fitting).collect()
    }

    /// The heading of a column is aligned like its cells.
    fn heading_cell(&self, name: &'static str) -> Cell {
        let column = self.heading.iter().position(|other| *other == name).unwrap_or(0);
        let first = self.rows.first().and_then(|row| row.get(column));
        Cell {
            to_the_right: first.is_some_and(|cell| cell.to_the_right),
            ..Cell::new(name).style(Style::Heading)
        }
    }
}

fn line(cells: &[Cell], widths: &[usize], paint: Paint) -> String {
    let mut line = String::new();
    // Blanks are written only before further text.
    let mut blanks = 0;
    for (cell, width) in cells.iter().zip(widths) {
        let padding = width.saturating_sub(cell.width());
        let (before, after) = if cell.to_the_right { (padding, 0) } else { (0, padding) };
        if cell.text.is_empty() {
            blanks += width + GAP;
            continue;
        }
        line.extend(std::iter::repeat_n(' ', blanks + before));
        match cell.style {
            Some(style) => line.push_str(&paint.text(style, &cell.text)),
            None => line.push_str(&cell.text),
        }
        blanks = after + GAP;
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_no_line_ends_in_blanks() {
        let mut table = Table::new(["queue", "ready", "key"]);
        table.row([Cell::new("mail"), Cell::number(12_345), Cell::new("")]);
        table.row([Cell::new("日本"), Cell::number(1), Cell::new("a").style(Style::Good)]);
        let expected = "\
queue   ready  key
mail   12,345
日本        1  a
";
        assert_eq!(table.render(Paint::plain()), expected);
        assert!(table.render(Paint::always()).contains("\x1b["));
    }

    #[test]
    fn an_empty_table_is_nothing() {
        assert_eq!(Table::of_fields().render(Paint::plain()), "");
    }
}
