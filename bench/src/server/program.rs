//! The service's process: the real binary, built from this repository, on a free port of loopback.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::Value;

use super::ours::Service;
use crate::queue::peers::Beanstalkd;
use crate::queue::servers::process::{Process, free_port};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Builds the binary like a newcomer would, and tells where it is.
pub(crate) fn build() -> Result<PathBuf> {
    eprintln!("building the service");
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "--package", "tickwheel-cli", "--bin", "tickwheel"]);
    command.arg("--message-format=json-render-diagnostics").current_dir(REPOSITORY);
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "the service cannot be built; cargo says why above");
    let lines = String::from_utf8_lossy(&output.stdout);
    let made = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    };
    lines.lines().find_map(made).context("cargo does not say where the binary is")
}

/// The arguments of the service on a port, with its data in a folder.
fn arguments(port: u16, folder: &Path, durability: &str) -> [String; 6] {
    [
        "serve".to_owned(),
        format!("--listen=127.0.0.1:{port}"),
        format!("--data={}", folder.join("data").display()),
        format!("--durability={durability}"),
        "--access-log=errors".to_owned(),
        // All connections come from one address.
        "--limits-rate=0".to_owned(),
    ]
}

/// The service while it runs. It ends when this is dropped.
pub(super) struct Program(Process);

impl Program {
    /// Starts the service in a folder, and gives it with a client once it answers, and how long
    /// that took. What is in the folder already it goes on with.
    pub(super) fn start(
        binary: &Path,
        folder: &Path,
        durability: &str,
    ) -> Result<(Self, Service, Duration)> {
        let port = free_port()?;
        let arguments = arguments(port, folder, durability);
        let began = Instant::now();
        let mut process = Process::start(&[], binary, &arguments, folder, Signal::KILL)?;
        let client = process.await_client(|| Service::connect(port))?;
        Ok((Self(process), client, began.elapsed()))
    }

    /// Starts the service in a folder, and gives it with a client of its port for the beanstalkd
    /// protocol once it answers.
    pub(super) fn start_beanstalk(binary: &Path, folder: &Path) -> Result<(Self, Beanstalkd)> {
        let (port, beanstalk) = (free_port()?, free_port()?);
        let mut arguments = arguments(port, folder, "sync").to_vec();
        arguments.push(format!("--beanstalk=127.0.0.1:{beanstalk}"));
        let mut process = Process::start(&[], binary, &arguments, folder, Signal::KILL)?;
        let client = process.await_client(|| Beanstalkd::connect(beanstalk))?;
        Ok((Self(process), client))
    }

    /// Resident memory in bytes.
    pub(super) fn resident(&self) -> Result<u64> {
        self.0.resident()
    }

    /// Processor time that it has used.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        self.0.processor_time()
    }

    /// Ends it like a crash would, and waits until it is gone.
    pub(super) fn kill(self) -> Result<()> {
        self.0.kill()
    }

    /// Ends it like an operator would, and waits until it is gone.
    pub(super) fn stop(self) -> Result<()> {
        self.0.stop()
    }
}
