//! The figures as tables: one for each class of durability, so that equals stand side by side.

use super::Results;
use super::figure::Figure;
use super::goals::best_peer;
use super::system::{Class, System};
use crate::report::numbers::ratio_text;
use crate::report::results::{Measured, Named};
use crate::report::table::Table;
use crate::report::unit::Unit;

/// Rows are figures, columns are the systems of a class, then how many times better than the best
/// peer ours is. `None` if nothing of the class was measured.
pub(super) fn figures(results: &Results, class: Class) -> Option<Table> {
    let mut systems = results.measured(&System::ALL);
    systems.retain(|system| system.class() == class);
    let mut head = vec![String::from("workload"), String::from("unit")];
    head.extend(systems.iter().map(|system| system.label().to_owned()));
    head.push(String::from("vs best peer"));
    let mut table = Table::new(head);
    let has = |figure: &Figure| systems.iter().any(|&it| results.value(it, *figure).is_some());
    for figure in Figure::ALL.into_iter().filter(has) {
        table.row(row(results, class, &systems, figure));
    }
    (!systems.is_empty()).then_some(table)
}

fn row(results: &Results, class: Class, systems: &[System], figure: Figure) -> Vec<String> {
    let unit = figure.unit();
    let mut cells = vec![figure.label().to_owned(), unit.name().to_owned()];
    let values = systems.iter().map(|&system| results.value(system, figure));
    cells.extend(values.map(|value| value.map_or_else(absent, |value| unit.text(value))));
    cells.push(ratio(results, class, figure).map_or_else(absent, ratio_text));
    cells
}

fn ratio(results: &Results, class: Class, figure: Figure) -> Option<f64> {
    let ours = results.value(class.ours(), figure)?;
    let (_, theirs) = best_peer(results, class, figure)?;
    (figure.unit() != Unit::Jobs && ours > 0.0).then(|| figure.unit().advantage(ours, theirs))
}

fn absent() -> String {
    String::from("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_holds_its_class_alone() {
        let mut results = Results::default();
        results.add(System::Tickwheel, Figure::Put1, 3_000.0);
        results.add(System::RedisAlways, Figure::Put1, 1_000.0);
        results.add(System::RedisEverysec, Figure::Put1, 9_000.0);
        let systems = [System::Tickwheel, System::RedisAlways];
        let cells = row(&results, Class::Synced, &systems, Figure::Put1);
        assert_eq!(cells[2..], ["3000", "1000", "3.0x"]);
        assert!(figures(&results, Class::Relaxed).is_some());
        assert!(figures(&Results::default(), Class::Synced).is_none());
    }
}
