//! Plays random commands on queues and on the plain model of them, with restarts and crashes.
//!
//! The bytes take the place of the random numbers of the property test in
//! `crates/tickwheel-queue/tests/queue_model.rs`, which compares everything after each step.
#![no_main]

#[allow(dead_code, unused_imports, unused_macros, reason = "the tests themselves are not built")]
#[path = "../../crates/tickwheel-queue/tests/queue_model.rs"]
mod queue_model;

use libfuzzer_sys::fuzz_target;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tickwheel_queue::store::MemoryDisk;

fuzz_target!(|bytes: &[u8]| {
    let random = TestRng::from_seed(RngAlgorithm::PassThrough, bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let steps = proptest::collection::vec(queue_model::step(), 1..80).new_tree(&mut runner);
    // The bytes may be too few to choose all steps.
    if let Ok(steps) = steps {
        queue_model::run(MemoryDisk::new(), &steps.current());
    }
});
