//! Replicas that have applied the same commit have the same rows.

use std::collections::BTreeMap;

/// The rows of a store: which table, the key, and the value.
pub(crate) type Rows = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

/// Compares the rows of replicas that are at the same position of the log.
pub(crate) fn compare(replicas: &[(&str, Rows)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let Some(((first, expected), others)) = replicas.split_first() else { return wrong };
    for (name, rows) in others {
        let all: std::collections::BTreeSet<_> = expected.keys().chain(rows.keys()).collect();
        let differing: Vec<_> =
            all.into_iter().filter(|key| expected.get(*key) != rows.get(*key)).collect();
        if let Some((table, key)) = differing.first() {
            let [left, right] =
                [expected, rows].map(|it| it.get(&(*table, key.clone())).map(|value| hex(value)));
            wrong.push(format!(
                "{} rows of {first} and {name} differ, the first in table {table} with key {}: \
                 {left:?} and {right:?}",
                differing.len(),
                hex(key)
            ));
        }
    }
    wrong
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('?');
    bytes.iter().take(64).flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[(u8, u8)]) -> Rows {
        values.iter().map(|(key, value)| ((1, vec![*key]), vec![*value])).collect()
    }

    #[test]
    fn equal_replicas_pass() {
        let same = rows(&[(1, 2), (3, 4)]);
        assert!(compare(&[("a", same.clone()), ("b", same.clone()), ("c", same)]).is_empty());
    }

    #[test]
    fn a_row_that_differs_is_detected() {
        let found = compare(&[("a", rows(&[(1, 2)])), ("b", rows(&[(1, 3)]))]);
        assert!(found[0].contains("1 rows of a and b differ"), "{found:?}");
    }

    #[test]
    fn a_row_that_is_missing_or_too_many_is_detected() {
        let (few, many) = (rows(&[(1, 2)]), rows(&[(1, 2), (3, 4)]));
        assert_eq!(compare(&[("a", few.clone()), ("b", many.clone())]).len(), 1);
        assert_eq!(compare(&[("a", many), ("b", few)]).len(), 1);
    }
}
