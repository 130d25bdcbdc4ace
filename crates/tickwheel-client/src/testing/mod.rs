//! Help for tests of code that uses Tickwheel.
//!
//! [`Server`] runs the real binary on a manual clock, [`Fake`] answers a client from memory. Both
//! let a test move time instead of waiting for it.
//!
//! | file | what it holds |
//! |---|---|
//! | `server` | the real binary in a process of its own |
//! | `fake` | the fake, and which request means what |
//! | `fake_jobs` | the jobs of a fake |

mod fake;
mod fake_jobs;
mod server;

pub use fake::Fake;
pub(crate) use fake::FakeServer;
pub use server::{Server, ServerBuilder};
