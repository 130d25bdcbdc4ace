//! One run: one workload on one system, which is started for it and stopped after it.

use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::measure::{self, Figures, pending};
use super::ours::Ours;
use super::plan::Plan;
use super::servers::{BeanstalkdServer, PostgresqlServer, RedisServer, Server};
use super::system::{Class, System};
use super::workload::Workload;
use crate::report::results::Named;
use crate::scratch::Scratch;

/// What to run.
#[derive(Args)]
pub(crate) struct Run {
    #[arg(long)]
    system: System,
    #[command(flatten)]
    plan: Plan,
    /// Only fill our own queue, say how much memory that took, and wait to be killed
    #[arg(long)]
    fill: bool,
}

/// What came of it.
#[derive(Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) figures: Figures,
}

impl Run {
    /// Runs and prints the outcome.
    pub(crate) fn execute(&self) -> Result<()> {
        if self.fill {
            return pending::fill_ours(&self.plan);
        }
        println!("{}", serde_json::to_string(&self.perform()?)?);
        Ok(())
    }

    fn perform(&self) -> Result<Outcome> {
        let workload = self.plan.workload;
        ensure!(self.system.does(workload), "{} does not do this", self.system.label());
        let scratch = Scratch::new(&self.plan.folder)?;
        let figures = match self.system {
            System::Tickwheel | System::TickwheelInterval => self.ours(),
            System::RedisAlways | System::RedisEverysec => self.server::<RedisServer>(),
            System::PostgresqlOn | System::PostgresqlOff => self.server::<PostgresqlServer>(),
            System::BeanstalkdF0 | System::BeanstalkdF50 => self.server::<BeanstalkdServer>(),
        };
        drop(scratch);
        Ok(Outcome { figures: figures? })
    }

    fn is_pending(&self) -> bool {
        matches!(self.plan.workload, Workload::Pending | Workload::PendingMany)
    }

    fn ours(&self) -> Result<Figures> {
        if self.is_pending() {
            return pending::ours(&self.plan);
        }
        let ours = Ours::open(&self.plan.folder, self.system.class())?;
        measure::workload(&ours, &self.plan)
    }

    fn server<S: Server>(&self) -> Result<Figures> {
        if self.is_pending() {
            return pending::server::<S>(&self.plan.folder, &self.plan);
        }
        let relaxed = self.system.class() == Class::Relaxed;
        let (_server, peer) = S::start(&self.plan.folder, relaxed)?;
        measure::workload(&peer, &self.plan)
    }
}
