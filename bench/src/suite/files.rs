//! The files that a result is written to.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::options::Choice;

/// The path of `bench/results`, independent of the working directory.
const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/results");

/// The files that the user asked for.
#[derive(Default)]
pub(super) struct Files {
    pub(super) json: Vec<PathBuf>,
    pub(super) svg: Vec<PathBuf>,
    pub(super) markdown: Vec<PathBuf>,
}

impl Files {
    /// Refuses paths that cannot be written, before minutes of measuring.
    pub(super) fn check(choice: &Choice) -> Result<Self> {
        let mut files = Self::default();
        files.json.extend(choice.path("json").cloned());
        files.svg.extend(choice.path("svg").cloned());
        if choice.flag("save") {
            fs::create_dir_all(RESULTS).with_context(|| format!("cannot create {RESULTS}"))?;
            let path = |end| PathBuf::from(format!("{RESULTS}/{}.{end}", choice.spec.name));
            files.json.push(path("json"));
            files.svg.push(path("svg"));
            files.markdown.push(path("md"));
        }
        let mut paths = files.json.iter().chain(&files.svg).chain(&files.markdown);
        paths.try_for_each(|path| check(path))?;
        Ok(files)
    }
}

fn check(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let shown = path.display();
    ensure!(
        folder.is_dir(),
        "cannot write {shown}: there is no folder {}; create it or give another path",
        folder.display()
    );
    ensure!(!path.is_dir(), "cannot write {shown}: it is a folder; give the path of a file");
    Ok(())
}

/// Writes `text` to each path and prints the path.
pub(super) fn write(paths: &[PathBuf], text: &str) -> Result<()> {
    for path in paths {
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}
