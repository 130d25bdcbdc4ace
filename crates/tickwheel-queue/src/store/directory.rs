//! A queue's directory, and the checks before it is opened.
//!
//! | in the directory | what it is |
//! |---|---|
//! | `FORMAT` | the format of the whole directory, and its random id |
//! | `store/` | the embedded store |
//! | `acknowledged` | the number of the last commit that is known to be durable |
//! | `failed` | an empty file: a write or sync failed, and the journals are not copied yet |
//! | `reserve` | allocated blocks, released when the disk is full |
//! | `damaged/` | copies of what salvaging changed or left out |
//! | `salvaged/` | a new store, while it is being filled from a damaged one |
//! | `repair` | the store was salvaged, and its index is not repaired yet |
//! | `new/`, `creating` | a store that is being created |
//!
//! Ground rules:
//! * `FORMAT` with an id is written once the store is complete. A directory with `FORMAT` and
//!   without a store is damaged, not new.
//! * Nothing is changed before the checks have passed, except by `salvage`.
//! * fjall opens complete stores only, because it replaces missing parts by empty ones.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::embedded::EmbeddedStore;
use super::format::{self, Format, Known, StoreId};
use super::records::Totals;
use super::recovery::acknowledged::Acknowledged;
use super::recovery::journal::{self, Journals};
use super::recovery::loss::Loss;
use super::recovery::{inventory, salvage};
use super::space::{self, Reserve, SCARCE};
use super::{Disk, LeftOut, Opened, Store, StoreError, StoreOptions};
use super::{creation, upgrade};

pub(super) const FAILED: &str = "failed";
pub(super) const ACKNOWLEDGED: &str = "acknowledged";

