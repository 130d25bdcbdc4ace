//! PostgreSQL with default settings, except its address and `synchronous_commit`.
//!
//! PostgreSQL refuses to run as root, so root starts it as the user `postgres` of Debian's package.
//! A database cluster is created once and copied for each run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::process::{Signal, geteuid};

use super::Server;
use super::process::{Process, free_port};
use crate::install::{packages, run};
use crate::queue::peers::Postgresql;
use crate::suite::origin::Version;

/// Debian's folder, with one folder of programs for each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The owner of the database.
const USER: &str = "postgres";
/// The options of `setpriv` if root starts the server.
const AS_POSTGRES: [&str; 3] = ["--reuid=postgres", "--regid=postgres", "--init-groups"];

pub(crate) fn set_up(folder: &Path) -> Result<Version> {
    prepare(folder).context("cannot set up PostgreSQL; --peers redis,beanstalkd leaves it out")
}

fn prepare(folder: &Path) -> Result<Version> {
    if programs().is_err() {
        packages(&["postgresql"])?;
    }
    let text = run(Command::new(programs()?.join("postgres")).arg("--version"))?;
    let version = text.split_whitespace().nth(2).unwrap_or("unknown").to_owned();
    make_cluster(&template(folder))?;
    Ok(Version { name: "PostgreSQL", version })
}

/// Returns the folder with the programs of the newest version.
fn programs() -> Result<PathBuf> {
    let entries = fs::read_dir(VERSIONS).with_context(|| format!("there is no {VERSIONS}"))?;
    let version = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let newest = entries.filter_map(Result::ok).filter_map(version).max();
    let newest = newest.with_context(|| format!("{VERSIONS} holds no version"))?;
    Ok(Path::new(VERSIONS).join(newest.to_string()).join("bin"))
}

/// Returns the folder of the cluster that is copied for each run.
fn template(folder: &Path) -> PathBuf {
    folder.join("postgresql-template")
}

fn privileges() -> &'static [&'static str] {
    if geteuid().is_root() { &AS_POSTGRES } else { &[] }
}

fn make_cluster(path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_dir_all(path)?;
    }
    fs::create_dir_all(path)?;
    if geteuid().is_root() {
        run(Command::new("chown").arg(USER).arg(path))?;
        let reachable = is_reachable(path);
        ensure!(
            reachable,
            "the user {USER}, as whom it runs when root starts it, cannot reach {}; give another \
             place with --folder",
            path.display()
        );
    }
    let mut initdb = Command::new("setpriv");
    initdb.args(privileges()).arg(programs()?.join("initdb"));
    initdb.args(["--username", USER, "--auth=trust", "--encoding=UTF8", "--no-locale"]);
    run(initdb.args(["--no-sync", "--pgdata"]).arg(path)).map(drop)
}

fn is_reachable(path: &Path) -> bool {
    let mut command = Command::new("setpriv");
    command.args(AS_POSTGRES).args(["test", "-x"]).arg(path);
    command.status().is_ok_and(|status| status.success())
}

pub(crate) struct PostgresqlServer;

impl Server for PostgresqlServer {
    type Peer = Postgresql;

    fn start(folder: &Path, relaxed: bool) -> Result<(Process, Postgresql)> {
        let cluster = folder.join("cluster");
        if !cluster.exists() {
            let source = template(folder.parent().context("a run's folder is in another")?);
            run(Command::new("cp").arg("--archive").arg(source).arg(&cluster))?;
        }
        let port = free_port()?;
        let commit = if relaxed { "off" } else { "on" };
        let arguments = [
            "-D".to_owned(),
            cluster.display().to_string(),
            format!("-cport={port}"),
            "-clisten_addresses=127.0.0.1".to_owned(),
            "-cunix_socket_directories=".to_owned(),
            format!("-csynchronous_commit={commit}"),
        ];
        let program = programs()?.join("postgres");
        let process = Process::start(privileges(), &program, &arguments, folder, Signal::QUIT);
        let mut process = process?;
        let client = process.await_client(|| Postgresql::connect(port, USER))?;
        Ok((process, client))
    }
}
