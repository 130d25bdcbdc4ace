//! The peers' servers: installed from Debian's packages, started on a free port of loopback, and
//! stopped whatever happens.
//!
//! Ground rules: a server belongs to one run, and its data lies in that run's folder. It is ended
//! when its handle is dropped. Should the run be killed, the kernel ends it: `setpriv` sees to
//! that. So does Ctrl-C, which reaches all of them.

mod beanstalkd;
mod postgresql;
pub(crate) mod process;
mod redis;

use std::path::Path;

use anyhow::Result;

pub(crate) use beanstalkd::BeanstalkdServer;
pub(crate) use postgresql::{PostgresqlServer, template};
pub(crate) use redis::RedisServer;

use super::contender::Contender;
use super::peers::Peer;
use crate::report::origin::Version;

/// A server of a peer. It is stopped when it is dropped.
pub(crate) trait Server: Sized {
    type Peer: Contender;

    /// Starts the server in a folder, and gives it with a client once it answers. What is in the
    /// folder already it goes on with.
    fn start(folder: &Path, relaxed: bool) -> Result<(Self, Self::Peer)>;

    /// Resident memory of all its processes in bytes, what they share counted once.
    fn resident(&self) -> Result<u64>;

    /// Ends it like a crash would, and waits until it is gone.
    fn kill(self) -> Result<()>;
}

/// Installs the servers of the peers that were asked for, and tells their versions.
pub(crate) fn set_up(peers: &[Peer], folder: &Path) -> Result<Vec<Version>> {
    let all = [Peer::Redis, Peer::Postgresql, Peer::Beanstalkd];
    let wanted = all.into_iter().filter(|peer| peers.contains(peer));
    wanted.map(|peer| set_up_one(peer, folder)).filter_map(Result::transpose).collect()
}

fn set_up_one(peer: Peer, folder: &Path) -> Result<Option<Version>> {
    match peer {
        Peer::Redis => redis::set_up().map(Some),
        Peer::Postgresql => postgresql::set_up(folder).map(Some),
        Peer::Beanstalkd => beanstalkd::set_up().map(Some),
        Peer::None => Ok(None),
    }
}
