//! Checks that every file of the embedded store exists and is whole, before fjall opens the store.
//!
//! fjall assumes that the creation of a keyspace without a file `current` was interrupted: it deletes
//! the keyspace's tables and continues with an empty one. It does the same with a keyspace whose name
//! it does not find. It reports other damage without the name of the file. So this check reads the
//! files first, without changing them, and its errors name the file.
//!
//! The layout is that of fjall 3.1 and lsm-tree 3.1, which `Cargo.toml` pins:
//!
//! | file | content |
//! |---|---|
//! | `version` | four bytes: the format of the database |
//! | `lock` | an empty file, locked by the process that has the database open |
//! | `N.jnl` | the journals; see [`journal`](super::journal) |
//! | `keyspaces/0` | the keyspace that holds the names and settings of the others |
//! | `keyspaces/K/current` | the number of the keyspace's manifest, and its checksum |
//! | `keyspaces/K/vN` | the manifest: the numbers and checksums of the tables |
//! | `keyspaces/K/tables/T` | a table; it ends in a table of contents with a checksum |

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::store::StoreError;
use crate::store::directory::write_whole;
use crate::store::embedded::{COUNTERS, INDEX, JOBS};

/// The file `version` of a database that fjall 3 wrote.
const VERSION: &[u8] = b"FJL\x03";
/// The keyspace that holds the names of the others.
const NAMES: u64 = 0;

/// Returns an error that names the first file that is missing or not whole. A store of format 1 may
/// have no counters.
pub(in crate::store) fn check(store: &Path, upgrades: bool) -> Result<(), StoreError> {
    let version = store.join("version");
    if read(&version)? != VERSION {
        return Err(not_whole(&version, "it does not hold the version of the database"));
    }
    let names = names(store)?;
    for name in [JOBS, INDEX, COUNTERS] {
        match find_keyspace(store, name, &names)? {
            Some(id) => drop(check_keyspace(store, id)?),
            None if upgrades && name == COUNTERS => {}
            None => {
                let why = format!("it does not know the keyspace `{name}`");
                return Err(not_whole(&keyspace(store, NAMES), &why));
            }
        }
    }
    Ok(())
}

/// Returns the number of the keyspace with this name; `None` if there is none.
pub(in crate::store) fn keyspace_id(store: &Path, name: &str) -> Result<Option<u64>, StoreError> {
    find_keyspace(store, name, &names(store)?)
}

/// Returns the tables that hold the names of the keyspaces.
fn names(store: &Path) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut contents = Vec::new();
    for table in check_keyspace(store, NAMES)? {
        let bytes = read(&table.path)?;
        if xxh3_128(&bytes) != table.checksum {
            return Err(not_whole(&table.path, "it does not match its checksum"));
        }
        contents.push(bytes);
    }
    Ok(contents)
}

/// Returns the tables that do not match the checksum in the manifest of their keyspace. Reads all
/// tables, so it is used only for a store that is known to be damaged.
pub(in crate::store) fn damaged_tables(store: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut damaged = Vec::new();
    for id in keyspaces(store)? {
        for table in manifest(&keyspace(store, id))? {
            if xxh3_128(&read(&table.path)?) != table.checksum {
                damaged.push(table.path);
            }
        }
    }
    Ok(damaged)
}

/// Adds the names of damaged tables to an error without them.
pub(in crate::store) fn name_tables(store: &Path, error: StoreError) -> StoreError {
    match (error, damaged_tables(store)) {
        (StoreError::Damaged(why), Ok(tables)) if !tables.is_empty() => {
            let names: Vec<String> = tables.iter().map(|it| it.display().to_string()).collect();
            StoreError::Damaged(format!("{why}, in the file {}", names.join(" or ")))
        }
        (error, _) => error,
    }
}

