//! `cargo xtask simulate`: a cluster of three nodes in one thread, with faults that seeds decide.
//!
//! The simulation is a test of the cluster's crate; `cargo xtask test` runs its first seeds.

use crate::process::{Failure, Invocation};

/// Runs the seeds from `first` on, or one seed only.
pub(crate) fn run(seeds: u64, first: u64, seed: Option<u64>) -> Result<(), Failure> {
    let test = ["test", "--package", "tickwheel-cluster", "--test", "simulation", "--"];
    let name = ["no_seed_breaks_a_promise", "--exact", "--nocapture"];
    let simulate = Invocation::cargo(test.into_iter().chain(name));
    match seed {
        Some(seed) => simulate.env("TICKWHEEL_SEED", seed.to_string()),
        None => simulate
            .env("TICKWHEEL_SEEDS", seeds.to_string())
            .env("TICKWHEEL_FIRST_SEED", first.to_string()),
    }
    .without_limit()
    .run()
}
