//! A table in Markdown with aligned columns.

use std::fmt;

/// A table whose first column is aligned left, and all others right.
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: Vec<String>) -> Self {
        Self { head, rows: Vec::new() }
    }

    /// Adds a row, which has a cell for each column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.head.len(), "a cell for each column");
        self.rows.push(cells);
    }

    fn width(&self, column: usize) -> usize {
        let all = std::iter::once(&self.head).chain(&self.rows);
        all.map(|row| row[column].chars().count()).max().unwrap_or(0).max(3)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.head.len()).map(|column| self.width(column)).collect();
        write_row(f, &self.head, &widths)?;
        for (column, width) in widths.iter().enumerate() {
            let dashes = "-".repeat(width + 1);
            if column == 0 {
                write!(f, "|{dashes}-")?;
            } else {
                write!(f, "|{dashes}:")?;
            }
        }
        writeln!(f, "|")?;
        self.rows.iter().try_for_each(|row| write_row(f, row, &widths))
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, cells: &[String], widths: &[usize]) -> fmt::Result {
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        if column == 0 {
            write!(f, "| {cell:<width$} ")?;
        } else {
            write!(f, "| {cell:>width$} ")?;
        }
    }
    writeln!(f, "|")
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(vec!["what".into(), "ns".into()]);
        table.row(vec!["insert".into(), "12345".into()]);
        assert_eq!(
            table.to_string(),
            "| what   |    ns |\n\
             |--------|------:|\n\
             | insert | 12345 |\n"
        );
    }
}
