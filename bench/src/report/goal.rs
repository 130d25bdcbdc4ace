//! What is to be reached, and whether it was.

use serde::Serialize;

use super::table::Table;

/// One goal and what was measured.
#[derive(Serialize)]
pub(crate) struct Goal {
    pub(crate) what: String,
    pub(crate) wanted: String,
    pub(crate) measured: String,
    pub(crate) reached: bool,
}

/// One row a goal.
pub(crate) fn table(goals: &[Goal]) -> Table {
    let head = ["goal", "wanted", "measured", ""];
    let mut table = Table::new(head.map(String::from).to_vec());
    for goal in goals {
        let verdict = if goal.reached { "reached" } else { "MISSED" };
        table.row(vec![
            goal.what.clone(),
            goal.wanted.clone(),
            goal.measured.clone(),
            verdict.to_owned(),
        ]);
    }
    table
}
