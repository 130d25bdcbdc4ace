//! The timers by name, and which of them does what.

use clap::ValueEnum;
use serde::Serialize;

use super::workload::Workload;
use crate::report::results::Named;

/// A timer under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum System {
    /// Tickwheel's `Timer` as `Timer::new` makes it
    Tickwheel,
    /// Tickwheel's `Timer` with tasks on the wheel's own thread
    Inline,
    /// Tickwheel's `Timer` on a hashed wheel with 512 slots
    Hashed,
    /// Tickwheel's `Timer` with a key for every task
    Keyed,
    /// Netty's `HashedWheelTimer` with 512 slots
    Netty,
    /// The same on the JVM's parallel collector
    NettyParallel,
    /// The JDK's `ScheduledThreadPoolExecutor`
    Jdk,
    /// Go's `time.AfterFunc`
    Go,
    /// tokio's `Sleep`
    Tokio,
    /// async-io's `Timer`
    AsyncIo,
}

impl Named for System {
    fn label(self) -> &'static str {
        match self {
            Self::Tickwheel => "tickwheel",
            Self::Inline => "inline",
            Self::Hashed => "hashed",
            Self::Keyed => "keyed",
            Self::Netty => "Netty",
            Self::NettyParallel => "Netty, parallel GC",
            Self::Jdk => "JDK",
            Self::Go => "Go",
            Self::Tokio => "tokio",
            Self::AsyncIo => "async-io",
        }
    }
}

impl System {
    pub(super) const ALL: [Self; 10] = [
        Self::Tickwheel,
        Self::Inline,
        Self::Hashed,
        Self::Keyed,
        Self::Netty,
        Self::NettyParallel,
        Self::Jdk,
        Self::Go,
        Self::Tokio,
        Self::AsyncIo,
    ];

    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Tickwheel | Self::Inline | Self::Hashed | Self::Keyed)
    }

    /// Whether the system does this. Netty and the JDK cannot reset; other configurations of a
    /// system do only what is different for them. Threads are compared with those of Netty and
    /// tokio; pauses are ours alone.
    pub(super) fn does(self, workload: Workload) -> bool {
        if workload == Workload::Pause {
            return self == Self::Tickwheel;
        }
        if workload.threads() > 1 {
            let peers = [Self::Tickwheel, Self::Netty, Self::NettyParallel, Self::Tokio];
            return peers.contains(&self);
        }
        match self {
            Self::Netty | Self::Jdk => workload != Workload::Reset,
            Self::NettyParallel => matches!(
                workload,
                Workload::Schedule
                    | Workload::Cancel
                    | Workload::Churn
                    | Workload::TwoProducers
                    | Workload::Fire
            ),
            Self::Inline => matches!(workload, Workload::Fire | Workload::Blocked),
            Self::Hashed => {
                !matches!(workload, Workload::TwoProducers | Workload::Memory | Workload::Blocked)
            }
            Self::Keyed => matches!(
                workload,
                Workload::Schedule
                    | Workload::Cancel
                    | Workload::Churn
                    | Workload::Reset
                    | Workload::Memory
            ),
            Self::Tickwheel | Self::Go | Self::Tokio | Self::AsyncIo => true,
        }
    }
}
