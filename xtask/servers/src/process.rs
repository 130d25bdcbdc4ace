//! The process of a server.

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::run;

/// Returns a port of loopback that no program uses.
///
/// # Errors
///
/// If there is none.
pub fn free_port() -> io::Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr().map(|address| address.port())
}

/// A running server. It is killed when it is dropped.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    /// The signal that ends it without leaving processes of its own.
    kill_signal: &'static str,
    log: PathBuf,
}

impl ServerProcess {
    /// Starts a program under `setpriv`, with its output in a file. `kill_signal` ends it when it is
    /// dropped, and when the thread ends that started it.
    ///
    /// # Errors
    ///
    /// If `setpriv` cannot be started, or if the file cannot be written.
    pub fn start(
        setpriv_options: &[&str],
        program: &Path,
        arguments: &[String],
        log: &Path,
        kill_signal: &'static str,
    ) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let child = Command::new("setpriv")
            .args(["--pdeathsig", kill_signal])
            .args(setpriv_options)
            .arg(program)
            .args(arguments)
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .map_err(|error| {
                io::Error::new(error.kind(), format!("cannot start setpriv: {error}"))
            })?;
        Ok(Self { child, kill_signal, log: log.to_owned() })
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops all activity of the process and of its children, as a machine that hangs does.
    ///
    /// # Errors
    ///
    /// If the process does not exist any more.
    pub fn pause(&self) -> io::Result<()> {
        self.signal("STOP")?;
        // A process that is stopped starts no more children.
        self.children()?.iter().try_for_each(|child| signal("STOP", child))
    }

    /// Lets a paused process continue.
    ///
    /// # Errors
    ///
    /// If the process does not exist any more.
    pub fn resume(&self) -> io::Result<()> {
        self.children()?.iter().try_for_each(|child| signal("CONT", child))?;
        self.signal("CONT")
    }

    /// Ends the process without a chance to clean up, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// If it cannot be ended.
    pub fn kill(&mut self) -> io::Result<()> {
        if self.child.try_wait()?.is_none() {
            self.signal(self.kill_signal)?;
            // A paused process dies of SIGKILL only. It may be gone already.
            let _ = self.resume();
            self.child.wait()?;
        }
        Ok(())
    }

    /// Fails if the process has ended.
    ///
    /// # Errors
    ///
    /// If it has; the error contains the end of its log.
    pub fn check(&mut self) -> io::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                let tail: Vec<_> = log.lines().rev().take(5).collect();
                let tail: Vec<_> = tail.into_iter().rev().collect();
                Err(io::Error::other(format!("the server ended ({status}): {}", tail.join("\n"))))
            }
        }
    }

    fn signal(&self, name: &str) -> io::Result<()> {
        signal(name, &self.child.id().to_string())
    }

    fn children(&self) -> io::Result<Vec<String>> {
        let id = self.child.id();
        let list = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        Ok(list.split_whitespace().map(str::to_owned).collect())
    }
}

fn signal(name: &str, process: &str) -> io::Result<()> {
    run(Command::new("kill").args([&format!("-{name}"), process])).map(drop)
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.kill();
    }
}
