//! beanstalkd with its binlog.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::Server;
use super::process::{Process, free_port};
use crate::install::{packages, run, starts};
use crate::queue::peers::Beanstalkd;
use crate::suite::origin::Version;

pub(crate) fn set_up() -> Result<Version> {
    if !starts("beanstalkd", "-v") {
        packages(&["beanstalkd"])
            .context("cannot set up beanstalkd; --peers redis,postgresql leaves it out")?;
    }
    let text = run(Command::new("beanstalkd").arg("-v"))?;
    let version = text.split_whitespace().last().unwrap_or("unknown").to_owned();
    Ok(Version { name: "beanstalkd", version })
}

pub(crate) struct BeanstalkdServer;

impl Server for BeanstalkdServer {
    type Peer = Beanstalkd;

    fn start(folder: &Path, relaxed: bool) -> Result<(Process, Beanstalkd)> {
        let port = free_port()?;
        let arguments = [
            "-l".to_owned(),
            "127.0.0.1".to_owned(),
            "-p".to_owned(),
            port.to_string(),
            "-b".to_owned(),
            folder.display().to_string(),
            if relaxed { "-f50" } else { "-f0" }.to_owned(),
        ];
        let program = Path::new("beanstalkd");
        let mut process = Process::start(&[], program, &arguments, folder, Signal::KILL)?;
        let client = process.await_client(|| Beanstalkd::connect(port))?;
        Ok((process, client))
    }
}
