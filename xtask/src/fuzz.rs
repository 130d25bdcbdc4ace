//! `cargo xtask fuzz`: runs one target of fuzz/ for a while, coverage-guided by libFuzzer.
//!
//! Inputs that reach new code are kept in fuzz/corpus, so a later run goes on where this one
//! stopped; an input that fails is kept in fuzz/artifacts.

use std::fs;

use crate::process::{Failure, Invocation, require_nightly, root};

pub(crate) fn run(target: &str, seconds: u32) -> Result<(), Failure> {
    let known = targets()?;
    if !known.iter().any(|name| name == target) {
        return Err(Failure::Missing(format!(
            "no fuzz target `{target}`; there are: {}",
            known.join(", ")
        )));
    }
    require_nightly()?;
    if Invocation::nightly_cargo(["fuzz", "--version"]).output().is_err() {
        Invocation::cargo(["install", "cargo-fuzz", "--locked"]).run()?;
    }
    let limit = format!("-max_total_time={seconds}");
    // Long inputs from the start: by itself the fuzzer would stay with short ones for minutes.
    let length = ["-len_control=0", "-max_len=1500"];
    Invocation::nightly_cargo(["fuzz", "run", target, "--", &limit, length[0], length[1]])
        .without_limit()
        .run()
}

/// The names of the files in `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>, Failure> {
    let unreadable = |error| Failure::Read("fuzz/fuzz_targets".to_owned(), error);
    let mut names = Vec::new();
    for file in fs::read_dir(root().join("fuzz/fuzz_targets")).map_err(unreadable)? {
        let path = file.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}
