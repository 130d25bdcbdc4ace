//! Keys of tasks: scheduling a key again replaces its pending task.
//!
//! * `key`: what a key is.
//! * `keyed`: scheduling, resetting and inspecting a task by its key.
//! * `table`: which pending task has which key.

mod key;
mod keyed;
pub(crate) mod table;

pub use key::Key;
pub use keyed::Keyed;
