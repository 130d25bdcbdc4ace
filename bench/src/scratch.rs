//! The folder of a run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// An empty folder, removed with its contents when this is dropped.
pub(crate) struct Scratch<'a>(&'a Path);

impl<'a> Scratch<'a> {
    pub(crate) fn new(path: &'a Path) -> Result<Self> {
        if path.exists() {
            fs::remove_dir_all(path).with_context(|| format!("cannot empty {}", path.display()))?;
        }
        fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}
