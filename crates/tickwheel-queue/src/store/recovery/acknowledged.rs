//! The file `acknowledged`: what is known to be durable.
//!
//! The file is written after each sync of the store, and is not synced itself. So it never names a
//! commit that is not durable, and an opening that finds fewer commits knows that an acknowledged one
//! is missing. A crash of the machine may leave an older number, or a torn one, which is ignored.
//!
//! | bytes | content |
//! |---|---|
//! | 0–8 | the number of the last durable commit |
//! | 8–16 | the same number with all bits inverted |
//! | 16–24 | the number of a journal: the commit is in it or in a later one |
//! | 24–40 | the numbers of the oldest and the newest journal when the store was closed |
//! | 40–48 | the sequence number of the first put after that commit |
//! | 48–56 | the number of the oldest journal |
//! | 56–64 | a checksum of the bytes before it |
//!
//! A number that is not known has all bits set. Earlier versions wrote the first 16 bytes only, or
//! the first 40 and their checksum.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::store::StoreError;

const LENGTH: usize = 64;
const CHECKSUM: usize = LENGTH - 8;
/// Where the checksum is in a file of an earlier version.
const EARLIER_CHECKSUM: usize = 40;

/// The content of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Acknowledged {
    /// The last durable commit; 0 if there is none or it is not known.
    pub(in crate::store) commit: u64,
    /// The sequence number of the first put after that commit, so that a salvage can tell how many
    /// puts are missing.
    pub(in crate::store) seq: Option<u64>,
    /// The commit is in this journal or in a later one.
    pub(in crate::store) journal: Option<u64>,
    /// The oldest journal when the file was written. It may be gone: a journal is removed when its
    /// rows are in tables.
    pub(in crate::store) oldest: Option<u64>,
    /// The oldest and the newest journal of a store that was closed properly; `None` while it is open,
    /// because journals are added and removed then.
    pub(in crate::store) closed_with: Option<(u64, u64)>,
}

impl Acknowledged {
    pub(in crate::store) fn read(path: &Path) -> Result<Self, StoreError> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Self::decode(&bytes).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(StoreError::Io(format!("{}: {error}", path.display()))),
        }
    }

    fn encode(self) -> [u8; LENGTH] {
        let (oldest, newest) = self.closed_with.unzip();
        let optional = [self.journal, oldest, newest, self.seq, self.oldest];
        let optional = optional.map(|number| number.unwrap_or(u64::MAX));
        let mut bytes = [0; LENGTH];
        let numbers = [self.commit, !self.commit].into_iter().chain(optional);
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        let checksum = xxh3_64(&bytes[..CHECKSUM]);
        bytes[CHECKSUM..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let commit = number(0)?;
        if number(8)? != !commit {
            return None;
        }
        let is_checksum = |at: &usize| number(*at) == Some(xxh3_64(&bytes[..*at]));
        let places = [CHECKSUM, EARLIER_CHECKSUM].into_iter().filter(|at| bytes.len() >= at + 8);
        let end = places.into_iter().find(is_checksum).unwrap_or(16);
        let optional = |at: usize| number(at).filter(|number| at + 8 <= end && *number != u64::MAX);
        Some(Self {
            commit,
            seq: optional(40),
            journal: optional(16),
            oldest: optional(48),
            closed_with: optional(24).zip(optional(32)),
        })
    }
}

/// The file of an open store.
#[derive(Debug)]
pub(in crate::store) struct AcknowledgedFile(File);

impl AcknowledgedFile {
    pub(in crate::store) fn open(path: &Path) -> Result<Self, StoreError> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        file.map(Self).map_err(|error| StoreError::Io(format!("{}: {error}", path.display())))
    }

    pub(in crate::store) fn write(&mut self, acknowledged: Acknowledged) -> Result<(), StoreError> {
        self.0.seek(SeekFrom::Start(0))?;
        self.0.write_all(&acknowledged.encode())?;
        Ok(())
    }

    /// Makes the last write durable.
    pub(in crate::store) fn sync(&self) -> Result<(), StoreError> {
        Ok(self.0.sync_data()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_torn_bytes_say_nothing() {
        let whole = Acknowledged {
            commit: 7,
            seq: Some(9),
            journal: Some(3),
            oldest: Some(1),
            closed_with: Some((2, 4)),
        };
        let bytes = whole.encode();
        assert_eq!(Acknowledged::decode(&bytes), Some(whole));
        for length in 0..bytes.len() {
            let decoded = Acknowledged::decode(&bytes[..length]);
            let commit_alone = Acknowledged { commit: 7, ..Acknowledged::default() };
            assert_eq!(decoded, (length >= 16).then_some(commit_alone), "{length} bytes");
        }
        let mut torn = bytes;
        torn[3] ^= 1;
        assert_eq!(Acknowledged::decode(&torn), None);
        torn = bytes;
        torn[20] ^= 1;
        assert_eq!(Acknowledged::decode(&torn).map(|it| it.journal), Some(None));
    }

    #[test]
    fn a_file_of_an_earlier_version_is_read() {
        let whole = Acknowledged { commit: 7, journal: Some(3), ..Acknowledged::default() };
        let mut bytes = whole.encode()[..48].to_vec();
        let checksum = xxh3_64(&bytes[..EARLIER_CHECKSUM]);
        bytes[EARLIER_CHECKSUM..].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(Acknowledged::decode(&bytes), Some(whole));
    }
}
