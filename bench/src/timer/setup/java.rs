//! The JVM, Netty, and the harness in `peers/java`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{folder, source};
use crate::install::{packages, run, starts};
use crate::suite::origin::Version;

/// The paths of Netty and of a library that it needs, in Debian.
const NETTY: &str = "/usr/share/java/netty-common.jar";
const QUEUES: &str = "/usr/share/java/jctools-core.jar";

/// Builds the harness and returns the versions of the JVM and, if wanted, Netty.
pub(super) fn set_up(netty: bool) -> Result<Vec<Version>> {
    install(netty)
        .and_then(|()| build(netty))
        .context("cannot set up Java and Netty; --peers go,tokio,async-io leaves them out")?;
    let java = run(Command::new("java").arg("--version"))?;
    let version = java.lines().next().unwrap_or("unknown").to_owned();
    let netty = netty.then(|| Version { name: "Netty", version: netty_version() });
    Ok(netty.into_iter().chain([Version { name: "JVM", version }]).collect())
}

/// Compiles the harness; without Netty, all files but the one that uses Netty.
fn build(netty: bool) -> Result<()> {
    fs::create_dir_all(folder("java"))?;
    let mut javac = Command::new("javac");
    javac.arg("-d").arg(folder("java")).args(["-classpath", NETTY]);
    for entry in fs::read_dir(source("java"))? {
        let path = entry?.path();
        let is_netty = path.file_stem().is_some_and(|name| name == "Netty");
        if path.extension().is_some_and(|end| end == "java") && (netty || !is_netty) {
            javac.arg(path);
        }
    }
    run(&mut javac).map(drop)
}

/// Returns the command of a contender's harness, with a heap that is large enough for this number
/// of timers.
///
/// The heap does not grow, and its pages are touched before anything is measured. The numbers of
/// collector and compiler threads are fixed, because the processor time of a thread that ends would
/// be lost. Unless `flags` choose another collector, the JVM chooses G1.
pub(super) fn command(class: &str, timers: usize, huge_pages: bool, flags: &[&str]) -> Command {
    let megabytes = 512 + timers * 3 / 2_000;
    let mut command = Command::new("java");
    command.arg(format!("-Xms{megabytes}m")).arg(format!("-Xmx{megabytes}m"));
    command.args(["-XX:+AlwaysPreTouch", "-XX:-UseDynamicNumberOfGCThreads"]);
    command.arg("-XX:-UseDynamicNumberOfCompilerThreads");
    if huge_pages {
        command.arg("-XX:+UseTransparentHugePages");
    }
    let classpath = format!("{}:{NETTY}:{QUEUES}", folder("java").display());
    command.args(flags).args(["-classpath", &classpath, "Harness", class]);
    command
}

fn install(netty: bool) -> Result<()> {
    let mut missing = Vec::new();
    if !starts("javac", "-version") {
        missing.push("default-jdk-headless");
    }
    if netty && !Path::new(NETTY).exists() {
        missing.push("libnetty-java");
    }
    if missing.is_empty() { Ok(()) } else { packages(&missing) }
}

/// Reads the version from the name of a link that Debian puts beside the file.
fn netty_version() -> String {
    let named = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_prefix("netty-common-")?.strip_suffix(".jar")?;
        Some(version.to_owned())
    };
    Path::new(NETTY)
        .parent()
        .and_then(|folder| fs::read_dir(folder).ok())
        .and_then(|mut entries| entries.find_map(|entry| named(entry.ok()?)))
        .unwrap_or_else(|| String::from("unknown"))
}
