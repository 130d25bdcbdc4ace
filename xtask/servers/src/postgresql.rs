//! A `PostgreSQL` primary with a synchronous standby.
//!
//! `PostgreSQL` refuses to run as root. A test that runs as root starts it as the user `postgres`,
//! which Debian's package creates. That user must be able to reach the folder.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::process::{ServerProcess, free_port};
use crate::{install_package, run};

/// Where Debian keeps the programs of a version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The database's superuser.
pub const USER: &str = "postgres";
/// The options of `setpriv` if root starts a server.
const AS_POSTGRES: [&str; 3] = ["--reuid=postgres", "--regid=postgres", "--init-groups"];
/// The name of the standby for `synchronous_standby_names`.
pub const STANDBY: &str = "standby";

/// The pause between two checks of a starting server.
const POLL_PAUSE: Duration = Duration::from_millis(20);

/// A primary and its synchronous standby.
#[derive(Debug)]
pub struct PostgresqlPair {
    /// The server whose commits wait for the standby.
    pub primary: PostgresqlServer,
    /// The server that replicates the primary.
    pub standby: PostgresqlServer,
}

/// A server of a pair.
#[derive(Debug)]
pub struct PostgresqlServer {
    /// The port on loopback.
    pub port: u16,
    process: ServerProcess,
}

impl PostgresqlServer {
    /// Returns the process, to pause it.
    pub fn process(&self) -> &ServerProcess {
        &self.process
    }

    /// Ends the server at once; its data stays.
    ///
    /// # Errors
    ///
    /// If it cannot be ended.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }
}

impl PostgresqlPair {
    /// Creates and starts both servers in a folder that must not exist yet. Installs `PostgreSQL`
    /// first if it is missing.
    ///
    /// # Errors
    ///
    /// If a server does not start.
    pub fn start(folder: &Path) -> io::Result<Self> {
        let programs = programs().or_else(|_| {
            install_package("postgresql")?;
            programs()
        })?;
        fs::create_dir_all(folder)?;
        if is_root()? {
            run(Command::new("chown").arg(USER).arg(folder))?;
        }
        let primary_data = folder.join("primary");
        let mut initdb = as_postgres(&programs.join("initdb"))?;
        initdb.args(["--username", USER, "--auth=trust", "--encoding=UTF8", "--no-locale"]);
        run(initdb.args(["--no-sync", "--pgdata"]).arg(&primary_data))?;
        // In a file, so that `alter system` can change it.
        let names = format!("synchronous_standby_names = '{STANDBY}'\n");
        fs::OpenOptions::new()
            .append(true)
            .open(primary_data.join("postgresql.auto.conf"))?
            .write_all(names.as_bytes())?;
        let primary = launch(&programs, &primary_data)?;

        let standby_data = folder.join("standby");
        let source =
            format!("host=127.0.0.1 port={} user={USER} application_name={STANDBY}", primary.port);
        let mut backup = as_postgres(&programs.join("pg_basebackup"))?;
        backup.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
        backup.args(["--dbname", &source, "--pgdata"]).arg(&standby_data);
        run(&mut backup)?;
        let standby = launch(&programs, &standby_data)?;
        Ok(Self { primary, standby })
    }
}

fn launch(programs: &Path, data: &Path) -> io::Result<PostgresqlServer> {
    let port = free_port()?;
    let arguments = [
        "-D".to_owned(),
        data.display().to_string(),
        format!("-cport={port}"),
        "-clisten_addresses=127.0.0.1".to_owned(),
        "-cunix_socket_directories=".to_owned(),
    ];
    let options: &[&str] = if is_root()? { &AS_POSTGRES } else { &[] };
    let log = data.with_extension("log");
    let program = programs.join("postgres");
    // SIGQUIT ends the server and its child processes at once.
    let process = ServerProcess::start(options, &program, &arguments, &log, "QUIT")?;
    let mut server = PostgresqlServer { port, process };
    let is_ready = || {
        let mut ask = Command::new(programs.join("pg_isready"));
        ask.args(["--quiet", "--host", "127.0.0.1", "--port", &port.to_string()]);
        ask.status().map(|status| status.success())
    };
    while !is_ready()? {
        server.process.check()?;
        sleep(POLL_PAUSE);
    }
    Ok(server)
}

/// The programs of the newest version.
fn programs() -> io::Result<PathBuf> {
    let version = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let newest = fs::read_dir(VERSIONS)?.filter_map(Result::ok).filter_map(version).max();
    let newest = newest.ok_or_else(|| io::Error::other("PostgreSQL is not installed"))?;
    let programs = Path::new(VERSIONS).join(newest.to_string()).join("bin");
    // The package with the client alone contains no server.
    fs::metadata(programs.join("initdb"))?;
    Ok(programs)
}

fn as_postgres(program: &Path) -> io::Result<Command> {
    if !is_root()? {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("setpriv");
    command.args(AS_POSTGRES).arg(program);
    Ok(command)
}

fn is_root() -> io::Result<bool> {
    run(Command::new("id").arg("-u")).map(|id| id == "0")
}
