//! The peers' servers: installed from Debian's packages, started on a free port of loopback, and
//! always stopped.
//!
//! Ground rules: a server belongs to one run, and stores its data in that run's folder. Dropping
//! its handle ends it. If the run is killed, the kernel kills the server, because `setpriv`
//! requests that signal. Ctrl-C reaches the servers as well.

mod beanstalkd;
mod postgresql;
pub(crate) mod process;
mod redis;

use std::path::Path;

use anyhow::Result;

pub(crate) use beanstalkd::BeanstalkdServer;
pub(crate) use postgresql::PostgresqlServer;
pub(crate) use redis::RedisServer;

use self::process::Process;
use super::contender::Contender;
use crate::suite::options::Choice;
use crate::suite::origin::Version;

/// A server of a peer.
pub(crate) trait Server {
    type Peer: Contender;

    /// Starts the server in a folder, with the data in it. Returns its process and a client once it
    /// answers.
    fn start(folder: &Path, relaxed: bool) -> Result<(Process, Self::Peer)>;
}

/// Installs the servers of the peers that the user chose and returns their versions.
pub(crate) fn set_up(choice: &Choice) -> Result<Vec<Version>> {
    let mut versions = Vec::new();
    if choice.has_peer("redis") {
        versions.push(redis::set_up()?);
    }
    if choice.has_peer("postgresql") {
        versions.push(postgresql::set_up(&choice.folder())?);
    }
    if choice.has_peer("beanstalkd") {
        versions.push(beanstalkd::set_up()?);
    }
    Ok(versions)
}
