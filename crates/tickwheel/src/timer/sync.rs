//! The locks, condition variables and atomics that a timer's threads and callers share.
//!
//! They are imported from here so that the models in `tests/timer_loom.rs` and
//! `tests/delay_queue/models.rs` can replace them with loom's (`--cfg tickwheel_loom`), which tries
//! every interleaving of the threads. In such a build time stands still.
//!
//! `Arc` is always the standard one: no code depends on the order in which clones are dropped.

#[cfg(not(tickwheel_loom))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, fence};
#[cfg(not(tickwheel_loom))]
pub(crate) use std::sync::Condvar;
#[cfg(not(tickwheel_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};
#[cfg(not(tickwheel_loom))]
pub(crate) use std::thread::yield_now;
#[cfg(not(tickwheel_loom))]
pub(crate) use std::thread_local;

#[cfg(tickwheel_loom)]
pub(crate) use loom::sync::Condvar;
#[cfg(tickwheel_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, fence};
#[cfg(tickwheel_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(tickwheel_loom)]
pub(crate) use loom::thread::yield_now;
#[cfg(tickwheel_loom)]
pub(crate) use loom::thread_local;
