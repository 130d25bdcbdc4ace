//! The real binary with a manual clock, on a directory of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

use tempfile::TempDir;

pub(crate) struct Server {
    process: Child,
    folder: TempDir,
    arguments: Vec<String>,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(arguments: &[String]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (process, url) = spawn(&folder, arguments, "127.0.0.1:0");
        Self { process, folder, arguments: arguments.to_vec(), url }
    }

    /// Stops the server and starts it again on the same port.
    pub(crate) fn restart(&mut self, kill: bool) {
        if kill {
            self.process.kill().expect("killed");
        } else {
            let id = self.process.id().to_string();
            let sent = Command::new("kill").args(["-TERM", &id]).status();
            assert!(sent.expect("kill runs").success());
        }
        self.process.wait().expect("it ends");
        let address = self.url.trim_start_matches("http://").to_owned();
        (self.process, self.url) = spawn(&self.folder, &self.arguments, &address);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn spawn(folder: &TempDir, arguments: &[String], listen: &str) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
    command.args(["serve", "--clock", "manual", "--access-log", "none", "--listen", listen]);
    command.arg("--data").arg(folder.path()).args(arguments);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TICKWHEEL_")) {
        command.env_remove(name);
    }
    let mut process = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
    let url = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let (_, url) = line.split_once("listening on ")?;
        Some(url.split_whitespace().next()?.to_owned())
    });
    // Reads the rest of the output, so that the pipe never fills.
    thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    (process, url.expect("the server says where it listens"))
}
