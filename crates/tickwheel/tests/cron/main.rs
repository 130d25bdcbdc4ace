//! The calendar: expressions and their errors, the times of schedules, and tasks on a timer.

#[path = "../patience/mod.rs"]
mod patience;
#[path = "../random/mod.rs"]
mod random;
#[macro_use]
#[path = "../rig/mod.rs"]
mod rig;

mod calendar;
mod errors;
mod explain;
mod tasks;
mod threads;
mod times;
