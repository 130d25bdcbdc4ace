//! Connections: who gets one, and what it may cost.
//!
//! - [`answer`] makes answers that carry jobs, in steps if they are large.
//! - [`descriptors`] shares the file descriptors of the process out between store and connections.
//! - [`connections`] counts connections, and chooses which to close when there are too many.
//! - [`listener`] serves the HTTP requests on a connection.
//! - [`memory`] bounds what requests and answers in flight take together.
//! - [`ports`] accepts connections on all ports.
//! - [`pipeline`] serves puts that arrive together, before hyper serves anything else.
//! - [`stall`] gives up on clients that do not read their answers.

pub(crate) mod answer;
pub(crate) mod connections;
pub(crate) mod descriptors;
pub(crate) mod listener;
pub(crate) mod memory;
mod pipeline;
pub(crate) mod ports;
pub(crate) mod stall;

pub(crate) use connections::Visit;
