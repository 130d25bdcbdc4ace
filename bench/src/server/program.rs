//! The service's process: the binary, built from this repository, on a free port of loopback.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Arg;
use rustix::process::Signal;
use serde_json::Value;

use super::ours::Service;
use crate::queue::peers::Beanstalkd;
use crate::queue::servers::process::{Process, free_port};
use crate::suite::options::{Choice, path};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Returns the binary that the user gave, or builds it.
pub(crate) fn binary(choice: &Choice) -> Result<String> {
    let binary = match choice.path("binary") {
        Some(path) => {
            path.canonicalize().with_context(|| format!("no binary {}", path.display()))?
        }
        None => build()?,
    };
    Ok(binary.display().to_string())
}

/// Returns the option that [`binary`] reads.
pub(crate) fn option() -> Arg {
    let help = "Measure this binary of the service instead of building one";
    path("binary", "FILE", help).conflicts_with("save")
}

/// Builds the binary as `cargo build --release` does and returns its path.
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

/// Returns the arguments of the service on a port, with its data in a folder.
fn arguments(port: u16, folder: &Path, durability: &str) -> [String; 6] {
    [
        "serve".to_owned(),
        format!("--listen=127.0.0.1:{port}"),
        format!("--data={}", folder.join("data").display()),
        format!("--durability={durability}"),
        "--access-log=errors".to_owned(),
        // All connections come from one address, so the rate limit for an address would apply.
        "--limits-rate=0".to_owned(),
    ]
}

/// Starts the service in a folder, with the data in it. Returns its process, a client, and the time
/// until the first answer.
pub(super) fn start(
    binary: &Path,
    folder: &Path,
    durability: &str,
) -> Result<(Process, Service, Duration)> {
    let port = free_port()?;
    let arguments = arguments(port, folder, durability);
    let began = Instant::now();
    let mut process = Process::start(&[], binary, &arguments, folder, Signal::KILL)?;
    let client = process.await_client(|| Service::connect(port))?;
    Ok((process, client, began.elapsed()))
}

/// Starts the service with its port for the beanstalkd protocol. Returns its process and a client of
/// that port.
pub(super) fn start_beanstalk(binary: &Path, folder: &Path) -> Result<(Process, Beanstalkd)> {
    let (port, beanstalk) = (free_port()?, free_port()?);
    let mut arguments = arguments(port, folder, "sync").to_vec();
    arguments.push(format!("--beanstalk=127.0.0.1:{beanstalk}"));
    let mut process = Process::start(&[], binary, &arguments, folder, Signal::KILL)?;
    let client = process.await_client(|| Beanstalkd::connect(beanstalk))?;
    Ok((process, client))
}
