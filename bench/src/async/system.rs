//! The systems by name, and which of them does what.

use clap::ValueEnum;
use serde::Serialize;

use super::workload::Workload;
use crate::report::results::Named;

/// A system under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum System {
    /// Tickwheel's futures on `Timer::new()`
    Tickwheel,
    /// tokio's own, and tokio-util's `DelayQueue`
    Tokio,
    /// async-io's `Timer`
    AsyncIo,
    /// futures-timer's `Delay`
    FuturesTimer,
    /// No timeout at all
    Bare,
}

impl System {
    pub(super) const ALL: [Self; 5] =
        [Self::Tickwheel, Self::Tokio, Self::AsyncIo, Self::FuturesTimer, Self::Bare];

    /// Whether the system does this. Without any timeout there is nothing but to receive.
    pub(super) fn does(self, workload: Workload) -> bool {
        match self {
            Self::Tickwheel | Self::Tokio => true,
            Self::AsyncIo | Self::FuturesTimer => workload != Workload::Queue,
            Self::Bare => workload == Workload::Receive,
        }
    }
}

impl Named for System {
    fn label(self) -> &'static str {
        match self {
            Self::Tickwheel => "tickwheel",
            Self::Tokio => "tokio",
            Self::AsyncIo => "async-io",
            Self::FuturesTimer => "futures-timer",
            Self::Bare => "no timeout",
        }
    }
}
