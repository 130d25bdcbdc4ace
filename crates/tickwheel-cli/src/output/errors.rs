//! Errors by group, for people.

use tickwheel_api::ErrorGroups;

use super::Output;
use super::style::Style;
use super::table::{Cell, Table};
use super::text::{count, safe};
use super::time::relative;
use crate::failure::Failure;

/// Groups of errors, one on each line, those with most jobs first.
pub(crate) fn list(
    output: &Output,
    errors: &ErrorGroups,
    of_all_queues: bool,
) -> Result<(), Failure> {
    let mut heading = vec!["jobs", "dead", "newest", "oldest", "example"];
    if of_all_queues {
        heading.push("queue");
    }
    heading.push("error");
    let mut table = Table::new(heading);
    for group in &errors.groups {
        let time = |ms: Option<u64>| ms.map_or_else(String::new, relative);
        let mut cells = vec![
            Cell::number(group.count),
            Cell::number(group.dead),
            time(group.newest_ms).into(),
            time(group.oldest_ms).into(),
            super::job::short_id(group.example).into(),
        ];
        if of_all_queues {
            cells.push(safe(&group.queue).into());
        }
        cells.push(Cell::new(safe(&group.error)).style(Style::Bad));
        table.row(cells);
    }
    if !errors.groups.is_empty() {
        output.table(&table)?;
    }
    if errors.others > 0 {
        output.remark(&format!("{} with other errors: --limit", count(errors.others, "job")));
    }
    if !errors.complete {
        output.remark("there are too many jobs to look at all of them: dead ones come first");
    }
    Ok(())
}
