//! Gives one process a wrong wall clock.

use std::io;
use std::path::{Path, PathBuf};

use crate::install_package;

/// Where Debian keeps libraries.
const LIBRARIES: &str = "/usr/lib";
/// The library for programs with several threads.
const NAME: &str = "faketime/libfaketimeMT.so.1";

/// Returns the path of `libfaketime`. Installs it first if it is missing.
///
/// # Errors
///
/// If it cannot be installed.
pub fn library() -> io::Result<PathBuf> {
    if let Some(path) = find()? {
        return Ok(path);
    }
    install_package("libfaketime")?;
    find()?.ok_or_else(|| io::Error::other(format!("{NAME} is not under {LIBRARIES}")))
}

fn find() -> io::Result<Option<PathBuf>> {
    let is_there = |path: &PathBuf| path.exists();
    let folders = std::fs::read_dir(Path::new(LIBRARIES))?.filter_map(Result::ok);
    Ok(folders.map(|folder| folder.path().join(NAME)).find(is_there))
}

/// Returns environment variables under which a process sees the wall clock this much ahead, or
/// behind if the number is negative. The monotonic clock and times of files stay right.
pub fn environment(library: &Path, offset_ms: i64) -> [String; 5] {
    [
        format!("LD_PRELOAD={}", library.display()),
        format!("FAKETIME={:+.3}", offset_ms as f64 / 1_000.0),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
        "FAKETIME_DISABLE_SHM=1".to_owned(),
        "NO_FAKE_STAT=1".to_owned(),
    ]
}
