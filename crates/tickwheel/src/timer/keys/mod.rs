//! Keys of tasks: scheduling a key again replaces its pending task.
//!
//! * `key`: the type of keys.
//! * `keyed`: scheduling, resetting and inspecting a task by its key.
//! * `table`: the table that finds the pending task of a key.
//! * `cancellations`: tasks that were cancelled by key and whose handle still exists.

mod cancellations;
mod key;
mod keyed;
pub(crate) mod table;

pub use key::Key;
pub use keyed::Keyed;
