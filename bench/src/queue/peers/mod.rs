//! The peers' clients: each caller has a connection of its own, on loopback.

mod beanstalkd;
mod postgresql;
mod redis;

use clap::ValueEnum;

pub(crate) use beanstalkd::Beanstalkd;
pub(crate) use postgresql::Postgresql;
pub(crate) use redis::Redis;

/// A peer as the command line names it.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    Redis,
    Postgresql,
    Beanstalkd,
    /// No peer: ours alone
    None,
}
