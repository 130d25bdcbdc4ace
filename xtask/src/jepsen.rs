//! `cargo xtask jepsen`: a cluster of real processes under load and faults, whose history is checked.
//!
//! The program is a test of the command line's crate; `cargo xtask test cluster` runs a short form.

use crate::process::{Failure, Invocation};

pub(crate) fn run(minutes: u32, seed: Option<u64>, partitions: u32) -> Result<(), Failure> {
    let mut arguments: Vec<String> =
        ["test", "--package", "tickwheel-cli", "--test", "jepsen", "--", "--seconds"]
            .map(str::to_owned)
            .into();
    arguments.push((u64::from(minutes) * 60).to_string());
    arguments.extend(["--partitions".to_owned(), partitions.to_string()]);
    if let Some(seed) = seed {
        arguments.extend(["--seed".to_owned(), seed.to_string()]);
    }
    Invocation::cargo(arguments).without_limit().run()
}
