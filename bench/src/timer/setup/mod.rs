//! Gets the peers ready: installs what they need, builds their harnesses, and knows how to start
//! each of them.
//!
//! Ground rules: what is installed comes from a registry, by name; what is built goes to
//! `bench/target/peers`; a failure is one line that says what to do.

mod go;
mod java;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use self::go::Go;
use self::java::{Java, heap_flags};
use super::plan::Plan;
use super::system::System;
use crate::names::name;
use crate::process;
use crate::report::origin::{Version, locked_version};

/// Where harnesses and toolchains are kept.
fn folder(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers")).join(name)
}

/// The source of a harness.
fn source(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/peers")).join(name)
}

/// Everything that is needed to run the systems that were asked for.
pub(super) struct Harnesses {
    java: Option<Java>,
    go: Option<Go>,
    versions: Vec<Version>,
}

impl Harnesses {
    pub(super) fn set_up(systems: &[System]) -> Result<Self> {
        let wanted = |system| systems.contains(&system);
        let mut versions = Vec::new();
        let mut java = None;
        if wanted(System::Netty) || wanted(System::Jdk) {
            let ready = Java::set_up(wanted(System::Netty))?;
            versions.extend(ready.versions()?);
            java = Some(ready);
        }
        let mut go = None;
        if wanted(System::Go) {
            let ready = Go::set_up()?;
            versions.push(ready.version()?);
            go = Some(ready);
        }
        for (system, name) in [(System::Tokio, "tokio"), (System::AsyncIo, "async-io")] {
            if wanted(system) {
                versions.push(Version { name, version: locked_version(name) });
            }
        }
        Ok(Self { java, go, versions })
    }

    pub(super) fn into_versions(self) -> Vec<Version> {
        self.versions
    }

    /// The command that makes a system do what the plan says.
    pub(super) fn command(&self, system: System, plan: &Plan, huge_pages: bool) -> Result<Command> {
        let heap = |flags: &[&str]| heap_flags(plan.size.timers, huge_pages, flags);
        let mut command = match system {
            System::Netty => self.java()?.command("Netty", &heap(&[])),
            System::NettyParallel => self.java()?.command("Netty", &heap(&["-XX:+UseParallelGC"])),
            System::Jdk => self.java()?.command("Jdk", &heap(&[])),
            System::Go => self.go.as_ref().context("Go is not set up")?.command(),
            System::Tickwheel
            | System::Inline
            | System::Hashed
            | System::Keyed
            | System::Tokio
            | System::AsyncIo => this_program(system, huge_pages)?,
        };
        command.args(plan.arguments());
        Ok(command)
    }

    fn java(&self) -> Result<&Java> {
        self.java.as_ref().context("Java is not set up")
    }
}

/// This program, called with the hidden subcommand `timer-run`.
fn this_program(system: System, huge_pages: bool) -> Result<Command> {
    let mut command = process::this_program()?;
    command.args(["timer-run", "--system", &name(&system)]);
    if huge_pages {
        command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
    }
    Ok(command)
}
