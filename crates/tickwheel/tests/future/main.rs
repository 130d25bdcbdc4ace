//! Sleeps, timeouts and intervals: on a manual clock, on threads, and on each executor.

#[path = "../patience/mod.rs"]
mod patience;
#[path = "../random/mod.rs"]
mod random;
#[macro_use]
#[path = "../rig/mod.rs"]
mod rig;
#[path = "../wakers/mod.rs"]
mod wakers;

mod executors;
mod model;
mod on_tokio;
mod sleep;
mod spawner;
mod threads;
mod timeout;
