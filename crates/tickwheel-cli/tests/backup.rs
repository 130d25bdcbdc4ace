//! `backup` and `restore`: under load, interrupted, damaged, and of a stopped directory.

mod rig;

use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use rig::{Server, run, tickwheel, until};
use serde_json::{Value, json};

/// The number of jobs of one request: a backup contains all of them or none.
const BATCH: usize = 10;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Puts a batch of jobs, with the number of the batch as their payload.
fn put_batch(server: &Server, queue: &str, number: u64) {
    let item = json!({ "queue": queue, "payload": number, "delay": "1h" });
    let body = json!({ "items": vec![item; BATCH] }).to_string();
    let answer = ureq::post(format!("{}/v1/jobs/batch", server.url))
        .header("content-type", "application/json")
        .send(&body);
    assert!(answer.is_ok(), "{answer:?}");
}

/// Returns all jobs of a queue, as a list shows them.
fn jobs(server: &Server, queue: &str) -> Vec<Value> {
    let page = server.run(&["ls", queue, "--all", "--limit", "1000", "--json"]).json();
    page["jobs"].as_array().expect("jobs").clone()
}

/// Returns a server with an object of each kind.
fn furnished() -> Server {
    let server = Server::start();
    server.run(&["queue", "set", "q", "--keep-done", "7d", "--lease", "2m"]).code(0);
    server.run(&["put", "q", r#"{"a": 1.0}"#, "--delay", "1h", "--key", "k", "-H", "x=y"]).code(0);
    server.run(&["put", "q", "text", "--priority", "9", "--at", "2099-01-01T00:00:00Z"]).code(0);
    server.run(&["put", "other", "x", "--idempotency-key", "once", "--delay", "1h"]).code(0);
    for _ in 0..2 {
        server.run(&["put", "q", "worked on"]).code(0);
        let reserved = server.run(&["reserve", "q", "--json"]).json();
        let delivery = &reserved["deliveries"][0];
        let part = |value: &Value| value.as_str().expect("a text").to_owned();
        let (id, token) = (part(&delivery["job"]["id"]), part(&delivery["token"]));
        let done = jobs(&server, "q").iter().any(|job| job["state"] == "done");
        let end: &[&str] = if done { &["fail", "--dead", "-e", "no"] } else { &["ack"] };
        let args: Vec<&str> =
            [end[0], &id, &token].into_iter().chain(end[1..].iter().copied()).collect();
        server.run(&args).code(0);
    }
    let schedule = ["schedule", "add", "report", "--queue", "q", "--cron", "0 9 * * *", "daily"];
    server.run(&schedule).code(0);
    for number in 0..200 {
        put_batch(&server, "many", number);
    }
    server
}

/// Returns everything that a server shows, without values that depend on the time.
fn shown(server: &Server) -> Vec<Value> {
    let mut all: Vec<Value> =
        ["q", "other", "many"].iter().flat_map(|queue| jobs(server, queue)).collect();
    let mut queues = server.run(&["queue", "ls", "--json"]).json();
    for queue in queues["queues"].as_array_mut().expect("queues") {
        let queue = queue.as_object_mut().expect("a queue");
        // Lateness is counted from the start of the process.
        assert!(queue.remove("lateness").is_some(), "{queue:?}");
    }
    all.push(queues);
    all.push(server.run(&["schedule", "ls", "--json"]).json());
    all
}

#[test]
fn what_is_restored_is_what_was_backed_up() {
    let server = furnished();
    let folder = tempfile::tempdir().unwrap();
    let (file, data) = (folder.path().join("a.backup"), folder.path().join("data"));
    let said = server.run(&["backup", text(&file), "--json"]).json();
    assert_eq!(said["bytes"], std::fs::metadata(&file).unwrap().len());
    assert!(server.run(&["backup", text(&file)]).code(2).contains("exists"));
    let restored = tickwheel(&["restore", text(&file), "--data", text(&data)]);
    assert!(restored.text().contains("checked") && restored.stderr.contains("tokens"));
    let copy = Server::start_on(&data);
    assert_eq!(shown(&copy), shown(&server));
    // The idempotency key is still known, and the store works.
    let again = ["put", "other", "x", "--idempotency-key", "once", "--delay", "1h"];
    copy.run(&again).code(0);
    assert_eq!(jobs(&copy, "other").len(), 1);
    copy.run(&["put", "q", "new"]).code(0);
    // A directory that is not empty is left alone.
    let refused = tickwheel(&["restore", text(&file), "--data", text(&data)]);
    assert!(refused.code(2).contains("not empty"));
}

#[test]
fn a_stopped_directory_is_backed_up_and_one_in_use_is_not() {
    let mut server = furnished();
    let wanted = shown(&server);
    let folder = tempfile::tempdir().unwrap();
    let (file, data) = (folder.path().join("a.backup"), folder.path().join("data"));
    let stopped = server.folder().to_owned();
    let of_directory = ["backup", text(&file), "--data", text(&stopped)];
    assert!(tickwheel(&of_directory).code(1).contains("a server uses"));
    server.signal("TERM");
    server.wait();
    tickwheel(&of_directory).code(0);
    tickwheel(&["restore", text(&file), "--data", text(&data)]).code(0);
    assert_eq!(shown(&Server::start_on(&data)), wanted);
    // The directory itself can still be used.
    assert_eq!(shown(&Server::start_on(&stopped)), wanted);
    let other = folder.path().join("b.backup");
    let nothing = ["backup", text(&other), "--data", text(folder.path())];
    assert!(tickwheel(&nothing).code(3).contains("not the data directory"));
}

#[test]
fn a_backup_under_load_is_of_one_moment() {
    let server = furnished();
    let folder = tempfile::tempdir().unwrap();
    let is_over = AtomicBool::new(false);
    let before = 200 * BATCH;
    let mut counts = Vec::new();
    std::thread::scope(|threads| {
        let load = threads.spawn(|| {
            let mut number = 1_000;
            while !is_over.load(Ordering::Relaxed) {
                put_batch(&server, "many", number);
                number += 1;
            }
            (number - 1_000) as usize * BATCH
        });
        for round in 0..3 {
            let acked = server.metric("tickwheel_jobs_put_total");
            until(|| server.metric("tickwheel_jobs_put_total") > acked);
            let file = folder.path().join(format!("{round}.backup"));
            let data = folder.path().join(format!("{round}"));
            server.run(&["backup", text(&file)]).code(0);
            tickwheel(&["restore", text(&file), "--data", text(&data)]).code(0);
            let copy = Server::start_on(&data);
            let found = jobs(&copy, "many");
            // The backup contains whole batches, no job twice, and as many jobs as the queue
            // counts.
            assert_eq!(found.len() % BATCH, 0, "{}", found.len());
            let mut ids: Vec<&str> = found.iter().map(|job| job["id"].as_str().unwrap()).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), found.len());
            let queue = copy.run(&["queue", "show", "many", "--json"]).json();
            assert_eq!(queue["jobs"]["scheduled"], found.len());
            counts.push(found.len());
        }
        is_over.store(true, Ordering::Relaxed);
        let put = load.join().expect("no panic");
        assert!(counts.is_sorted() && counts[0] >= before, "{counts:?}");
        assert!(counts[2] <= before + put, "{counts:?}, {put} put");
    });
}

