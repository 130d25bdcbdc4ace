//! Backups of queues in use.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::client::queues::Queues;
use crate::model::error::Error;
use crate::runtime::core::Core;
use crate::store;

/// A backup in progress, made by [`Queues::backup`](crate::Queues::backup) while the queues are in
/// use.
///
/// ```
/// use tickwheel_queue::{Backup, NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// queues.put(NewJob::new("mail", "before")).wait()?;
/// let mut backup: Backup = queues.backup()?;
/// queues.put(NewJob::new("mail", "after")).wait()?; // is not in it
/// while let Some(piece) = backup.next_piece()? {
///     assert!(!piece.is_empty()); // goes to a file
/// }
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
pub struct Backup {
    core: Arc<Core>,
    /// `None` once the store has failed, because a store can be opened again only when nothing
    /// reads it.
    reading: Arc<Mutex<Option<store::Backup>>>,
}

impl Queues {
    /// Begins a backup of everything that is committed now: jobs, queues, settings, schedules and
    /// idempotency keys. Changes made meanwhile are not in the backup. [`store::restore`] reads it.
    ///
    /// ```
    /// use tickwheel_queue::store::{Disk, MemoryDisk, StoreOptions, restore};
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "hello")).wait()?;
    /// let mut backup = queues.backup()?;
    /// let mut bytes = Vec::new();
    /// while let Some(piece) = backup.next_piece()? {
    ///     bytes.extend(piece);
    /// }
    /// let store = MemoryDisk::new().open(&StoreOptions::default()).unwrap();
    /// assert!(restore(&mut &bytes[..], &*store, &mut |_, _| ()).is_ok());
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If this handle is limited to some queues, or the store cannot be read.
    pub fn backup(&self) -> Result<Backup, Error> {
        let core = Arc::clone(self.core());
        if self.access().is_limited() {
            return Err(Error::Forbidden("all queues".to_owned()));
        }
        let Some(store) = core.store()? else {
            return Err(Error::Unavailable("the store is being opened again".to_owned()));
        };
        let reading = store::Backup::of(&*store).map_err(|error| unreadable(&error))?;
        let reading = Arc::new(Mutex::new(Some(reading)));
        core.watch_backup(&reading);
        Ok(Backup { core, reading })
    }
}

impl Backup {
    /// Returns the next piece of the stream, of about 256 KiB, or `None` after the last one. May
    /// wait for the disk.
    ///
    /// # Errors
    ///
    /// If a row cannot be read, or the store failed meanwhile: begin a new backup.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.core.store()?;
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(reading) = &mut *reading else {
            return Err(Error::Unavailable("the store failed during the backup".to_owned()));
        };
        reading.next_piece().map_err(|error| unreadable(&error))
    }
}

fn unreadable(error: &store::StoreError) -> Error {
    Error::Unreadable(error.to_string())
}

impl fmt::Debug for Backup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backup").finish_non_exhaustive()
    }
}
