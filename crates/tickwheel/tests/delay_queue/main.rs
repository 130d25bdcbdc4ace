//! The delay queue: its promises on a manual clock, a model, and threads. Built with `--cfg
//! tickwheel_loom`, this binary contains the loom models instead.

#[cfg(tickwheel_loom)]
mod models;

#[cfg(not(tickwheel_loom))]
#[path = "../patience/mod.rs"]
mod patience;
#[cfg(not(tickwheel_loom))]
#[path = "../random/mod.rs"]
mod random;
#[cfg(not(tickwheel_loom))]
#[path = "../rig/mod.rs"]
mod rig;
#[cfg(not(tickwheel_loom))]
#[path = "../wakers/mod.rs"]
mod wakers;

#[cfg(not(tickwheel_loom))]
mod model;
#[cfg(not(tickwheel_loom))]
mod promises;
#[cfg(not(tickwheel_loom))]
mod threads;
