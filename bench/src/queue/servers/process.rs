//! A server's process. Dropping its handle ends it, and so does the end of its parent.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::memory::sum_of;

/// How long to wait for the first answer of a server that loads a million jobs.
const PATIENCE: Duration = Duration::from_mins(2);
const STEP: Duration = Duration::from_millis(2);

/// Returns a free port of loopback.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port of loopback is free")?;
    Ok(listener.local_addr()?.port())
}

pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    /// The signal that ends the server together with its child processes.
    stop: Signal,
}

impl Process {
    /// Starts a program through `setpriv` with these options.
    pub(crate) fn start(
        privileges: &[&str],
        program: &Path,
        arguments: &[String],
        folder: &Path,
        stop: Signal,
    ) -> Result<Self> {
        let log = folder.join("log");
        let output =
            File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let name = if stop == Signal::QUIT { "QUIT" } else { "KILL" };
        let child = Command::new("setpriv")
            .args(["--pdeathsig", name])
            .args(privileges)
            .arg(program)
            .args(arguments)
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start setpriv, which is in Debian's package util-linux")?;
        Ok(Self { child, log, stop })
    }

    /// Waits until a client can connect.
    pub(crate) fn await_client<T>(&mut self, connect: impl Fn() -> Result<T>) -> Result<T> {
        let asked = Instant::now();
        loop {
            let error = match connect() {
                Ok(client) => return Ok(client),
                Err(error) => error,
            };
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended ({status}): {}", self.last_words());
            }
            if asked.elapsed() > PATIENCE {
                return Err(error.context("the server does not answer"));
            }
            sleep(STEP);
        }
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.trim().lines().last().unwrap_or("it printed nothing").to_owned()
    }

    /// Returns the resident memory of the process and its descendants, shared pages counted once.
    pub(crate) fn resident(&self) -> Result<u64> {
        let mut sum = 0;
        for process in family(self.child.id())? {
            let path = format!("/proc/{process}/smaps_rollup");
            // A process that has ended in the meantime has no such file.
            let text = fs::read_to_string(path).unwrap_or_default();
            sum += sum_of_pss(&text);
        }
        Ok(sum * 1_024)
    }

    /// Returns the processor time of the process, without its descendants.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        processor_time(self.child.id())
    }

    /// Ends the process at once, as a crash would.
    pub(crate) fn kill(mut self) -> Result<()> {
        let signal = self.stop;
        self.end(signal)
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.end(Signal::TERM)
    }

    fn end(&mut self, signal: Signal) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            let pid = Pid::from_child(&self.child);
            kill_process(pid, signal).context("cannot end the server")?;
            self.child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.end(self.stop) {
            eprintln!("{error:#}");
        }
    }
}

/// Returns the processor time of a process, without its descendants.
pub(crate) fn processor_time(process: u32) -> Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let ticks = ticks_of(&text).with_context(|| format!("{path} has no processor time"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Returns a process and its descendants.
fn family(ancestor: u32) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").context("cannot list the processes")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        parents.push((pid, sum_of(&status, "PPid") as u32));
    }
    let mut family = vec![ancestor];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    Ok(family)
}

/// Returns the proportional set size, without the lines for its parts.
fn sum_of_pss(rollup: &str) -> u64 {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Returns the clock ticks in user and kernel mode: the twelfth and thirteenth field after the name,
/// which is in parentheses and may contain anything.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut ticks = fields.split(' ').skip(11).map(str::parse::<u64>);
    Some(ticks.next()?.ok()? + ticks.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_children() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let found = family(std::process::id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&std::process::id()) && found.contains(&child.id()));
    }

    #[test]
    fn only_the_whole_share_counts() {
        assert_eq!(sum_of_pss("Rss: 9 kB\nPss:   7 kB\nPss_Anon:  3 kB\n"), 7);
        assert_eq!(sum_of_pss(""), 0);
    }

    #[test]
    fn processor_time_is_that_of_both_modes() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 31 11 5 5 20 0 1 0";
        assert_eq!(ticks_of(stat), Some(42));
        assert_eq!(ticks_of("7 (a) S 1"), None);
    }

    #[test]
    fn a_server_that_ends_is_an_error_with_its_last_words() {
        let folder = std::env::temp_dir().join(format!("tickwheel-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let arguments = ["-c".to_owned(), "echo no such option; exit 4".to_owned()];
        let mut process =
            Process::start(&[], Path::new("sh"), &arguments, &folder, Signal::KILL).unwrap();
        let error = process.await_client::<()>(|| bail!("nobody there")).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        assert!(error.contains("exit status: 4") && error.ends_with("no such option"), "{error}");
    }
}
