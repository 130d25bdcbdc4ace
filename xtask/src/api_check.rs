//! `cargo xtask api`: checks a real server against its own description.
//!
//! Schemathesis reads `/openapi.json` and sends requests that the description allows and requests
//! that it forbids. No answer may be a server error, and none may be undocumented. Schemathesis is
//! installed from `PyPI` into a virtual environment under target/, in a fixed version, so that
//! results do not change with its releases.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use crate::process::{Failure, Invocation, root};

const VERSION: &str = "4.32.5";
/// How long a server may take until it listens.
const START_LIMIT: Duration = Duration::from_mins(2);
/// Routes with streams, which never end.
const STREAMS: [&str; 4] =
    ["/v1/events", "/v1/live", "/v1/queues/{queue}/events", "/v1/target-events"];
/// The checks that every answer must pass.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance";

/// Builds the binary with the same packages and features as the tests do. Another selection would
/// compile everything again.
pub(crate) const BUILD: [&str; 6] =
    ["test", "--workspace", "--all-features", "--no-run", "--test", "serve"];

pub(crate) fn run(seconds: u32) -> Result<(), Failure> {
    let schemathesis = install()?;
    Invocation::cargo(BUILD).run()?;
    let server = Server::start("target/api-check")?;
    let outcome = check(&schemathesis, &server.url, seconds);
    outcome.inspect_err(|_| println!("The log of the server is in {}", server.log.display()))
}

fn check(schemathesis: &Path, url: &str, seconds: u32) -> Result<(), Failure> {
    let mut args = vec!["run".to_owned(), format!("{url}/openapi.json")];
    for (name, value) in [
        ("--checks", CHECKS.to_owned()),
        ("--phases", "examples,coverage,fuzzing".to_owned()),
        ("--max-time", seconds.to_string()),
        // Schemathesis fails with several workers on Python 3.11.
        ("--workers", "1".to_owned()),
        // A worker may ask the server to wait for a minute.
        ("--request-timeout", "70".to_owned()),
        ("--seed", "1".to_owned()),
        ("--warnings", "off".to_owned()),
    ] {
        args.extend([name.to_owned(), value]);
    }
    for path in STREAMS {
        args.extend(["--exclude-path".to_owned(), path.to_owned()]);
    }
    Invocation::at(schemathesis, "target/schemathesis/bin/schemathesis", args).run()
}

/// Begins to install the program, which takes a minute or two, while other things are checked. What
/// goes wrong is said when it is needed, and tried again.
pub(crate) fn prepare() {
    std::thread::spawn(|| drop(install()));
}

/// Returns the program, and installs it first if it is missing. Only one thread installs it.
fn install() -> Result<PathBuf, Failure> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let place = root().join("target/schemathesis");
    let bin = place.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let program = bin.join("schemathesis");
    let version = Invocation::at(&program, "target/schemathesis/bin/schemathesis", ["--version"]);
    if version.output().is_ok_and(|text| text.trim().ends_with(VERSION)) {
        return Ok(program);
    }
    let make =
        || Invocation::new("python3", ["-m", "venv", "--clear", "target/schemathesis"]).run();
    make().or_else(|_| install_python().and_then(|()| make())).map_err(|failure| {
        Failure::Missing(format!(
            "{failure}\n       the API is checked by schemathesis, which needs Python 3.10 or newer \
             with its module venv: on Debian, apt-get install python3-venv"
        ))
    })?;
    let wanted = format!("schemathesis=={VERSION}");
    let args = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &wanted];
    Invocation::at(&bin.join("python"), "target/schemathesis/bin/python", args).run()?;
    Ok(program)
}

/// Python with its module `venv`, which Debian has in a package of its own.
fn install_python() -> Result<(), Failure> {
    let apt_get = |args: &[&str]| Invocation::new("apt-get", args.iter().copied()).run();
    // The lists of packages may be missing, or older than the packages.
    apt_get(&["update"])?;
    apt_get(&["install", "--yes", "--no-install-recommends", "python3-venv"])
}

/// A server on a free port and a new directory, for the time of a check.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    log: PathBuf,
}

impl Server {
    /// Starts a server that keeps its data and its log in an empty directory.
    pub(crate) fn start(directory: &str) -> Result<Self, Failure> {
        let place = root().join(directory);
        let unusable = |error| Failure::Read(place.display().to_string(), error);
        if place.exists() {
            fs::remove_dir_all(&place).map_err(unusable)?;
        }
        fs::create_dir_all(&place).map_err(unusable)?;
        let shown = "target/debug/tickwheel serve";
        let failed = |error| Failure::Start(shown.to_owned(), error);
        let child = Command::new(root().join("target/debug/tickwheel"))
            .args(["serve", "--listen", "127.0.0.1:0", "--limits-rate", "0", "--data"])
            .arg(place.join("data"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        // From here on it is ended with this value.
        let mut server = Self { child, url: String::new(), log: place.join("server.log") };
        let mut lines = BufReader::new(server.child.stderr.take().expect("it is piped"));
        let log = File::create(&server.log).map_err(unusable)?;
        let (sender, found) = mpsc::channel();
        std::thread::spawn(move || {
            // The receiver is gone once the limit has passed.
            let _ = sender.send(address(&mut lines, &log));
            io::copy(&mut lines, &mut &log)
        });
        let found = found.recv_timeout(START_LIMIT);
        let found = found.map_err(|_| Failure::Limit(shown.to_owned(), START_LIMIT))?;
        server.url = found.map_err(failed)?;
        Ok(server)
    }
}

/// Reads the log of a server up to the address that it listens at.
fn address(lines: &mut impl BufRead, mut log: &File) -> io::Result<String> {
    let mut said = String::new();
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Err(io::Error::other(format!("it ended: {said}")));
        }
        io::Write::write_all(&mut log, line.as_bytes())?;
        if let Some((_, rest)) = line.split_once("listening on ") {
            return Ok(rest.split_whitespace().next().unwrap_or_default().to_owned());
        }
        said.push_str(&line);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
