//! `cargo xtask sanitize`: the library's tests under `AddressSanitizer`.
//!
//! It finds a use after free, an access out of bounds and a leak in the one module that may use
//! `unsafe`. Everything is compiled once more, into a target directory of its own, so that the
//! other chores keep their caches.
//!
//! A test that leaks on purpose, through `mem::forget`, has `forgotten` in its name. These run
//! apart from the others, with all of the sanitizer but its search for leaks.

use crate::process::{Failure, Invocation, host, require_nightly};

const LEAKS_ON_PURPOSE: &str = "forgotten";

pub(crate) fn run() -> Result<(), Failure> {
    require_nightly()?;
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
        // Some optimisation makes up for what the sanitizer costs.
        "--config=profile.test.opt-level=1",
        // Naming the target keeps the flag below away from build scripts and procedural macros,
        // which the compiler loads into itself.
        &target,
        "--target-dir=target/sanitize",
        "--",
    ];
    Invocation::nightly_cargo(fixed.iter().chain(choice).copied())
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .without_limit()
}