/// A directory with the embedded store in it.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Returns the directory at a path, which is created when it is opened.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Returns `true` if there is no store: the directory is missing or empty, or its creation was
    /// interrupted. Anything else without a readable `FORMAT` and a store is an error.
    pub(super) fn is_new(&self, salvages: bool) -> Result<bool, StoreError> {
        let has_store = self.store().exists();
        match format::read(&self.path)? {
            Format::Known(known) if !has_store => {
                // An earlier version wrote `FORMAT`, without an id, before the store.
                let acknowledged = Acknowledged::read(&self.path.join(ACKNOWLEDGED))?;
                if known.id.is_none() && acknowledged.commit == 0 {
                    return Ok(true);
                }
                let store = self.store();
                Err(StoreError::Damaged(format!("the folder {} is missing", store.display())))
            }
            Format::Known(_) => Ok(false),
            Format::Missing | Format::Garbled(_) if has_store && salvages => Ok(false),
            Format::Missing if has_store => {
                let path = self.path.join(format::FILE);
                Err(StoreError::Damaged(format!("the file {} is missing", path.display())))
            }
            Format::Garbled(text) if has_store => {
                let path = self.path.join(format::FILE);
                let why = format!("the file {} is not whole: it says {text:?}", path.display());
                Err(StoreError::Damaged(why))
            }
            Format::Missing => self.check_empty().map(|()| true),
            Format::Garbled(text) => {
                Err(StoreError::NotAQueue(format!("its file `FORMAT` says {text:?}")))
            }
        }
    }

    /// Refuses a directory that holds something else.
    fn check_empty(&self) -> Result<(), StoreError> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let name = entry?.file_name();
            if !name.to_str().is_some_and(creation::is_leftover) {
                let why = format!("it has no file `FORMAT`, but {}", name.display());
                return Err(StoreError::NotAQueue(why));
            }
        }
        Ok(())
    }

    /// Refuses any store other than the one that was open before.
    fn check_identity(&self, opened: &Opened) -> Result<(), StoreError> {
        let found = match format::read(&self.path) {
            Ok(Format::Known(Known { id: Some(id), .. })) if id == opened.id => return Ok(()),
            Ok(Format::Known(Known { id: Some(id), .. })) => {
                format!("another store, with the id {id}")
            }
            Ok(Format::Known(Known { id: None, .. })) => "a store without an id".into(),
            Ok(Format::Garbled(text)) => format!("a file `FORMAT` that says {text:?}"),
            Ok(Format::Missing) if !self.path.exists() => "no directory".into(),
            Ok(Format::Missing) => match self.check_empty() {
                Ok(()) => "an empty directory".into(),
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        Err(self.replaced(opened, &found))
    }

    fn replaced(&self, opened: &Opened, found: &str) -> StoreError {
        StoreError::Replaced(format!(
            "{}: expected the store {} with commit {} or later, and found {found}. Mount or \
             restore the directory that was open: it is opened again by itself. To continue with \
             what is there now, restart",
            self.path.display(),
            opened.id,
            opened.commit
        ))
    }

    /// Refuses an older copy of the store that was open before.
    fn check_commit(&self, options: &StoreOptions, found: Option<u64>) -> Result<(), StoreError> {
        match (options.reopens, found) {
            (Some(opened), Some(found)) if found < opened.commit => {
                let found = format!("an older copy of it, which ends with commit {found}");
                Err(self.replaced(&opened, &found))
            }
            _ => Ok(()),
        }
    }

    /// Checks the files of the store, or restores small files from others.
    fn check_files(&self, options: &StoreOptions, upgrades: bool) -> Result<(), StoreError> {
        let store = self.store();
        if options.salvage && inventory::check(&store, upgrades).is_err() {
            inventory::restore(&store)?;
            return inventory::check(&store, upgrades).map_err(beyond_salvage);
        }
        inventory::check(&store, upgrades)
    }

    /// Checks the journals, or salvages what can be read of them. Returns what is omitted.
    pub(super) fn check_journals(
        &self,
        options: &StoreOptions,
        journals: &Journals,
        acknowledged: &Acknowledged,
    ) -> Result<Loss, StoreError> {
        let store = self.store();
        self.check_commit(options, journals.last_commit())?;
        let is_just_created = acknowledged.commit == 0 && inventory::has_no_tables(&store)?;
        if journals.are_missing() && !is_just_created {
            let path = store.join("*.jnl");
            let damage = StoreError::Damaged(format!("the journal {} is missing", path.display()));
            if !options.salvage {
                return Err(damage);
            }
            tracing::error!(error = %damage, "what was in it is left out");
            return Ok(Loss { parts: 1, ..Loss::default() });
        }
        if options.salvage {
            return journals.salvage(&self.path.join("damaged"), acknowledged);
        }
        journals.check(acknowledged).map(|()| Loss::default())
    }

    /// Returns an error if the oldest journal is missing although its rows are not in tables.
    /// Otherwise the embedded store has removed it, as it should.
    pub(super) fn check_oldest_journal(
        &self,
        options: &StoreOptions,
        journals: &Journals,
        acknowledged: &Acknowledged,
        loss: &mut Loss,
    ) -> Result<(), StoreError> {
        let Some(oldest) = journals.missing_oldest(acknowledged) else { return Ok(()) };
        // No thread may write tables: a restored journal must find them unchanged.
        let untouched = StoreOptions { lean: true, ..*options };
        let store = self.store();
        let in_tables = EmbeddedStore::open(&store, &untouched)
            .and_then(|store| store.totals_in_tables())
            .map_err(|error| inventory::name_tables(&store, error));
        let in_tables = match in_tables {
            Err(StoreError::Damaged(_)) if options.salvage => return Ok(()),
            in_tables => in_tables?,
        };
        let Some((commits, puts)) = journals.missing_before(in_tables) else { return Ok(()) };
        let path = store.join(format!("{oldest}.jnl"));
        let damage = StoreError::Damaged(format!(
            "the journal {} is missing: commits {} to {} are neither in a journal nor in a table",
            path.display(),
            commits.start,
            commits.end - 1
        ));
        if !options.salvage {
            return Err(damage);
        }
        tracing::error!(error = %damage, "what was in it is left out");
        loss.parts += 1;
        loss.puts.push(puts);
        Ok(())
    }

    /// Returns `true` if an earlier version was interrupted while it created the store: something
    /// is missing, and nothing was ever written.
    fn is_unfinished(&self, acknowledged: &Acknowledged) -> Result<bool, StoreError> {
        let store = self.store();
        Ok(matches!(format::read(&self.path)?, Format::Known(Known { id: None, .. }))
            && acknowledged.commit == 0
            && inventory::check(&store, true).is_err()
            && inventory::has_no_tables(&store)?
            && Journals::read(&store)?.are_empty())
    }

    /// Copies the journals if a write or sync has failed.
    fn copy_journals(&self, options: &StoreOptions) -> Result<(), StoreError> {
        let failed = self.path.join(FAILED);
        if options.after_failure || failed.exists() {
            // If this is interrupted, the next opening starts again here.
            match mark(&failed) {
                // Reading needs no mark, and nothing is written before there is room.
                Err(StoreError::Full(error)) => tracing::warn!(error, "no mark could be left"),
                marked => marked?,
            }
            journal::rewrite(&self.store())?;
            if failed.exists() {
                fs::remove_file(&failed)?;
            }
        }
        Ok(())
    }

    /// Returns the options of the store. If the disk is full, the reserve is released and the store
    /// is lean.
    fn lean_if_full(&self, options: &StoreOptions) -> StoreOptions {
        let is_lean = options.lean || space::free(&self.path) < SCARCE;
        if is_lean && Reserve::new(&self.path, options.reserve).release() {
            tracing::warn!("the disk is full: the reserve is released, and puts are refused");
        }
        StoreOptions { lean: is_lean, ..*options }
    }

    /// Creates the reserve, if there is plenty of room for it.
    fn fill_reserve(&self, options: &StoreOptions) {
        if options.lean || space::free(&self.path) < options.reserve.saturating_add(2 * SCARCE) {
            return;
        }
        if let Err(error) = Reserve::new(&self.path, options.reserve).fill() {
            tracing::warn!(%error, "no reserve was made");
        }
    }

    /// Returns the id of the directory, and whether it must be upgraded. A directory without an id,
    /// or with an unreadable `FORMAT` that is salvaged, gets an id from the upgrade.
    fn known(&self) -> Result<(StoreId, bool), StoreError> {
        Ok(match format::read(&self.path)? {
            Format::Known(Known { id: Some(id), upgrades }) => (id, upgrades),
            _ => (StoreId::new(), true),
        })
    }

    /// Opens the embedded store after all checks, and upgrades it.
    fn open_embedded(
        &self,
        options: &StoreOptions,
        acknowledged: &Acknowledged,
        loss: Loss,
        (id, upgrades): (StoreId, bool),
    ) -> Result<(EmbeddedStore, LeftOut), StoreError> {
        let store = self.store();
        let opened = if upgrades {
            format::write_upgrading(&self.path, id)?;
            EmbeddedStore::open_to_upgrade(&store, options)
        } else {
            EmbeddedStore::open(&store, options)
        };
        let opened = opened.map_err(|error| inventory::name_tables(&store, error));
        let (opened, left_out) = if options.salvage {
            let damaged = opened.map_err(beyond_salvage)?;
            salvage::salvage(&self.path, damaged, loss, acknowledged, options)?
        } else {
            (opened?, salvage::unrepaired(&self.path).unwrap_or_default())
        };
        if upgrades {
            upgrade::move_counters(&opened)?;
            format::write(&self.path, id)?;
            tracing::info!(path = %self.path.display(), "the directory is upgraded to format 2");
        }
        Ok((opened, left_out))
    }
}

/// A file that cannot be opened cannot be copied either.
fn beyond_salvage(error: StoreError) -> StoreError {
    match error {
        StoreError::Damaged(why) => StoreError::Damaged(format!(
            "{why}. That says where the rows are, and without it nothing can be salvaged: restore \
             the directory from a copy"
        )),
        other => other,
    }
}

/// Writes a file so that it is missing or complete after a crash.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let draft = path.with_extension("draft");
    let mut file = fs::File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}

