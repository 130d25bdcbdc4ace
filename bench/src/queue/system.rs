//! The queues by name, and how durable their answers are.

use clap::ValueEnum;
use serde::Serialize;

use super::peers::Peer;
use super::workload::Workload;
use crate::report::results::Named;

/// A queue under test, with what its answers mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum System {
    /// Tickwheel's queue as it is without settings: `Durability::Sync`
    Tickwheel,
    /// Redis with `appendfsync always`
    RedisAlways,
    /// PostgreSQL as it is without settings: `synchronous_commit = on`
    PostgresqlOn,
    /// beanstalkd with `-f0`
    BeanstalkdF0,
    /// Tickwheel's queue with `Durability::Interval`
    TickwheelInterval,
    /// Redis with `appendfsync everysec`
    RedisEverysec,
    /// PostgreSQL with `synchronous_commit = off`
    PostgresqlOff,
    /// beanstalkd with `-f50`
    BeanstalkdF50,
}

/// What a positive answer means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// It survives a power failure.
    Synced,
    /// A power failure may take what was answered a moment ago.
    Relaxed,
}

impl Class {
    pub(super) const ALL: [Self; 2] = [Self::Synced, Self::Relaxed];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Synced => "On stable storage when answered",
            Self::Relaxed => "On stable storage a moment later",
        }
    }

    /// The queue of ours that answers like this.
    pub(super) fn ours(self) -> System {
        match self {
            Self::Synced => System::Tickwheel,
            Self::Relaxed => System::TickwheelInterval,
        }
    }
}

impl Named for System {
    fn label(self) -> &'static str {
        match self {
            Self::Tickwheel => "tickwheel, sync",
            Self::RedisAlways => "Redis, always",
            Self::PostgresqlOn => "PostgreSQL, on",
            Self::BeanstalkdF0 => "beanstalkd, -f0",
            Self::TickwheelInterval => "tickwheel, interval",
            Self::RedisEverysec => "Redis, everysec",
            Self::PostgresqlOff => "PostgreSQL, off",
            Self::BeanstalkdF50 => "beanstalkd, -f50",
        }
    }
}

impl System {
    /// Ours come first in their class.
    pub(super) const ALL: [Self; 8] = [
        Self::Tickwheel,
        Self::RedisAlways,
        Self::PostgresqlOn,
        Self::BeanstalkdF0,
        Self::TickwheelInterval,
        Self::RedisEverysec,
        Self::PostgresqlOff,
        Self::BeanstalkdF50,
    ];

    pub(super) fn class(self) -> Class {
        match self {
            Self::Tickwheel | Self::RedisAlways | Self::PostgresqlOn | Self::BeanstalkdF0 => {
                Class::Synced
            }
            Self::TickwheelInterval
            | Self::RedisEverysec
            | Self::PostgresqlOff
            | Self::BeanstalkdF50 => Class::Relaxed,
        }
    }

    /// Whose it is, if it is not ours.
    pub(super) fn peer(self) -> Option<Peer> {
        match self {
            Self::Tickwheel | Self::TickwheelInterval => None,
            Self::RedisAlways | Self::RedisEverysec => Some(Peer::Redis),
            Self::PostgresqlOn | Self::PostgresqlOff => Some(Peer::Postgresql),
            Self::BeanstalkdF0 | Self::BeanstalkdF50 => Some(Peer::Beanstalkd),
        }
    }

    pub(super) fn is_ours(self) -> bool {
        self.peer().is_none()
    }

    /// What is in memory and how long a restart takes does not depend on when things are synced,
    /// so only the quicker class is filled for that. Lateness is measured where it is harder.
    pub(super) fn does(self, workload: Workload) -> bool {
        match workload {
            Workload::Pending => self.class() == Class::Relaxed,
            Workload::PendingMany => self == Self::TickwheelInterval,
            Workload::Lateness => self.class() == Class::Synced,
            Workload::Put | Workload::PutBatch | Workload::EndToEnd | Workload::Cancel => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_comes_first_in_each_class() {
        for class in Class::ALL {
            let first = System::ALL.into_iter().find(|system| system.class() == class);
            assert_eq!(first, Some(class.ours()));
        }
    }
}
