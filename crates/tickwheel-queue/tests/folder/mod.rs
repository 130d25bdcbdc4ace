//! Helpers that copy and damage the files of a queue's directory.

#![allow(dead_code, reason = "no test needs all of it")]

use std::fs;
use std::path::{Path, PathBuf};

/// Copies a folder recursively.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Returns all files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Returns the journals of a queue's directory. The last one is the one that is written to.
pub(crate) fn journals(folder: &Path) -> Vec<PathBuf> {
    let is_journal = |path: &PathBuf| path.extension().is_some_and(|found| found == "jnl");
    let mut journals: Vec<_> =
        files(&folder.join("store")).into_iter().filter(is_journal).collect();
    let number = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<u64>().ok();
    journals.sort_by_key(number);
    journals
}

/// Cuts off the zeroes at the end of a file.
pub(crate) fn cut_zeroes(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |place| place + 1);
    fs::write(path, &bytes[..end]).unwrap();
}

/// Returns the offset of a text in a file.
pub(crate) fn find(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap()
}
