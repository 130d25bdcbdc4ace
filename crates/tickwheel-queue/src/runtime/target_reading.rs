//! Reading push targets from a snapshot of the store.

use crate::engine::unreadable;
use crate::model::access::Access;
use crate::model::error::Error;
use crate::model::target::StoredTarget;
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View, rows};

/// Returns the target with this name, or all without damaged ones.
pub(crate) fn targets(
    view: &dyn View,
    name: Option<&str>,
    access: &Access,
) -> Result<Vec<StoredTarget>, Error> {
    access.check_targets(name.unwrap_or("*"))?;
    let state_of = |name: &str| match view.get(Table::Index, &rows::target_state(name)) {
        Ok(state) => Ok(state.unwrap_or_default()),
        Err(StoreError::Damaged(why)) => {
            tracing::error!(name, why, "the state of a target cannot be read, and is forgotten");
            Ok(bytes::Bytes::new())
        }
        Err(error) => Err(unreadable(error)),
    };
    if let Some(name) = name {
        let found = view.get(Table::Index, &rows::target(name)).map_err(unreadable)?;
        let Some(definition) = found else { return Ok(Vec::new()) };
        return Ok(vec![StoredTarget::new(name.to_owned(), definition, state_of(name)?)]);
    }
    let mut found = Vec::new();
    for row in Tolerant::new(view, Table::Index, &[rows::TARGET], &[rows::TARGET + 1]) {
        let (key, definition) = match row {
            Ok(row) => row,
            Err(StoreError::Damaged(_)) => continue,
            Err(error) => return Err(unreadable(error)),
        };
        let Some(name) = rows::read_name(&key) else { continue };
        found.push(StoredTarget::new(name.to_owned(), definition, state_of(name)?));
    }
    Ok(found)
}
