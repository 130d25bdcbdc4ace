//! The peers' servers: installed from Debian's packages, started on a free port of loopback, and
//! stopped whatever happens.
//!
//! Ground rules: a server belongs to one run, and its data lies in that run's folder. It is ended
//! when its handle is dropped. Should the run be killed, the kernel ends it: `setpriv` sees to
//! that. So does Ctrl-C, which reaches all of them.

mod beanstalkd;
mod postgresql;
mod process;
mod redis;

use std::path::Path;

use anyhow::Result;

pub(super) use beanstalkd::BeanstalkdServer;
pub(super) use postgresql::PostgresqlServer;
pub(super) use redis::RedisServer;

use super::contender::Contender;
use super::system::System;
use crate::report::origin::Version;

/// A server of a peer. It is stopped when it is dropped.
pub(super) trait Server: Sized {
    type Peer: Contender;

    /// Starts the server in a folder, and gives it with a client once it answers. What is in the
    /// folder already it goes on with.
    fn start(folder: &Path, relaxed: bool) -> Result<(Self, Self::Peer)>;

    /// Resident memory of all its processes in bytes, what they share counted once.
    fn resident(&self) -> Result<u64>;

    /// Ends it like a crash would, and waits until it is gone.
    fn kill(self) -> Result<()>;
}

/// Installs what the systems need that were asked for, and tells the versions of the peers.
pub(super) fn set_up(systems: &[System], folder: &Path) -> Result<Vec<Version>> {
    let wanted = |any: &[System]| any.iter().any(|system| systems.contains(system));
    let mut versions = Vec::new();
    if wanted(&[System::RedisAlways, System::RedisEverysec]) {
        versions.push(redis::set_up()?);
    }
    if wanted(&[System::PostgresqlOn, System::PostgresqlOff]) {
        versions.push(postgresql::set_up(folder)?);
    }
    if wanted(&[System::BeanstalkdF0, System::BeanstalkdF50]) {
        versions.push(beanstalkd::set_up()?);
    }
    Ok(versions)
}
