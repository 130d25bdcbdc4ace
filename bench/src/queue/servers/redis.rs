//! Redis with its append-only file and without snapshots.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::Server;
use super::process::{Process, free_port};
use crate::install::{packages, run, starts};
use crate::queue::peers::Redis;
use crate::suite::origin::Version;

pub(crate) fn set_up() -> Result<Version> {
    if !starts("redis-server", "--version") {
        packages(&["redis-server"])
            .context("cannot set up Redis; --peers postgresql,beanstalkd leaves it out")?;
    }
    let text = run(Command::new("redis-server").arg("--version"))?;
    let version = text.split_once("v=").and_then(|(_, rest)| rest.split_once(' '));
    Ok(Version { name: "Redis", version: version.map_or("unknown", |(it, _)| it).to_owned() })
}

pub(crate) struct RedisServer;

impl Server for RedisServer {
    type Peer = Redis;

    fn start(folder: &Path, relaxed: bool) -> Result<(Process, Redis)> {
        let port = free_port()?;
        let settings = [
            ("--bind", "127.0.0.1".to_owned()),
            ("--port", port.to_string()),
            ("--dir", folder.display().to_string()),
            ("--save", String::new()),
            ("--appendonly", "yes".to_owned()),
            ("--appendfsync", if relaxed { "everysec" } else { "always" }.to_owned()),
        ];
        let arguments: Vec<String> =
            settings.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        let program = Path::new("redis-server");
        let mut process = Process::start(&[], program, &arguments, folder, Signal::KILL)?;
        let client = process.await_client(|| Redis::connect(port))?;
        Ok((process, client))
    }
}
