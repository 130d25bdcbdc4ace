//! `cargo xtask sanitize`: the library's tests under `AddressSanitizer`.
//!
//! The sanitizer finds uses after free, accesses out of bounds and leaks in the one module that may
//! use `unsafe`. Everything is compiled once more, into a target directory of its own, so that the
//! other chores keep their caches.
//!
//! A test that leaks on purpose, through `mem::forget`, has `forgotten` in its name. These tests run
//! separately, without the search for leaks.

use crate::process::{Failure, Invocation, UNSTABLE, host};

const LEAKS_ON_PURPOSE: &str = "forgotten";

pub(crate) fn run() -> Result<(), Failure> {
    let host = host()?;
    tests(&host, &["--skip", LEAKS_ON_PURPOSE]).run()?;
    tests(&host, &[LEAKS_ON_PURPOSE]).env("ASAN_OPTIONS", "detect_leaks=0").run()
}

fn tests(host: &str, choice: &[&str]) -> Invocation {
    let target = format!("--target={host}");
    let fixed = [
        "test",
        "--package=tickwheel",
        "--all-features",
        "--lib",
        "--tests",
        // Some optimisation compensates the cost of the sanitizer.
        "--config=profile.test.opt-level=1",
        // With an explicit target, the flag below does not apply to build scripts and procedural
        // macros, which the compiler loads into its own process.
        &target,
        "--target-dir=target/sanitize",
        "--",
    ];
    Invocation::cargo(fixed.iter().chain(choice).copied())
        .env(UNSTABLE.0, UNSTABLE.1)
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .without_limit()
}
