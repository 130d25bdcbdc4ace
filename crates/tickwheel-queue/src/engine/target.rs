//! Push targets: their rows, and the rule that a queue names only a target that exists.
//!
//! The engine does not interpret targets: definition and state are bytes of the service that
//! delivers. Only the names are in memory.

use bytes::Bytes;

use super::Engine;
use crate::model::error::{Error, Limit};
use crate::model::target::StoredTarget;
use crate::model::validation::{check_name, over};
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View, rows};

impl Engine {
    pub(super) fn put_target(&mut self, name: &str, definition: &Bytes) -> Result<(), Error> {
        let limits = &self.options.limits;
        check_name("name", name, Limit::TargetName, limits)?;
        check_size("definition", definition)?;
        // A name in two partitions would be two targets, each with the whole rate.
        if let Some(placement) = self.options.placement {
            placement.check("name", name)?;
        }
        let is_new = !self.targets.contains(name);
        over(Limit::Targets, limits.targets, self.targets.len() + usize::from(is_new))?;
        self.batch.put(Table::Index, &rows::target(name), definition);
        self.targets.insert(name.into());
        Ok(())
    }

    pub(super) fn put_target_state(&mut self, name: &str, state: &Bytes) -> Result<(), Error> {
        check_size("state", state)?;
        self.check_target(name)?;
        self.batch.put(Table::Index, &rows::target_state(name), state);
        Ok(())
    }

    pub(super) fn remove_target(&mut self, name: &str) -> Result<(), Error> {
        self.check_target(name)?;
        let is_user =
            |number: &&u32| self.queues[**number as usize].settings.target.as_deref() == Some(name);
        if let Some(number) = self.names.values().find(is_user) {
            let queue = self.queues[*number as usize].name.to_string();
            return Err(Error::TargetInUse { target: name.to_owned(), queue });
        }
        self.targets.remove(name);
        self.batch.remove(Table::Index, &rows::target(name));
        self.batch.remove(Table::Index, &rows::target_state(name));
        Ok(())
    }

    fn check_target(&self, name: &str) -> Result<(), Error> {
        if self.targets.contains(name) { Ok(()) } else { Err(Error::NoSuchTarget(name.to_owned())) }
    }

    /// Refuses a target that does not exist. Giving a queue another target requires access to all
    /// queues.
    pub(super) fn check_target_of(&self, queue: &str, target: Option<&str>) -> Result<(), Error> {
        let number = self.number_of(queue);
        let current = number.and_then(|it| self.queues[it as usize].settings.target.as_deref());
        if target == current {
            return Ok(());
        }
        self.caller.check_targets(target.or(current).unwrap_or_default())?;
        target.map_or(Ok(()), |target| self.check_target(target))
    }

    pub(super) fn read_targets(&mut self, view: &dyn View) -> Result<(), StoreError> {
        for row in Tolerant::new(view, Table::Index, &[rows::TARGET], &[rows::TARGET + 1]) {
            let Some((key, _)) = self.pass_damage(row)? else { continue };
            if let Some(name) = rows::read_name(&key) {
                self.targets.insert(name.into());
            }
        }
        Ok(())
    }
}

fn check_size(field: &str, value: &Bytes) -> Result<(), Error> {
    let (allowed, found) = (StoredTarget::MAX_BYTES, value.len());
    if found > allowed {
        let why = format!("must have at most {allowed} bytes, got {found}");
        return Err(Error::Invalid { field: field.to_owned(), why });
    }
    Ok(())
}