/// Copies a file into a folder under a free name. Returns the path of the copy.
pub(super) fn keep_copy(path: &Path, folder: &Path) -> Result<PathBuf, StoreError> {
    fs::create_dir_all(folder)?;
    let copy = free_name(folder, &path.file_name().unwrap_or_default().to_string_lossy());
    fs::copy(path, &copy)?;
    fs::File::open(&copy)?.sync_all()?;
    sync_directory(folder)?;
    Ok(copy)
}

/// Returns a free name in the folder, with a number at its end.
pub(super) fn free_name(folder: &Path, name: &str) -> PathBuf {
    let mut names = (0_u64..).map(|number| folder.join(format!("{name}.{number}")));
    names.find(|path| !path.exists()).unwrap_or_default()
}

/// Creates an empty file without a sync: it is for the next process, which shares the operating
/// system's cache. After a power failure, only what reached the disk counts.
pub(super) fn mark(path: &Path) -> Result<(), StoreError> {
    fs::File::create(path)?;
    Ok(())
}

pub(super) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    // Where directories cannot be opened, as on Windows, renaming is durable without this.
    if cfg!(unix) {
        fs::File::open(path)?.sync_all()?;
    }
    Ok(())
}

impl Disk for Directory {
    fn open(&self, options: &StoreOptions) -> Result<Arc<dyn Store>, StoreError> {
        if let Some(opened) = &options.reopens {
            self.check_identity(opened)?;
        }
        if matches!(format::read(&self.path)?, Format::Known(Known { id: Some(_), .. })) {
            creation::finish(&self.path)?;
        }
        salvage::finish(&self.path)?;
        if self.is_new(options.salvage)? {
            creation::create(&self.path, options.stores)?;
        }
        let store = self.store();
        let note = self.path.join(ACKNOWLEDGED);
        let lock = journal::lock(&store)?;
        let options = &self.lean_if_full(options);
        let acknowledged = Acknowledged::read(&note)?;
        if self.is_unfinished(&acknowledged)? {
            fs::remove_dir_all(&store)?;
            creation::create(&self.path, options.stores)?;
            drop(lock);
            return self.open(options);
        }
        let (id, upgrades) = self.known()?;
        self.check_files(options, upgrades)?;
        let journals = Journals::read(&store)?;
        let mut loss = self.check_journals(options, &journals, &acknowledged)?;
        salvage::discard_unfinished(&self.path)?;
        creation::remove_lock(&self.path)?;
        journal::remove_drafts(&store)?;
        self.copy_journals(options)?;
        drop(lock);
        if !upgrades {
            self.check_oldest_journal(options, &journals, &acknowledged, &mut loss)?;
        }
        let (opened, left_out) =
            self.open_embedded(options, &acknowledged, loss, (id, upgrades))?;
        let Totals { commit: found, seq, .. } = opened.last();
        if found < acknowledged.commit && !options.salvage {
            return Err(StoreError::Damaged(format!(
                "commit {} was acknowledged, and {found} is the last that is in {}",
                acknowledged.commit,
                store.display()
            )));
        }
        self.check_commit(options, Some(found))?;
        let journal = journals.bound_of(found).filter(|_| left_out == LeftOut::default());
        let acknowledged =
            Acknowledged { commit: found, seq: Some(seq), journal, ..Acknowledged::default() };
        self.fill_reserve(options);
        Ok(Arc::new(opened.settle(&self.path, id, left_out, acknowledged)?))
    }
}
