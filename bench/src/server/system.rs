//! What is measured: the service, the queue without it, and the peers that answer like it, when
//! what they say is on stable storage.

use clap::ValueEnum;
use serde::Serialize;

use super::workload::Workload;
use crate::queue::peers::Peer;
use crate::report::results::Named;

/// A system under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum System {
    /// `tickwheel serve` as it is without settings, but for its access log
    Service,
    /// The same service through its port for the beanstalkd protocol, without a limit of requests
    Beanstalk,
    /// The queue in it, used as a library: `Durability::Sync`
    Embedded,
    /// Redis with `appendfsync always`
    Redis,
    /// PostgreSQL as it is without settings
    Postgresql,
    /// beanstalkd with `-f0`
    Beanstalkd,
}

impl Named for System {
    fn label(self) -> &'static str {
        match self {
            Self::Service => "tickwheel serve",
            Self::Beanstalk => "tickwheel serve, beanstalk port",
            Self::Embedded => "embedded queue",
            Self::Redis => "Redis",
            Self::Postgresql => "PostgreSQL",
            Self::Beanstalkd => "beanstalkd",
        }
    }
}

impl System {
    /// Every system, in the order in which it is shown.
    pub(super) const ALL: [Self; 6] = [
        Self::Service,
        Self::Beanstalk,
        Self::Embedded,
        Self::Redis,
        Self::Postgresql,
        Self::Beanstalkd,
    ];

    /// Whose it is, if it is not ours.
    pub(super) fn peer(self) -> Option<Peer> {
        match self {
            Self::Service | Self::Beanstalk | Self::Embedded => None,
            Self::Redis => Some(Peer::Redis),
            Self::Postgresql => Some(Peer::Postgresql),
            Self::Beanstalkd => Some(Peer::Beanstalkd),
        }
    }

    /// What a million pending jobs cost the others is what `queue` measures. The protocol of
    /// beanstalkd has no batches, and its delays are whole seconds.
    pub(super) fn does(self, workload: Workload) -> bool {
        match self {
            Self::Service => true,
            Self::Beanstalk => workload == Workload::Put,
            _ => workload != Workload::Pending,
        }
    }
}
