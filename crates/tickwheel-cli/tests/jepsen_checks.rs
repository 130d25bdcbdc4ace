//! The checks of the Jepsen-like test find the faults that are planted for them.
//!
//! The test itself needs NATS servers and is a program of its own, so its checks are tested here.

#[path = "jepsen/checks/mod.rs"]
#[allow(dead_code, reason = "the Jepsen-like test uses all of it")]
mod checks;
