//! The wheels: one test for each promise, and random histories against a model.

mod kinds;
mod model;
#[path = "../random/mod.rs"]
mod random;

mod bugs_elsewhere;
mod handlers;
mod histories;
mod memory;
mod promises;
mod slots;
mod steps;
mod values;
