//! The timer: on a manual clock, on threads, against a model, and against the tests of other
//! timers.

#[path = "../patience/mod.rs"]
mod patience;
#[path = "../random/mod.rs"]
mod random;
#[macro_use]
#[path = "../rig/mod.rs"]
mod rig;

mod clock;
mod executors;
mod life;
mod model;
mod netty_kafka;
mod periodic;
mod regressions;
mod scheduling;
mod stop;
mod storm;
mod threads;
