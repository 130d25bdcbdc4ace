//! A time limit for a command and for every process that it starts.
//!
//! Each command carries a mark in its environment, and its children inherit it. When the limit has
//! passed, all processes with that mark are killed, and so are their descendants. The mark also
//! finds a process whose parent has ended. Process groups are no alternative: the terminal sends
//! Ctrl-C to the foreground group only.

use std::io;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const MARK: &str = "TICKWHEEL_XTASK_COMMAND";
/// How long to wait until killed processes are gone.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Runs a command to its end and returns what it wrote to its pipes. Returns `None` if the limit
/// passed first, which killed the command and every process that it started.
pub(crate) fn output(mut command: Command, limit: Duration) -> io::Result<Option<Output>> {
    static COMMANDS: AtomicU32 = AtomicU32::new(0);
    let number = COMMANDS.fetch_add(1, Ordering::Relaxed);
    let mark = format!("{}-{number}", std::process::id());
    let child = command.env(MARK, &mark).spawn()?;
    // The command holds the other ends of pipes that the caller made.
    drop(command);
    let id = child.id();
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    if let Ok(output) = ended.recv_timeout(limit) {
        return output.map(Some);
    }
    kill(id, &mark);
    // Collects the exit status of the command, so that no zombie remains.
    let _ = ended.recv_timeout(KILL_LIMIT);
    Ok(None)
}

/// Kills a command and its descendants, repeatedly until none is left: a process may start another
/// one while the list of processes is read.
fn kill(id: u32, mark: &str) {
    const ROUNDS: u32 = 50;
    for _ in 0..ROUNDS {
        let processes = processes(id, mark);
        if processes.is_empty() {
            return;
        }
        let ids = processes.iter().map(u32::to_string);
        // `kill` is built into the shell, so no package is needed. It reports processes that have
        // ended.
        let _ = Command::new("sh")
            .args(["-c", "kill -KILL \"$@\"", "sh"])
            .args(ids)
            .stderr(Stdio::null())
            .status();
        thread::sleep(KILL_LIMIT / ROUNDS);
    }
}

/// The processes of a command that still run.
#[cfg(target_os = "linux")]
fn processes(id: u32, mark: &str) -> Vec<u32> {
    let mark = format!("{MARK}={mark}").into_bytes();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let running: Vec<(u32, u32)> = ids.filter_map(|id| Some((id, parent(id)?))).collect();
    let has_mark = |id: u32| {
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark)
    };
    let is_marked = |it: &u32| *it == id || has_mark(*it);
    let mut chosen: Vec<u32> = running.iter().map(|(it, _)| *it).filter(is_marked).collect();
    // A child may have cleared its environment.
    let mut next = 0;
    while let Some(&parent) = chosen.get(next) {
        for (it, _) in running.iter().filter(|(_, its_parent)| *its_parent == parent) {
            if !chosen.contains(it) {
                chosen.push(*it);
            }
        }
        next += 1;
    }
    chosen
}

/// Returns only the command: other systems do not show the environment of a process.
#[cfg(not(target_os = "linux"))]
fn processes(id: u32, _: &str) -> Vec<u32> {
    vec![id]
}

/// The parent of a process; nothing for a process that has ended.
#[cfg(target_os = "linux")]
fn parent(id: u32) -> Option<u32> {
    let line = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // `12 (a name) S 1 …`: the name may contain blanks and parentheses.
    let (_, rest) = line.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    (state != "Z").then(|| fields.next()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_command_within_its_limit_ends_by_itself() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo done; exit 3"]).stdout(Stdio::piped());
        let output = output(command, Duration::MAX).unwrap().unwrap();
        assert_eq!((&output.stdout[..], output.status.code()), (&b"done\n"[..], Some(3)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_limit_ends_children_and_orphans_as_well() {
        // The pipe ends when the last process that can write to it has ended. A process that
        // survives writes to it.
        const ORPHAN: &str = "(sh -c 'sleep 20; echo the orphan survived' &)";
        const CHILD: &str = "env -i sh -c 'sleep 20; echo the child survived' &";
        let (mut reader, writer) = io::pipe().unwrap();
        let mut command = Command::new("sh");
        let script = format!("{ORPHAN}; {CHILD} sleep 20; echo the command survived");
        command.args(["-c", &script]).stdout(writer);
        assert!(output(command, Duration::from_secs(1)).unwrap().is_none());
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "");
    }
}
