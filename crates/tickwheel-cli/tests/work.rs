//! `tickwheel work`: a command for each job, with a real server.
#![cfg(unix)]

mod rig;

use std::io::{BufRead, BufReader};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rig::{Server, tickwheel, until};
use serde_json::{Value, json};

/// A worker, and its output so far.
struct Worker {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reading: Option<JoinHandle<()>>,
}

impl Worker {
    /// Runs a shell script for each job of the queue `q`.
    fn start(server: &Server, options: &[&str], script: &str) -> Self {
        let mut child = server
            .command()
            .args(["work", "q"])
            .args(options)
            .args(["--", "sh", "-c", script])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&lines);
        let reading = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                shared.lock().unwrap().push(line);
            }
        });
        Self { child, lines, reading: Some(reading) }
    }

    fn has_said(&self, part: &str) -> bool {
        self.lines.lock().unwrap().iter().any(|line| line.contains(part))
    }

    fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        let status = std::process::Command::new("kill").args(["-s", name, &process]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits until the worker has ended, and returns its output.
    fn end(mut self) -> (ExitStatus, Vec<String>) {
        let mut status = None;
        until(|| {
            status = self.child.try_wait().expect("it is ours");
            status.is_some()
        });
        self.reading.take().map(JoinHandle::join);
        let lines = std::mem::take(&mut *self.lines.lock().unwrap());
        (status.expect("it ended"), lines)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts a job into the queue `q`, and returns its id.
fn put(server: &Server, payload: &str, options: &[&str]) -> String {
    let args = [&["put", "q", payload, "--json"], options].concat();
    server.run(&args).json()["id"].as_str().expect("an id").to_owned()
}

fn get(server: &Server, id: &str) -> Value {
    server.run(&["get", id, "--json"]).json()
}

/// Waits until a job is in a state, and returns the job.
fn until_state(server: &Server, id: &str, state: &str) -> Value {
    until(|| get(server, id)["state"] == state);
    get(server, id)
}

#[test]
fn a_command_gets_the_payload_and_its_output_is_the_result() {
    let server = Server::start();
    server.run(&["queue", "set", "q", "--keep-done", "1h"]).code(0);
    let headers = ["--key", "k 1", "--header", "content-type=text/x", "--header", "b=2"];
    let first = put(&server, r#"{"n":1}"#, &headers);
    let second = put(&server, "plain", &["--as", "text"]);
    let script = "printf '%s|%s|%s|%s|%s|%s|' \"$TICKWHEEL_JOB_ID\" \"$TICKWHEEL_JOB_QUEUE\" \
                  \"$TICKWHEEL_JOB_KEY\" \"$TICKWHEEL_JOB_ATTEMPT\" \
                  \"$TICKWHEEL_HEADER_CONTENT_TYPE\" \"$TICKWHEEL_HEADER_B\"; cat";
    let worker = Worker::start(&server, &["--result", "stdout"], script);
    let job = until_state(&server, &first, "done");
    assert_eq!(job["result"], format!("{first}|q|k 1|1|text/x|2|{{\"n\":1}}"));
    until_state(&server, &second, "done");
    assert!(worker.has_said(&format!("job {first} attempt 1: done after")));
    worker.signal("TERM");
    let (status, lines) = worker.end();
    assert!(status.success(), "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("stopped"));
}

#[test]
fn json_on_standard_output_is_a_result_of_json() {
    let server = Server::start();
    server.run(&["queue", "set", "q", "--keep-done", "1h"]).code(0);
    let id = put(&server, "20", &[]);
    let _worker = Worker::start(
        &server,
        &["--result", "stdout"],
        "echo \"{\\\"twice\\\": $(($(cat) * 2))}\"",
    );
    assert_eq!(until_state(&server, &id, "done")["result"], json!({"twice": 40}));
    let shown = server.run(&["get", &id]).text();
    assert!(shown.ends_with("Result\n{\n  \"twice\": 40\n}\n"), "{shown}");
}

#[test]
fn exit_75_gives_a_job_back_and_other_codes_fail_it() {
    let server = Server::start();
    let again = put(&server, "again", &["--max-attempts", "1"]);
    let dead = put(&server, "dead", &["--max-attempts", "1"]);
    let script = "job=$(cat); if [ $job = dead ]; then echo first >&2; echo last words >&2; exit 3; fi; exit 75";
    let worker = Worker::start(&server, &["--retry-delay", "1h"], script);
    let job = until_state(&server, &dead, "dead");
    assert_eq!(job["last_error"], "exit code 3: first\nlast words");
    let job = until_state(&server, &again, "scheduled");
    assert_eq!(job["attempts"], 0);
    until(|| worker.has_said("given back: exit code 75, again in 1h"));
    assert!(worker.has_said("failed: exit code 3"));
    // The output of the command is passed through.
    assert!(worker.has_said("last words"));
}

#[test]
fn a_timeout_kills_the_whole_process_group() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pids");
    let id = put(&server, "x", &["--max-attempts", "1"]);
    // The sleep in the background is a process of its own, in the same group.
    let script = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
    let worker = Worker::start(&server, &["--timeout", "500ms"], &script);
    let job = until_state(&server, &id, "dead");
    assert_eq!(job["last_error"], "killed after 500ms");
    let pid = std::fs::read_to_string(&file).expect("the command has begun");
    let stat = format!("/proc/{}/stat", pid.trim());
    until(|| match std::fs::read_to_string(&stat) {
        // A zombie has ended; its parent has not collected it yet.
        Ok(stat) => stat.contains(") Z "),
        Err(_) => true,
    });
    assert!(worker.has_said("failed: killed after 500ms"));
}

#[test]
fn a_signal_lets_commands_finish_and_a_second_one_kills_them() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let go = folder.path().join("go");
    let first = put(&server, "first", &[]);
    let script = format!("echo begun >&2; until [ -e {} ]; do sleep 0.01; done", go.display());
    let worker = Worker::start(&server, &[], &script);
    until(|| worker.has_said("begun"));
    let second = put(&server, "second", &[]);
    worker.signal("TERM");
    std::fs::write(&go, "").expect("a file");
    let (status, lines) = worker.end();
    assert!(status.success(), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains(&format!("job {first} attempt 1: done"))));
    // The other job was not reserved, or was released.
    assert_eq!(until_state(&server, &second, "ready")["attempts"], 0);

    std::fs::remove_file(&go).expect("it is there");
    let worker = Worker::start(&server, &["--lease", "1h"], &script);
    until(|| worker.has_said("begun"));
    worker.signal("TERM");
    worker.signal("INT");
    let (status, lines) = worker.end();
    assert!(status.success(), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("given back: killed")), "{lines:?}");
    assert_eq!(until_state(&server, &second, "ready")["attempts"], 0);
}

