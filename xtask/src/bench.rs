//! `cargo xtask bench`: hands its arguments to the program of the bench/ workspace.

use std::ffi::OsString;

use crate::process::{Failure, Invocation};

pub(crate) fn run(args: Vec<OsString>) -> Result<(), Failure> {
    let fixed = ["run", "--release", "--manifest-path", "bench/Cargo.toml", "--"];
    Invocation::cargo(fixed.into_iter().map(OsString::from).chain(args)).run()
}
