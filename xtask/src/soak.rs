//! `cargo xtask soak`: many clients at once on the real binary, with accounts of everything.
//!
//! The program that does it is a test of the command line, which runs a short form of it each time.

use crate::process::{Failure, Invocation};

pub(crate) fn run(clients: u32, seconds: u32) -> Result<(), Failure> {
    let (clients, seconds) = (clients.to_string(), seconds.to_string());
    let test = ["test", "--release", "--package", "tickwheel-cli", "--test", "load", "--"];
    let args = ["soak", "--clients", &clients, "--seconds", &seconds];
    Invocation::cargo(test.into_iter().chain(args)).without_limit().run()
}
