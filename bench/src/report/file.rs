//! Writing a result to the terminal or to a file, with errors that name it.

use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

/// Refuses a path that cannot be written later, before minutes of measuring.
pub(crate) fn check(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    ensure!(
        folder.is_dir(),
        "cannot write {}: there is no folder {}; make it or give another path",
        path.display(),
        folder.display()
    );
    ensure!(
        !path.is_dir(),
        "cannot write {}: it is a folder; give the path of a file",
        path.display()
    );
    Ok(())
}

/// Prints a result. Whoever reads it may have seen enough: that is no reason to lose the files.
pub(crate) fn print(result: &impl Display) -> Result<()> {
    match writeln!(io::stdout(), "\n{result}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot print the result")
        }
        _ => Ok(()),
    }
}

/// Writes `text` and says so.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// Writes `value` as readable JSON and says so.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    write_text(path, &text)
}
