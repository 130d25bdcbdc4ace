//! Plays random histories on a wheel and on the plain model of it.
//!
//! The bytes become a [`model::Case`]: a wheel, its first tick, and what is done to it. The case
//! panics where the wheel and the model part. `cargo fuzz fmt wheel <file>` prints a case as Rust,
//! to be kept as a test.
#![no_main]

#[path = "../../crates/tickwheel/tests/wheel/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;

/// Longer histories find nothing that shorter ones do not, and cost more.
const OPS: usize = 200;

fuzz_target!(|case: model::Case| {
    if case.ops.len() <= OPS {
        case.run();
    }
});
