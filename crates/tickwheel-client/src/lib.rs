//! The client of the Tickwheel service: delayed jobs for any number of processes.
//!
//! [`Client`] puts, finds and cancels jobs and does everything else that the HTTP API can do.
//! [`Client::worker`] makes a worker: handlers for queues, with leases that are extended while a
//! handler runs. [`blocking::Client`] is for programs without an async runtime.
//!
//! ```no_run
//! use std::time::Duration;
//! use tickwheel_client::{Client, NewJob, Payload, Work};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), tickwheel_client::Error> {
//!     let client = Client::new("http://127.0.0.1:7300")?;
//!     // An order is to be closed if it is not paid within half an hour.
//!     let close = NewJob::json("orders", &42)?.key("order-42");
//!     client.put(close.delay(Duration::from_secs(30 * 60))).await?;
//!
//!     // The worker that closes orders, until the process is told to stop.
//!     let worker = client.worker().concurrency(8).handle("orders", async |work: Work| {
//!         let order: u64 = work.job().json()?;
//!         println!("closing order {order}");
//!         Ok::<_, tickwheel_client::Error>(())
//!     });
//!     worker.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await;
//!     Ok(())
//! }
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `client` | the client, and operations on single jobs |
//! | `batches` | operations on many jobs in one request |
//! | `administration` | queues, groups, schedules, the server |
//! | `insight` | errors by group, changes to every job that matches, the numbers of dashboards |
//! | `targets` | HTTP endpoints that get the jobs of queues |
//! | `puts` | puts of concurrent callers, sent together |
//! | `worker` | handlers, leases and shutdown |
//! | `transport` | requests, and when they are repeated |
//! | `events` | the stream of events |
//! | `webhook` | signatures of push deliveries |
//! | `trace` | traces that jobs pass on |
//! | [`testing`] | a real server on a manual clock, and a fake in memory |
#![forbid(unsafe_code)]

mod administration;
mod batches;
pub mod blocking;
mod client;
mod error;
mod events;
mod insight;
mod job;
mod puts;
mod targets;
pub mod testing;
mod trace;
mod transport;
mod webhook;
mod worker;

/// What requests and answers look like as JSON.
pub use tickwheel_api as api;

pub use batches::BatchResult;
pub use client::{Client, ClientBuilder, List, Retry};
pub use error::Error;
pub use events::{EventFilter, Events, TargetEvents, Told};
pub use job::{JobRef, Lease, NewJob, Payload};
pub use webhook::{WebhookError, verify_webhook};
pub use worker::{IntoOutcome, Next, Outcome, Work, Worker, WorkerBuilder};

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
