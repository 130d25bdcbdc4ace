//! `cargo xtask sanitize`: the library's tests under `AddressSanitizer`.
//!
//! It finds a use after free, an access out of bounds and a leak in the one module that may use
//! `unsafe`. Everything is compiled once more, into a target directory of its own, so that the
//! other chores keep their caches.

use crate::process::{Failure, Invocation, host, require_nightly};

pub(crate) fn run() -> Result<(), Failure> {
    require_nightly()?;
    let host = host()?;
    // Naming the target keeps the flag away from build scripts and procedural macros, which the
    // compiler loads into itself. Some optimisation makes up for what the sanitizer costs.
    Invocation::nightly_cargo([
        "test",
        "--package=tickwheel",
        "--all-features",
        "--lib",
        "--tests",
        "--config=profile.test.opt-level=1",
        "--target-dir=target/sanitize",
        &format!("--target={host}"),
    ])
    .env("RUSTFLAGS", "-Zsanitizer=address")
    .run()
}
