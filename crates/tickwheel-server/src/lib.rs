//! The HTTP service of Tickwheel: durable delayed jobs for any language.
//!
//! ```no_run
//! use tickwheel_server::{Config, Server, Shutdown};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::bind(Config::default()).await?;
//! server.run(Shutdown::on_signals()?).await;
//! # Ok(())
//! # }
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | [`api`] | what requests and answers look like |
//! | [`backup`] | backups of a data directory, and restoring them |
//! | [`beanstalk`] | the beanstalkd protocol |
//! | [`diagnosis`] | a checkup of a data directory and its machine |
//! | [`config`] | what the service is told at its start, and by whom |
//! | [`tokens`] | who may do what, with which queues |
//! | `cluster` | the service as a node of a cluster |
//! | `routes` | what is served at which path |
//! | `front` | what happens to every request |
//! | `extract`, `query` | what routes read from a request: names, parameters, bodies |
//! | `events` | streams of what happens |
//! | `bulk` | changes to every job that matches a filter |
//! | `insight` | what operators see: overview, history, timing wheel |
//! | `page` | the dashboard, for browsers |
//! | `push` | HTTP targets that get the jobs of queues |
//! | `telemetry` | traces for OpenTelemetry |
//! | `idempotency` | puts that can be repeated |
//! | `server` | connections |
//!
//! What it promises, with examples, is in `docs/SERVER.md` of the repository.
#![forbid(unsafe_code)]

mod app;
mod auth;
pub mod backup;
pub mod beanstalk;
mod bulk;
pub mod clock;
mod cluster;
pub mod config;
pub mod diagnosis;
mod docs_page;
mod events;
mod examples;
mod extract;
mod front;
mod http;
mod idempotency;
mod insight;
mod limits;
mod metrics;
mod openapi;
mod page;
mod problem;
mod push;
mod puts;
mod query;
#[allow(unused_qualifications, reason = "utoipa writes out the paths of parameters")]
mod routes;
mod server;
mod shutdown;
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "nothing is recorded without it"))]
mod telemetry;
mod tls;
pub mod tokens;
mod wire;

/// What requests and answers look like as JSON.
pub use tickwheel_api as api;

#[doc(hidden)] // For tests of clusters.
pub use cluster::ClusterBackend;
pub use config::Config;
pub use server::{Server, StartError};
pub use shutdown::Shutdown;
pub use tls::TlsError;

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