/// Returns `true` if no row was ever written to a table: the keyspace has no tables, or is missing.
pub(in crate::store) fn has_no_tables(store: &Path) -> Result<bool, StoreError> {
    for id in keyspaces(store)?.into_iter().filter(|id| *id != NAMES) {
        if !entries(&keyspace(store, id).join("tables"))?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Replaces small files that can be derived from others: `lock`, `version` and each `current`. The
/// newest whole manifest of a keyspace replaces a missing one.
pub(in crate::store) fn restore(store: &Path) -> Result<u64, StoreError> {
    let mut restored = 0;
    let version = store.join("version");
    if read(&version).ok().is_none_or(|bytes| bytes != VERSION) {
        write_whole(&version, VERSION)?;
        tracing::error!(file = %version.display(), "a damaged file was written anew");
        restored += 1;
    }
    for id in keyspaces(store)? {
        let folder = keyspace(store, id);
        if manifest(&folder).is_ok() {
            continue;
        }
        let mut numbers: Vec<u64> = Vec::new();
        for name in entries(&folder)? {
            numbers.extend(name.strip_prefix('v').and_then(|number| number.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        let newest = numbers
            .into_iter()
            .rev()
            .find(|number| sfa::Reader::new(folder.join(format!("v{number}"))).is_ok());
        let Some(number) = newest else { continue };
        let checksum = xxh3_128(&read(&folder.join(format!("v{number}")))?);
        let current = folder.join("current");
        write_whole(&current, &encode_current(number, checksum))?;
        tracing::error!(file = %current.display(), manifest = number, "a damaged file was written anew");
        restored += 1;
    }
    Ok(restored)
}

/// A table as the manifest of its keyspace describes it.
struct TableFile {
    path: PathBuf,
    checksum: u128,
}

fn check_keyspace(store: &Path, id: u64) -> Result<Vec<TableFile>, StoreError> {
    let folder = keyspace(store, id);
    let tables = manifest(&folder)?;
    for table in &tables {
        check_table(&table.path)?;
    }
    Ok(tables)
}

/// Returns the tables of a keyspace, from its current manifest.
fn manifest(folder: &Path) -> Result<Vec<TableFile>, StoreError> {
    let current = folder.join("current");
    let bytes = read(&current)?;
    let (number, checksum) = decode_current(&bytes)
        .ok_or_else(|| not_whole(&current, "it does not hold the number of a manifest"))?;
    let path = folder.join(format!("v{number}"));
    let bytes = read(&path)?;
    if xxh3_128(&bytes) != checksum {
        return Err(not_whole(&path, "it does not match its checksum"));
    }
    let wrong = || not_whole(&path, "it does not list the tables of its keyspace");
    let archive = sfa::Reader::new(&path).map_err(|_| wrong())?;
    let section = archive.toc().section(b"tables").ok_or_else(wrong)?;
    let (start, end) = (section.pos() as usize, (section.pos() + section.len()) as usize);
    let mut list = bytes.get(start..end).ok_or_else(wrong)?;
    decode_tables(&mut list, &folder.join("tables")).ok_or_else(wrong)
}

/// Reads the number of a manifest, its checksum, and the kind of checksum, which is 0.
fn decode_current(bytes: &[u8]) -> Option<(u64, u128)> {
    let mut bytes = bytes;
    let (number, checksum) = (take(&mut bytes)?, take(&mut bytes)?);
    (bytes == [0]).then_some((u64::from_le_bytes(number), u128::from_le_bytes(checksum)))
}

fn encode_current(number: u64, checksum: u128) -> Vec<u8> {
    [&number.to_le_bytes()[..], &checksum.to_le_bytes(), &[0]].concat()
}

/// Reads levels, which hold runs, which hold tables: number, kind of checksum, checksum, and the
/// sequence number of a table that was written in one piece.
fn decode_tables(bytes: &mut &[u8], folder: &Path) -> Option<Vec<TableFile>> {
    let mut tables = Vec::new();
    let [levels] = take(bytes)?;
    for _ in 0..levels {
        let [runs] = take(bytes)?;
        for _ in 0..runs {
            for _ in 0..u32::from_le_bytes(take(bytes)?) {
                let number = u64::from_le_bytes(take(bytes)?);
                let [_kind] = take(bytes)?;
                let checksum = u128::from_le_bytes(take(bytes)?);
                let _sequence: [u8; 8] = take(bytes)?;
                tables.push(TableFile { path: folder.join(number.to_string()), checksum });
            }
        }
    }
    Some(tables)
}

fn take<const LENGTH: usize>(bytes: &mut &[u8]) -> Option<[u8; LENGTH]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

/// Reads only the end of a table, which lists its parts and is missing in a file that was cut short.
/// Readers of rows find and tolerate damage elsewhere.
fn check_table(path: &Path) -> Result<(), StoreError> {
    // For a file that is too short for a trailer, the reader would return "Invalid argument".
    fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    match sfa::Reader::new(path) {
        Ok(_) => Ok(()),
        Err(_) => Err(not_whole(path, "its table of contents cannot be read")),
    }
}

/// Finds the number of the keyspace with this name. The tables of names are not compressed, and store
/// keys and values whole, each after its length. The key is `n` and the number in eight bytes, the
/// value is the name.
fn find_keyspace(store: &Path, name: &str, names: &[Vec<u8>]) -> Result<Option<u64>, StoreError> {
    let holds =
        |row: &[u8]| names.iter().any(|bytes| bytes.windows(row.len()).any(|window| window == row));
    // This also finds the name of a keyspace whose folder is missing.
    let candidates = keyspaces(store)?.into_iter().chain(1..=8);
    let length = [name.len() as u8];
    let row = |id: u64| [b"\x09n", &id.to_be_bytes()[..], &length, name.as_bytes()].concat();
    Ok(candidates.into_iter().find(|id| holds(&row(*id))))
}

fn keyspace(store: &Path, id: u64) -> PathBuf {
    store.join("keyspaces").join(id.to_string())
}

fn keyspaces(store: &Path) -> Result<Vec<u64>, StoreError> {
    let names = entries(&store.join("keyspaces"))?;
    let mut ids: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Returns the names in a folder; none if the folder is missing.
fn entries(folder: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(folder, &error)),
    };
    let name = |entry: std::io::Result<fs::DirEntry>| match entry {
        Ok(entry) => Ok(entry.file_name().to_string_lossy().into_owned()),
        Err(error) => Err(unreadable(folder, &error)),
    };
    entries.map(name).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    fs::read(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
            StoreError::Damaged(format!("the file {} is missing", path.display()))
        }
        _ => StoreError::Io(format!("{}: {error}", path.display())),
    }
}

fn not_whole(path: &Path, why: &str) -> StoreError {
    StoreError::Damaged(format!("the file {} is not whole: {why}", path.display()))
}
