//! The execution of due tasks: threads and their roles, executors, and panics.
//!
//! * `worker`: the work of a thread, and its roles: leader, guard, idle.
//! * `roster`: the current roles and the number of threads.
//! * `threads`: starting threads, and failures to do so.
//! * `executor`: the places where tasks can run.
//! * `panics`: catching and logging panics of user code.

pub(crate) mod executor;
pub(crate) mod panics;
pub(crate) mod roster;
mod threads;
mod worker;