#[test]
fn an_interrupted_or_damaged_backup_restores_nothing() {
    let server = furnished();
    let folder = tempfile::tempdir().unwrap();
    let (file, data) = (folder.path().join("a.backup"), folder.path().join("data"));
    // Kills the command of a backup after its first bytes.
    let mut command = server.command();
    command.args(["backup", "-"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut part = vec![0; 10_000];
    child.stdout.take().expect("a pipe").read_exact(&mut part).expect("a beginning");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let restore = ["restore", "-", "--data", text(&data)];
    let cut = run(rig::binary().args(restore), &part);
    assert!(cut.code(1).contains("incomplete"));
    assert!(!data.exists());

    server.run(&["backup", text(&file)]).code(0);
    let whole = std::fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    assert!(run(rig::binary().args(restore), &damaged).code(1).contains("damaged"));
    assert!(run(rig::binary().args(restore), b"a letter").code(1).contains("not a backup"));
    assert!(!data.exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");

    // Kills a restore in the middle, and starts another one after it.
    let mut command = rig::binary();
    command.args(restore).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&whole[..whole.len() / 2]).expect("it reads");
    stdin.flush().expect("it reads");
    until(|| folder.path().join("data.restoring/queue").exists());
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    drop(stdin);
    assert!(!data.exists(), "a half restored directory does not appear");
    run(rig::binary().args(restore), &whole).code(0);
    assert_eq!(shown(&Server::start_on(&data)), shown(&server));
    assert!(!folder.path().join("data.restoring").exists());
}

#[test]
fn a_backup_needs_an_admin_of_all_queues() {
    let folder = tempfile::tempdir().unwrap();
    let token = |name: &str, scope: &str, queue: &str| {
        let data = text(folder.path());
        let args = ["token", "new", "-n", name, "-s", scope, "-q", queue, "--data", data];
        tickwheel(&args).text().trim().to_owned()
    };
    let boss = token("boss", "admin", "*");
    let others = [token("reader", "read,produce,consume", "*"), token("tenant", "admin", "a-*")];
    let server = Server::start_on(folder.path());
    let backup = |token: &str| server.run(&["backup", "-", "--token", token]);
    assert!(backup(&boss).stdout.starts_with(b"tickwheel backup, format 1\n"));
    for other in &others {
        let refused = backup(other);
        refused.code(5);
        assert!(refused.stdout.is_empty());
    }
}
