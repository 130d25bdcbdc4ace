//! An inspection of a directory that no process uses, which changes none of its files.
//!
//! It makes the checks of an opening in the same order, collects what is damaged instead of
//! stopping at the first part where it can, and then reads every row. The embedded store is opened
//! without threads that write tables.
//!
//! A directory of format 1 has no table of counters, and opening it would create one. So only its
//! files and journals are checked.

use super::directory::{ACKNOWLEDGED, Directory, FAILED};
use super::embedded::EmbeddedStore;
use super::format::{self, Format, Known, StoreId};
use super::recovery::acknowledged::Acknowledged;
use super::recovery::journal::{self, Journals};
use super::recovery::loss::Loss;
use super::recovery::{inventory, salvage};
use super::space::{self, Reserve};
use super::tolerant::Tolerant;
use super::{StoreError, StoreOptions, Table};

/// After every key.
const END: [u8; 33] = [u8::MAX; 33];

/// What was found in a directory: made by [`Directory::inspect`].
///
/// ```
/// use tickwheel_queue::store::{Directory, Inspection};
/// use tickwheel_queue::{NewJob, Queues};
///
/// let folder = tempfile::tempdir()?;
/// let queues = Queues::open(folder.path())?;
/// queues.put(NewJob::new("mail", "hello")).wait()?;
/// drop(queues);
/// let found: Inspection = Directory::new(folder.path()).inspect()?;
/// assert_eq!((found.jobs, found.damage.len()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[allow(clippy::struct_excessive_bools, reason = "the facts are independent of each other")]
pub struct Inspection {
    /// The id of the store; `None` in a directory of the first version, or if it cannot be read.
    pub id: Option<StoreId>,
    /// Whether the directory has an older format, which the next opening upgrades.
    pub needs_upgrade: bool,
    /// Whether a salvage was interrupted. The next opening completes it.
    pub needs_repair: bool,
    /// Whether a write or a sync failed when the directory was open last.
    pub has_failed: bool,
    /// Whether all rows were read. They are not if the files or journals are damaged, or if the
    /// directory needs an upgrade.
    pub is_complete: bool,
    /// Rows that can be read.
    pub rows: u64,
    /// Jobs among them, finished ones that are kept included.
    pub jobs: u64,
    /// What is damaged, one sentence for each part.
    pub damage: Vec<String>,
    /// Bytes of all files in the directory.
    pub used: u64,
    /// Bytes among them in `damaged/`, which earlier salvages left.
    pub kept_aside: u64,
    /// Bytes that the file system has left; `u64::MAX` if that is unknown.
    pub free: u64,
    /// Bytes of the reserve; 0 if there is none.
    pub reserve: u64,
}

impl Directory {
    /// Checks the directory and reads every row of it, without changing a file.
    ///
    /// # Errors
    ///
    /// If the directory is in use, holds something else or nothing, has a newer format, or cannot
    /// be read because of the operating system. Damage is not an error here.
    pub fn inspect(&self) -> Result<Inspection, StoreError> {
        let path = self.path();
        let mut found = Inspection {
            used: space::used(path)?,
            kept_aside: space::used(&path.join("damaged"))?,
            free: space::free(path),
            reserve: Reserve::new(path, 0).len(),
            has_failed: path.join(FAILED).exists(),
            needs_repair: salvage::unrepaired(path).is_some(),
            ..Inspection::default()
        };
        if let Format::Known(Known { id, upgrades }) = format::read(path)? {
            (found.id, found.needs_upgrade) = (id, upgrades);
        }
        if !self.store().exists() && path.join("salvaged").exists() {
            found.needs_repair = true;
            return Ok(found);
        }
        match self.is_new(false) {
            Ok(false) => {}
            Ok(true) => return Err(StoreError::NotAQueue("there is no store yet".to_owned())),
            Err(error) => found.note(error)?,
        }
        if self.store().exists() {
            self.inspect_store(&mut found)?;
        }
        Ok(found)
    }

    fn inspect_store(&self, found: &mut Inspection) -> Result<(), StoreError> {
        let store = self.store();
        let options = StoreOptions { lean: true, ..StoreOptions::default() };
        let lock = journal::lock(&store)?;
        let acknowledged = Acknowledged::read(&self.path().join(ACKNOWLEDGED))?;
        found.check(inventory::check(&store, found.needs_upgrade))?;
        let journals = Journals::read(&store)?;
        found.check(self.check_journals(&options, &journals, &acknowledged).map(drop))?;
        drop(lock);
        if !found.damage.is_empty() || found.needs_upgrade {
            return Ok(());
        }
        let mut loss = Loss::default();
        found.check(self.check_oldest_journal(&options, &journals, &acknowledged, &mut loss))?;
        let opened = EmbeddedStore::open(&store, &options);
        let opened = match opened.map_err(|error| inventory::name_tables(&store, error)) {
            Ok(opened) => opened,
            Err(error) => return found.note(error),
        };
        let last = opened.last().commit;
        if last < acknowledged.commit {
            let acknowledged = acknowledged.commit;
            found.damage.push(format!(
                "commit {acknowledged} was acknowledged, and {last} is the last that is there"
            ));
        }
        found.count_rows(&opened)?;
        if !found.damage.is_empty() {
            let tables = inventory::damaged_tables(&store)?;
            let told = tables
                .iter()
                .map(|table| format!("the table {} does not match its checksum", table.display()));
            found.damage.extend(told);
        }
        found.is_complete = true;
        Ok(())
    }
}

impl Inspection {
    /// Notes damage; any other error is returned.
    fn note(&mut self, error: StoreError) -> Result<(), StoreError> {
        match error {
            StoreError::Damaged(why) => {
                self.damage.push(why);
                Ok(())
            }
            error => Err(error),
        }
    }

    fn check(&mut self, checked: Result<(), StoreError>) -> Result<(), StoreError> {
        checked.or_else(|error| self.note(error))
    }

    fn count_rows(&mut self, store: &EmbeddedStore) -> Result<(), StoreError> {
        for table in Table::ALL {
            for row in Tolerant::new(store, table, &[], &END) {
                match row {
                    Ok(_) => {
                        self.rows += 1;
                        self.jobs += u64::from(table == Table::Jobs);
                    }
                    Err(StoreError::Damaged(why)) => {
                        let name = format!("{table:?}").to_lowercase();
                        self.damage.push(format!("rows of the table `{name}`: {why}"));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}
