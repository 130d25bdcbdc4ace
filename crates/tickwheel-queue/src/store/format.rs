//! The file `FORMAT`: the format and the identity of a directory.
//!
//! ```text
//! tickwheel queue, format 2
//! id 5f0c3e6a9b1d47f08a2c4e6b8d0f1a3c
//! ```
//!
//! The id is random, and a directory gets it when it is created. Directories of earlier versions
//! get one when they are opened. After a failure, the id distinguishes the store that was open from
//! another one in its place.
//!
//! A third line, `upgrade from 1`, is there while a directory of format 1 is upgraded; see
//! [`upgrade`](super::upgrade).

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use super::StoreError;
use super::directory::write_whole;

/// The format that this version writes, and the newest that it reads.
const FORMAT: u32 = 2;
const FIRST_LINE: &str = "tickwheel queue, format ";
const ID_LINE: &str = "id ";
const UPGRADE_LINE: &str = "upgrade from 1\n";
pub(super) const FILE: &str = "FORMAT";

/// The random id of a store. It never changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId(u128);

impl StoreId {
    pub(super) fn new() -> Self {
        Self(fastrand::u128(..))
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({self})")
    }
}

/// What was found instead of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Format {
    Missing,
    /// The file is unreadable; it begins like this.
    Garbled(String),
    Known(Known),
}

/// The contents of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Missing in directories of earlier versions.
    pub(super) id: Option<StoreId>,
    /// Whether the directory has format 1, or its upgrade was interrupted.
    pub(super) upgrades: bool,
}

/// Reads the file; a newer format is an error.
pub(super) fn read(folder: &Path) -> Result<Format, StoreError> {
    let path = folder.join(FILE);
    match std::fs::read(&path) {
        Ok(bytes) => parse(&String::from_utf8_lossy(&bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Format::Missing),
        Err(error) => Err(StoreError::Io(format!("{}: {error}", path.display()))),
    }
}

/// Writes the file whole or not at all.
pub(super) fn write(folder: &Path, id: StoreId) -> Result<(), StoreError> {
    write_lines(folder, id, "")
}

/// Writes the file of a directory whose upgrade begins.
pub(super) fn write_upgrading(folder: &Path, id: StoreId) -> Result<(), StoreError> {
    write_lines(folder, id, UPGRADE_LINE)
}

fn write_lines(folder: &Path, id: StoreId, last: &str) -> Result<(), StoreError> {
    let text = format!("{FIRST_LINE}{FORMAT}\n{ID_LINE}{id}\n{last}");
    write_whole(&folder.join(FILE), text.as_bytes())
}

fn parse(text: &str) -> Result<Format, StoreError> {
    let garbled = || Ok(Format::Garbled(text.chars().take(40).collect()));
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().and_then(|line| line.strip_prefix(FIRST_LINE));
    // A line that was cut short has no end.
    let number = first.and_then(|rest| rest.strip_suffix('\n')?.parse::<u32>().ok());
    match number {
        Some(found) if found > FORMAT => Err(StoreError::NewerVersion { found, known: FORMAT }),
        // Format 1 without an id is what the first version wrote.
        Some(number) => match (lines.next().map(parse_id), lines.next()) {
            (None, _) if number == 1 => Ok(Format::Known(Known { id: None, upgrades: true })),
            (Some(Some(id)), None) => {
                Ok(Format::Known(Known { id: Some(id), upgrades: number == 1 }))
            }
            (Some(Some(id)), Some(UPGRADE_LINE)) if number == FORMAT => {
                Ok(Format::Known(Known { id: Some(id), upgrades: true }))
            }
            _ => garbled(),
        },
        None => garbled(),
    }
}

fn parse_id(line: &str) -> Option<StoreId> {
    let digits = line.strip_prefix(ID_LINE)?.strip_suffix('\n')?;
    let is_whole = digits.len() == 32;
    u128::from_str_radix(digits, 16).ok().filter(|_| is_whole).map(StoreId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_cut_short_is_garbled_and_never_taken_for_another() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), Ok(Format::Missing));
        let id = StoreId::new();
        write(folder.path(), id).unwrap();
        let known = |id, upgrades| Ok(Format::Known(Known { id, upgrades }));
        assert_eq!(read(folder.path()), known(Some(id), false));
        let text = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        for length in 0..text.len() {
            let found = parse(&text[..length]).unwrap();
            assert!(matches!(found, Format::Garbled(_)), "{length}: {found:?}");
        }
        let newer = StoreError::NewerVersion { found: 3, known: 2 };
        assert_eq!(parse("tickwheel queue, format 3\nwhatever\n"), Err(newer));
        write_upgrading(folder.path(), id).unwrap();
        assert_eq!(read(folder.path()), known(Some(id), true));
    }

    #[test]
    fn files_of_format_1_are_read() {
        let id = StoreId::new();
        let known = |id| Ok(Format::Known(Known { id, upgrades: true }));
        assert_eq!(parse("tickwheel queue, format 1\n"), known(None));
        assert_eq!(parse(&format!("tickwheel queue, format 1\nid {id}\n")), known(Some(id)));
        assert!(matches!(parse("tickwheel queue, format 2\n"), Ok(Format::Garbled(_))));
    }
}
