//! `cargo xtask deb`: builds the Debian package and checks its contents.
//!
//! cargo-deb makes the package from the metadata in `crates/tickwheel-cli/Cargo.toml`. `dpkg-deb`
//! then lists its files, and the check fails if one is missing.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::process::{Failure, Invocation, Tool, root};

const CARGO_DEB: Tool = Tool { name: "cargo-deb", version: "3.8.0" };
/// The files that the package must contain.
const WANTED: [&str; 6] = [
    "./usr/bin/tickwheel",
    "./usr/share/man/man1/tickwheel.1.gz",
    "./usr/share/man/man1/tickwheel-serve.1.gz",
    "./etc/tickwheel.toml",
    "./usr/lib/systemd/system/tickwheel.service",
    "./usr/share/doc/tickwheel/copyright",
];

pub(crate) fn run() -> Result<(), Failure> {
    let cargo_deb = CARGO_DEB.install()?;
    Invocation::cargo(["build", "--release", "--locked", "--package", "tickwheel-cli"]).run()?;
    let tickwheel = root().join("target/release/tickwheel");
    Invocation::at(&tickwheel, "target/release/tickwheel", ["man", "target/man"]).run()?;
    let args = ["--no-build", "--locked", "--package", "tickwheel-cli"];
    Invocation::at(&cargo_deb, "target/tools/bin/cargo-deb", args).run()?;
    let package = newest()?;
    let shown = package.display().to_string();
    let mut missing = missing(&Invocation::new("dpkg-deb", ["--contents", &shown]).output()?);
    // Without the restart, an upgrade would leave the old version running.
    let script = Invocation::new("dpkg-deb", ["--info", &shown, "postinst"]).output()?;
    if !script.contains("try-restart tickwheel.service") {
        missing.push("the package does not restart the service at an upgrade".to_owned());
    }
    if missing.is_empty() {
        println!("{shown} is complete.");
        return Ok(());
    }
    Err(Failure::Findings(missing))
}

/// Returns the package that was made last.
fn newest() -> Result<PathBuf, Failure> {
    let folder = root().join("target/debian");
    let read = |error| Failure::Read(folder.display().to_string(), error);
    let entries = fs::read_dir(&folder).map_err(read)?.filter_map(Result::ok);
    let packages = entries.map(|entry| entry.path());
    let modified = |path: &PathBuf| {
        path.metadata().and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    packages
        .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .max_by_key(modified)
        .ok_or_else(|| Failure::Missing("cargo-deb made no package".to_owned()))
}

/// Returns the required files that a listing of `dpkg-deb` does not have.
fn missing(contents: &str) -> Vec<String> {
    let names: Vec<&str> =
        contents.lines().filter_map(|line| line.split_whitespace().nth(5)).collect();
    let is_missing = |name: &&&str| !names.contains(*name);
    WANTED.iter().filter(is_missing).map(|name| format!("the package has no {name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_missing_is_named() {
        let line = |name: &&str| format!("-rw-r--r-- root/root 9 2026-01-01 00:00 {name}\n");
        let whole: String = WANTED.iter().map(line).collect();
        assert!(missing(&whole).is_empty());
        let without: String = WANTED[1..].iter().map(line).collect();
        assert_eq!(missing(&without), ["the package has no ./usr/bin/tickwheel"]);
    }
}
