//! `cargo xtask soak`: many clients use the real binary at once, and every job is accounted for.
//!
//! The program is a test of the command line's crate; `cargo xtask test` runs a short form.

use crate::process::{Failure, Invocation};

pub(crate) fn run(clients: u32, seconds: u32) -> Result<(), Failure> {
    let (clients, seconds) = (clients.to_string(), seconds.to_string());
    let test = ["test", "--release", "--package", "tickwheel-cli", "--test", "load", "--"];
    let args = ["soak", "--clients", &clients, "--seconds", &seconds];
    Invocation::cargo(test.into_iter().chain(args)).without_limit().run()
}
