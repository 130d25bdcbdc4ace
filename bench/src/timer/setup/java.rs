//! The JVM, Netty, and the harness in `peers/java`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{folder, source};
use crate::install::{packages, run, starts};
use crate::report::origin::Version;

/// Where Debian puts Netty, and what Netty needs of others.
const NETTY: &str = "/usr/share/java/netty-common.jar";
const QUEUES: &str = "/usr/share/java/jctools-core.jar";

pub(super) struct Java {
    classes: PathBuf,
    netty: bool,
}

impl Java {
    pub(super) fn set_up(netty: bool) -> Result<Self> {
        install(netty)
            .and_then(|()| Self::build(netty))
            .context("cannot set up Java and Netty; --peers go,tokio,async-io leaves them out")
    }

    /// Compiles the harness; without Netty, all but what knows Netty.
    fn build(netty: bool) -> Result<Self> {
        let java = Self { classes: folder("java"), netty };
        fs::create_dir_all(&java.classes)?;
        let mut sources = Vec::new();
        for entry in fs::read_dir(source("java"))? {
            let path = entry?.path();
            let is_netty = path.file_stem().is_some_and(|name| name == "Netty");
            if path.extension().is_some_and(|extension| extension == "java") && (netty || !is_netty)
            {
                sources.push(path);
            }
        }
        let mut javac = Command::new("javac");
        javac.arg("-d").arg(&java.classes).args(["-classpath", NETTY]).args(sources);
        run(&mut javac)?;
        Ok(java)
    }

    /// The harness with this contender.
    pub(super) fn command(&self, contender: &str, flags: &[String]) -> Command {
        let mut command = Command::new("java");
        command.args(flags);
        command.arg("-classpath").arg(format!("{}:{NETTY}:{QUEUES}", self.classes.display()));
        command.args(["Harness", contender]);
        command
    }

    pub(super) fn versions(&self) -> Result<Vec<Version>> {
        let java = run(Command::new("java").arg("--version"))?;
        let version = java.lines().next().unwrap_or("unknown").to_owned();
        let mut versions = vec![Version { name: "JVM", version }];
        if self.netty {
            versions.insert(0, Version { name: "Netty", version: netty_version() });
        }
        Ok(versions)
    }
}

/// A heap that holds so many timers with room to spare.
///
/// It does not grow, and its pages are touched before anything is measured. The number of threads
/// of the collector and the compiler does not change: a thread that ends takes its share of the
/// processor time with it. Unless `others` say so, the collector is the JVM's choice, which is G1.
pub(super) fn heap_flags(timers: usize, huge_pages: bool, others: &[&str]) -> Vec<String> {
    let megabytes = 512 + timers * 3 / 2_000;
    let mut flags = vec![
        format!("-Xms{megabytes}m"),
        format!("-Xmx{megabytes}m"),
        String::from("-XX:+AlwaysPreTouch"),
        String::from("-XX:-UseDynamicNumberOfGCThreads"),
        String::from("-XX:-UseDynamicNumberOfCompilerThreads"),
    ];
    if huge_pages {
        flags.push(String::from("-XX:+UseTransparentHugePages"));
    }
    flags.extend(others.iter().map(|&flag| flag.to_owned()));
    flags
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

/// Debian has a link beside the file, whose name tells the version.
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
