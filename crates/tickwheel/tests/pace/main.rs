//! Pacers: the promises of the module `pace`, one file for each kind of test.
//!
//! * `life`: tasks, tickets and keys on a manual clock, one situation at a time.
//! * `attempts`: tasks that are tried again.
//! * `drain`: what happens to queued tasks when a pacer or its timer drains.
//! * `permits`: permits that are awaited.
//! * `model`: random operations beside `plain`, a model that keeps every start in a list.
//! * `threads`: storms on the real clock.

#[path = "../patience/mod.rs"]
mod patience;
#[path = "../random/mod.rs"]
mod random;
#[path = "../rig/mod.rs"]
mod rig;
#[path = "../wakers/mod.rs"]
mod wakers;

mod attempts;
mod drain;
mod life;
mod model;
mod permits;
mod plain;
mod threads;