#[test]
fn several_commands_run_at_the_same_time() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    server.run_with(&["put", "q", "--lines", "-"], b"1\n2\n3\n").code(0);
    // Each command waits until the two others run.
    let script = format!(
        "touch {0}/$(cat); until [ $(ls {0} | wc -l) = 3 ]; do sleep 0.01; done",
        folder.path().display()
    );
    let _worker = Worker::start(&server, &["--concurrency", "3"], &script);
    until(|| server.metric("tickwheel_jobs_acked_total") == 3);
}

#[test]
fn what_cannot_work_is_said_at_once() {
    let server = Server::start();
    let ran = server.run(&["work", "q"]);
    assert!(ran.code(2).contains("COMMAND"), "{ran:?}");
    let ran = server.run(&["work", "q", "--json", "--", "true"]);
    assert!(ran.code(2).contains("takes no --json"), "{ran:?}");
    let ran = server.run(&["work", "q", "--concurrency", "0", "--", "true"]);
    ran.code(2);
    let ran = tickwheel(&["work", "q", "--url", "http://127.0.0.1:1", "--", "true"]);
    assert!(ran.code(6).contains("127.0.0.1:1"), "{ran:?}");
    drop(server);

    let server = Server::start();
    let id = put(&server, "x", &["--max-attempts", "1"]);
    let mut child = server
        .command()
        .args(["work", "q", "--", "/nowhere/at-all"])
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let job = until_state(&server, &id, "dead");
    let error = job["last_error"].as_str().expect("an error");
    assert!(error.starts_with("/nowhere/at-all cannot be run: "), "{error}");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}
