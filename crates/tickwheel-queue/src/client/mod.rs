//! What callers hold: the handle [`Queues`](crate::Queues) and the answers of its operations.
//!
//! A call builds a request and returns an [`Answer`](crate::Answer); nothing is sent before the
//! answer is polled or waited for. Changes go to the writer's inbox, reads to the reader threads.

mod administration;
pub(crate) mod answer;
pub(crate) mod backup;
pub(crate) mod builder;
pub(crate) mod events;
mod leases;
pub(crate) mod queues;
mod reserve;
mod response;
pub(crate) mod schedules;
pub(crate) mod stepper;
mod targets;
