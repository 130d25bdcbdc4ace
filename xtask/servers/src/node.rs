//! Nodes of Tickwheel that form a cluster.

use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::process::ServerProcess;

/// Between two looks at a node that starts.
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// A node on loopback. It is ended when this is dropped; its data stays.
#[derive(Debug)]
pub struct Node {
    /// The name in the cluster.
    pub name: String,
    /// The port on which it serves.
    pub port: u16,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    kill_signal: &'static str,
    process: ServerProcess,
}

impl Node {
    /// Starts a node that may create its cluster. Its data and its log are in a folder, which must
    /// exist. `options` name the servers of the cluster's log, and more if needed; `kill_signal`
    /// ends the node.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start(
        program: &Path,
        folder: &Path,
        name: &str,
        port: u16,
        options: &[String],
        kill_signal: &'static str,
    ) -> io::Result<Self> {
        let mut arguments = vec![
            "serve".to_owned(),
            format!("--listen=127.0.0.1:{port}"),
            format!("--data={}", folder.join(format!("node-{name}")).display()),
            format!("--node={name}"),
            "--cluster-create=true".to_owned(),
        ];
        arguments.extend_from_slice(options);
        let log = folder.join(format!("node-{name}.log"));
        let process = ServerProcess::start(&[], program, &arguments, &log, kill_signal)?;
        let (name, program) = (name.to_owned(), program.to_owned());
        Ok(Self { name, port, program, arguments, log, kill_signal, process })
    }

    /// Waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// If it ends instead.
    pub fn await_port(&mut self) -> io::Result<()> {
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            self.process.check()?;
            sleep(POLL_PAUSE);
        }
        Ok(())
    }

    /// Returns its process.
    pub fn process(&self) -> &ServerProcess {
        &self.process
    }

    /// Returns the file with its output.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns `true` until its process has ended.
    pub fn is_running(&mut self) -> bool {
        self.process.check().is_ok()
    }

    /// Ends it by its signal, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// If it cannot be ended.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }

    /// Starts it again, with the same data, after it has ended.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn restart(&mut self) -> io::Result<()> {
        self.process.kill()?;
        let (program, signal) = (&self.program, self.kill_signal);
        self.process = ServerProcess::start(&[], program, &self.arguments, &self.log, signal)?;
        self.await_port()
    }
}
