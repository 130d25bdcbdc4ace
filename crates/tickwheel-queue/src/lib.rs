//! Durable delayed jobs: a delay queue that survives restarts, with a timing wheel as its clock.
//!
//! A timer in memory loses everything when its process ends, and holds a task due in ten days in
//! memory for ten days. Here a job is on disk when `put` returns, and comes into memory when its
//! time is near.
//!
//! ```
//! use std::time::Duration;
//! use tickwheel_queue::{NewJob, Queues};
//!
//! let folder = tempfile::tempdir()?;
//! let queues = Queues::open(folder.path())?;
//!
//! // An order is to be closed if it is not paid within half an hour.
//! let close = NewJob::new("orders", "close order 42").key("order-42");
//! queues.put(close.delay(Duration::from_secs(30 * 60))).wait()?;
//! // It is paid.
//! queues.cancel(("orders", "order-42")).wait()?;
//!
//! // Workers reserve jobs, do them, and acknowledge.
//! queues.put(NewJob::new("mail", "welcome").delay(Duration::from_millis(20))).wait()?;
//! let wait = Duration::from_secs(10);
//! for delivery in queues.reserve_within("mail", 10, None, wait).wait()? {
//!     println!("{:?}", delivery.job.payload);
//!     queues.ack(delivery.lease).wait()?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The life of a job
//!
//! A call of [`Queues`] becomes a command in the inbox of the one thread that writes. That thread
//! takes all commands that wait, has the engine apply them, commits the rows that the engine
//! changed as one batch, syncs it, and only then answers. A job that is due within the next
//! minutes is in a timing wheel in memory; later ones are rows in the order of their due time, and
//! are read when they come near. When a job is due it is *ready*; `reserve` hands it out with a
//! lease and notes the attempt; `ack` ends it. If the worker fails, or the lease runs out, the job
//! waits again as its retry policy says. After its last attempt it is *dead*, until an operator
//! kicks or removes it.
//!
//! | module | what it holds |
//! |---|---|
//! | `model` | jobs, settings, schedules, errors: what callers and the engine talk about, and its bounds |
//! | `client` | what callers hold: [`Queues`], [`Answer`], [`Events`] |
//! | `runtime` | the thread that writes, the threads that read, the callers that wait for jobs |
//! | `engine` | what a command does to the rows: no thread, no lock, no clock |
//! | `store` | the tables on disk, their encoding, and their recovery after crashes and damage |
//!
//! What is promised at each moment, also when the power fails, is in `docs/QUEUE.md` of the
//! repository.
#![forbid(unsafe_code)]

mod client;
mod engine;
mod model;
mod runtime;
#[doc(hidden)] // Public for backups, and for tests that replace the disk.
pub mod store;

pub use client::answer::Answer;
pub use client::backup::Backup;
pub use client::builder::Builder;
pub use client::events::Events;
pub use client::queues::Queues;
#[doc(hidden)] // For simulations.
pub use client::stepper::Stepper;
pub use engine::{Put, PutKind};
pub use model::access::Access;
pub use model::activity::{Activity, Lateness};
pub use model::admission::Offer;
pub use model::error::{Error, Limit, OpenError};
pub use model::error_group::{ErrorGroup, ErrorList, ErrorPage};
pub use model::event::{Event, EventId, EventKind, EventsError, ParseEventIdError};
pub use model::group::{GroupInfo, GroupList, GroupPage, GroupPatch, GroupSettings};
pub use model::history::{Attempt, AttemptOutcome};
pub use model::id::{JobId, ParseIdError};
pub use model::idempotency::{IdempotencyKey, PutOnce};
pub use model::import::ImportedJob;
pub use model::job::{Delivery, Job, JobRef, Lease, State};
pub use model::list::{List, Page, PageToken};
pub use model::new_job::{FollowUp, NewJob, OnConflict, When};
pub use model::retry::{Retry, RetryPolicy};
pub use model::sample::{QueueSample, Sample};
pub use model::schedule::{NewSchedule, PutSchedule, Schedule, Timing};
pub use model::settings::{Keep, Limits, Order, Pacing, QueueSettings, Retention, SettingsPatch};
pub use model::short_id::{ParseShortIdError, ShortId};
pub use model::stats::{Durability, QueueCounters, QueueInfo, Stats};
pub use model::target::StoredTarget;
pub use model::time::Time;
pub use model::upcoming::DueCount;
pub use model::wheel::{WheelInfo, WheelLevel, WheelSlot};
#[doc(hidden)] // For replicated stores.
pub use model::{placement::Placement, time::TimeFloor};
pub use tickwheel::cron;

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
