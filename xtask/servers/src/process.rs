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
/// If no port is free.
pub fn free_port() -> io::Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr().map(|address| address.port())
}

/// A running server. It is killed when it is dropped.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    /// The signal that ends the server together with its child processes.
    kill_signal: &'static str,
    log: PathBuf,
}

impl ServerProcess {
    /// Starts a program under `setpriv`, with its output in a file. The program gets `kill_signal`
    /// when this value is dropped, and when the thread that started it ends.
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

    /// Pauses the process and its children, as if their machine hung.
    ///
    /// # Errors
    ///
    /// If the process does not exist any more.
    pub fn pause(&self) -> io::Result<()> {
        self.signal("STOP")?;
        // The parent is paused first, so it starts no more children.
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
            // Only SIGKILL ends a paused process. It may have ended already.
            let _ = self.resume();
            self.child.wait()?;
        }
        Ok(())
    }

    /// Asks the process to end, as an operator does, and does not wait for it.
    ///
    /// # Errors
    ///
    /// If the process does not exist any more.
    pub fn terminate(&self) -> io::Result<()> {
        self.signal("TERM")
    }

    /// Checks that the process is still running.
    ///
    /// # Errors
    ///
    /// If the process has ended; the error contains the end of its log.
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
        // The process may have ended by itself.
        let _ = self.kill();
    }
}
