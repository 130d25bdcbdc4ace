//! How due tasks are run: the threads, their roles, executors, and what happens when a task panics.
//!
//! * `worker`: what the threads do; who leads, who guards, who is idle.
//! * `roster`: who does what at the moment.
//! * `threads`: how threads are started, and what happens when that fails.
//! * `executor`: where tasks run.
//! * `panics`: panics of user code are caught and logged.

pub(crate) mod executor;
pub(crate) mod panics;
pub(crate) mod roster;
mod threads;
mod worker;
