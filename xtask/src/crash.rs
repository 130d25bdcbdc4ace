//! `cargo xtask crash`: kills a process that uses the queue, again and again, and checks the queue's
//! promises.
//!
//! The test itself is a program of the queue's crate; `cargo xtask test` runs a short form of it
//! with the other tests.

use crate::process::{Failure, Invocation};

pub(crate) fn run(rounds: u32) -> Result<(), Failure> {
    let rounds = rounds.to_string();
    let fixed = ["test", "--release", "--package", "tickwheel-queue", "--test", "crash", "--"];
    Invocation::cargo(fixed.into_iter().chain(["--rounds", &rounds])).without_limit().run()
}
