//! The upgrade of a directory of an earlier format survives a kill at any moment.

mod folder;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tickwheel_queue::{List, Queues, State};

use folder::copy;

/// Tells the child which directory to open.
const DIRECTORY: &str = "TICKWHEEL_UPGRADED_DIRECTORY";

/// Opens a directory in a process that its parent kills.
#[test]
#[ignore = "the child of another test"]
fn open_in_a_child() {
    let folder = std::env::var_os(DIRECTORY).expect("a directory");
    drop(Queues::open(folder).expect("it opens"));
}

fn child(folder: &Path) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "open_in_a_child", "--ignored"]).env(DIRECTORY, folder);
    child.stdout(Stdio::null()).stderr(Stdio::null());
    child
}

/// Returns everything that a client can see, in order.
fn contents(folder: &Path) -> Vec<String> {
    let queues = Queues::open(folder).unwrap();
    let mut contents = Vec::new();
    for queue in queues.queues().wait().unwrap() {
        contents.push(format!("{queue:?}"));
        for state in [None, Some(State::Dead), Some(State::Done), Some(State::Cancelled)] {
            let mut list = List::of(&queue.name);
            list.state = state;
            let jobs = queues.list(list).wait().unwrap().jobs;
            contents.extend(jobs.iter().map(|job| format!("{job:?}")));
        }
    }
    contents.extend(queues.schedules().wait().unwrap().iter().map(|it| format!("{it:?}")));
    assert_eq!(queues.stats().wait().unwrap().damaged, 0);
    contents
}

#[test]
fn an_upgrade_that_is_killed_at_any_moment_loses_nothing() {
    const ROUNDS: u32 = 24;
    for name in ["format-1", "format-1-schedules"] {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let whole = tempfile::tempdir().unwrap();
        copy(&fixture, whole.path());
        let start = Instant::now();
        assert!(child(whole.path()).status().unwrap().success());
        let duration = start.elapsed();
        let expected = contents(whole.path());
        let mut upgraded = 0;
        for round in 0..ROUNDS {
            let folder = tempfile::tempdir().unwrap();
            copy(&fixture, folder.path());
            let mut child = child(folder.path()).spawn().unwrap();
            // The kills are spread over the time that an upgrade takes.
            std::thread::sleep((duration * round / ROUNDS).min(Duration::from_secs(5)));
            child.kill().unwrap();
            child.wait().unwrap();
            let format = std::fs::read_to_string(folder.path().join("FORMAT")).unwrap();
            upgraded += u32::from(format.contains("format 2"));
            assert_eq!(contents(folder.path()), expected, "{name}, round {round}");
        }
        assert!(upgraded < ROUNDS, "{name}: no kill came before the upgrade");
    }
}
