//! Pacers: the promises of the module `pace`, one file for each kind of test.
//!
//! * `life`: tasks and tickets on a manual clock, one situation at a time.
//! * `keys`: the same for keys.
//! * `attempts`: tasks that are retried.
//! * `drain`: the fate of queued tasks when a pacer or its timer drains.
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
mod keys;
mod life;
mod model;
mod permits;
mod plain;
mod threads;
