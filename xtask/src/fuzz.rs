//! `cargo xtask fuzz`: runs one target of fuzz/ for a while, coverage-guided by libFuzzer.
//!
//! Inputs that reach new code are kept in fuzz/corpus, so a later run continues where this one
//! stopped. An input that fails is kept in fuzz/artifacts.

use std::fs;

use crate::process::{Failure, Invocation, Tool, UNSTABLE, root};

const CARGO_FUZZ: Tool = Tool { name: "cargo-fuzz", version: "0.13.2" };

pub(crate) fn run(target: &str, seconds: u32) -> Result<(), Failure> {
    let known = targets()?;
    if !known.iter().any(|name| name == target) {
        return Err(Failure::Missing(format!(
            "no fuzz target `{target}`; there are: {}",
            known.join(", ")
        )));
    }
    let cargo_fuzz = CARGO_FUZZ.install()?;
    let limit = format!("-max_total_time={seconds}");
    // Starts with long inputs: by default the fuzzer would try only short ones for minutes.
    let length = ["-len_control=0", "-max_len=1500"];
    let build = ["run", "--target-dir", "target/fuzz", target];
    let args = build.into_iter().chain(["--", &limit]).chain(length);
    let fuzz = Invocation::at(&cargo_fuzz, "cargo-fuzz", args).env(UNSTABLE.0, UNSTABLE.1);
    fuzz.without_limit().run()
}

/// Returns the names of the files in `fuzz/fuzz_targets`.
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
