//! One run: one workload on one system, which is started for it and stopped after it.

use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::measure::{Figures, workload, workload_ahead};
use super::pending;
use super::plan::Plan;
use super::program::Program;
use super::system::System;
use super::workload::Workload;
use crate::queue::ours::Ours;
use crate::queue::servers::{BeanstalkdServer, PostgresqlServer, RedisServer, Server};
use crate::queue::system::Class;
use crate::report::results::Named;
use crate::scratch::Scratch;

/// What to run.
#[derive(Args)]
pub(crate) struct Run {
    #[arg(long)]
    system: System,
    #[command(flatten)]
    plan: Plan,
}

/// What came of it.
#[derive(Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) figures: Figures,
}

impl Run {
    /// Runs and prints the outcome.
    pub(crate) fn execute(&self) -> Result<()> {
        let Self { system, plan } = self;
        ensure!(system.does(plan.workload), "{} does not do this", system.label());
        let scratch = Scratch::new(&plan.folder)?;
        let figures = measure(*system, plan);
        drop(scratch);
        println!("{}", serde_json::to_string(&Outcome { figures: figures? })?);
        Ok(())
    }
}

fn measure(system: System, plan: &Plan) -> Result<Figures> {
    let folder = &plan.folder;
    match system {
        System::Service if plan.workload == Workload::Pending => pending::measure(plan),
        System::Service => {
            let (_program, service, _) = Program::start(&plan.binary, folder, "sync")?;
            workload_ahead(&service, plan)
        }
        System::Beanstalk => {
            let (_program, client) = Program::start_beanstalk(&plan.binary, folder)?;
            workload_ahead(&client, plan)
        }
        System::Embedded => workload(&Ours::open(folder, Class::Synced)?, plan),
        System::Redis => {
            let (_server, peer) = RedisServer::start(folder, false)?;
            workload_ahead(&peer, plan)
        }
        System::Postgresql => {
            let (_server, peer) = PostgresqlServer::start(folder, false)?;
            workload(&peer, plan)
        }
        System::Beanstalkd => {
            let (_server, peer) = BeanstalkdServer::start(folder, false)?;
            workload_ahead(&peer, plan)
        }
    }
}
