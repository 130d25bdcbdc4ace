//! Installs what the peers need, builds their harnesses, and starts them.
//!
//! Ground rules: packages come from a registry, by name; builds go to `bench/target/peers`; a
//! failure is one line that says what to do.

mod go;
mod java;

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::SPEC;
use crate::suite::System;
use crate::suite::options::Choice;
use crate::suite::origin::{Version, locked};
use crate::suite::rounds::this_program;

/// Returns the folder of a harness or toolchain.
fn folder(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers")).join(name)
}

/// Returns the folder with the source of a harness.
fn source(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/peers")).join(name)
}

/// Prepares the peers that the user chose and returns their versions.
pub(super) fn set_up(choice: &Choice) -> Result<Vec<Version>> {
    let mut versions = Vec::new();
    let netty = choice.has_peer("netty");
    if netty || choice.has_peer("jdk") {
        versions.extend(java::set_up(netty)?);
    }
    if choice.has_peer("go") {
        versions.push(go::set_up()?);
    }
    let crates = ["tokio", "async-io"].into_iter().filter(|name| choice.has_peer(name));
    versions.extend(locked(&crates.collect::<Vec<_>>()));
    Ok(versions)
}

/// Returns the command of a system's harness, to which the caller adds the settings.
pub(super) fn command(system: &System, timers: usize, huge_pages: bool) -> Result<Command> {
    let java = |class: &str, flags: &[&str]| Ok(java::command(class, timers, huge_pages, flags));
    match system.name {
        "netty" => java("Netty", &[]),
        "netty-parallel" => java("Netty", &["-XX:+UseParallelGC"]),
        "jdk" => java("Jdk", &[]),
        "go" => Ok(Command::new(go::harness())),
        _ => {
            let mut command = this_program(&SPEC, system)?;
            if huge_pages {
                command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
            }
            Ok(command)
        }
    }
}
