//! The service through real HTTP, on a free port of this machine.

mod access;
mod beanstalk;
mod beanstalk_workers;
mod client;
mod clock;
mod cluster;
mod events;
mod groups;
mod idempotency;
mod insight;
mod jobs;
mod lifecycle;
mod limits;
mod page;
mod pipeline;
mod push;
mod push_rate;
mod queues;
mod schedules;
mod security;
mod system;
mod target;
mod telemetry;
mod tls;
mod verify;
mod workers;
