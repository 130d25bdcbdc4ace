//! `export` and `import`: jobs that are exported from one server and imported into another are
//! exported unchanged.

mod rig;

use std::path::Path;
use std::process::Stdio;

use rig::{Ran, Server, run, until};
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn export(server: &Server) -> Vec<u8> {
    let exported = server.run(&["export"]);
    exported.code(0);
    exported.stdout
}

fn import(server: &Server, lines: &[u8]) -> Ran {
    server.run_with(&["import", "--json"], lines)
}

fn lines(exported: &[u8]) -> Vec<Value> {
    let lines = exported.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
}

/// Reserves the next job of a queue and returns its id and token.
fn reserve(server: &Server, queue: &str) -> (String, String) {
    let reserved = server.run(&["reserve", queue, "--json"]).json();
    let part = |value: &Value| value.as_str().expect("a text").to_owned();
    let delivery = &reserved["deliveries"][0];
    (part(&delivery["job"]["id"]), part(&delivery["token"]))
}

/// Returns a server with jobs in every state and of every kind, in queues with different settings.
fn furnished() -> Server {
    let server = Server::start();
    let ok = |args: &[&str]| drop(server.run(args).code(0).to_owned());
    ok(&["queue", "set", "q", "--keep-done", "7d", "--keep-cancelled", "10", "--retry", "1s..1h"]);
    ok(&["queue", "set", "calls", "--starts", "100", "--window", "1s", "--order", "priority"]);
    ok(&["put", "q", r#"{"b": 1.0, "a": [123456789012345678901]}"#, "--delay", "1h", "--key", "k"]);
    ok(&["put", "q", "text wörld", "--priority", "9", "--at", "2099-01-01T00:00:00Z"]);
    ok(&["put", "q", "42", "--as", "bytes", "-H", "x=y", "--max-attempts", "7", "--delay", "1h"]);
    ok(&[
        "put",
        "q",
        "g",
        "--group",
        "g",
        "--retry",
        "5s",
        "--on-success",
        "next",
        "--delay",
        "2h",
    ]);
    for end in ["ack", "fail", "dead", "cancel", "leased"] {
        ok(&["put", "q", end, "--at", "2020-01-01T00:00:00Z", "--key", end]);
        let (id, token) = reserve(&server, "q");
        match end {
            "ack" => ok(&["ack", &id, &token]),
            "fail" => ok(&["fail", &id, &token, "-e", "no such\naddress", "--delay", "1h"]),
            "dead" => ok(&["fail", &id, &token, "-e", "never", "--dead"]),
            "cancel" => ok(&["cancel", &id]),
            _ => {}
        }
    }
    ok(&["put", "paused", "x"]);
    ok(&["queue", "pause", "paused"]);
    let cron = ["--cron", "0 9 * * MON-FRI", "--timezone", "Europe/Berlin"];
    let add = ["schedule", "add", "report", "--queue", "q", "daily", "--misfire", "skip"];
    ok(&add.iter().chain(&cron).copied().collect::<Vec<_>>());
    ok(&["schedule", "add", "late", "--queue", "q", "--every", "1000h", r#"{"z":1,"a":2}"#]);
    ok(&["schedule", "pause", "late"]);
    let many: String = (0..1_500).map(|number| number.to_string() + "\n").collect();
    server.run_with(&["put", "many", "--lines", "-", "--delay", "1h"], many.as_bytes()).code(0);
    server
}

#[test]
fn an_export_of_what_was_imported_is_identical() {
    let server = furnished();
    let exported = export(&server);
    let copy = Server::start();
    let done = import(&copy, &exported).json();
    let jobs = lines(&exported).iter().filter(|line| line.get("job").is_some()).count();
    assert_eq!((&done["imported"], &done["refused"]), (&jobs.into(), &0.into()), "{done}");
    assert_eq!((&done["queues"], &done["schedules"]), (&5.into(), &2.into()), "{done}");
    let again = export(&copy);
    for (one, other) in lines(&exported).iter().zip(lines(&again)) {
        assert_eq!(*one, other);
    }
    assert!(exported == again, "the bytes differ");
    // Imported jobs work: the lease has ended, and keys and attempts are kept.
    let state = |key: &str| copy.run(&["get", "q", key, "--json"]).json();
    assert_eq!(
        (&state("leased")["state"], &state("leased")["attempts"]),
        (&"ready".into(), &1.into())
    );
    assert_eq!(state("fail")["last_error"], "no such\naddress");
    let (id, token) = reserve(&copy, "q");
    assert_eq!(copy.run(&["ack", &id, &token]).text(), "done\n");
    let counts =
        |server: &Server| server.run(&["queue", "show", "q", "--json"]).json()["jobs"].clone();
    assert_eq!((&counts(&copy)["dead"], &counts(&copy)["cancelled"]), (&1.into(), &1.into()));
}

/// Two processes and a pipe between them, as a shell makes it: nothing is in between that holds all
/// of it, and the second command reads while the first one writes.
#[test]
fn a_pipe_carries_everything_from_server_to_server() {
    let (server, copy) = (furnished(), Server::start());
    let mut sender = server
        .command()
        .args(["export", "-"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let pipe = sender.stdout.take().expect("a pipe");
    let receiver = copy
        .command()
        .args(["import", "-", "--json"])
        .stdin(Stdio::from(pipe))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let imported = receiver.wait_with_output().expect("it ends");
    assert!(imported.status.success() && sender.wait().expect("it ends").success());
    let done: Value = serde_json::from_slice(&imported.stdout).expect("JSON");
    assert_eq!((&done["refused"], &done["already_there"]), (&0.into(), &0.into()), "{done}");
    let exported = export(&server);
    assert!(exported == export(&copy), "the servers differ");
    assert!(lines(&exported).len() > 1_500);
}

/// The reader of a pipe is killed in the middle, and the whole pipe is repeated.
#[cfg(unix)]
#[test]
fn a_pipe_whose_reader_was_killed_is_repeated() {
    let (server, copy) = (furnished(), Server::start());
    let mut sender = server
        .command()
        .args(["export", "-"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let mut receiver = copy
        .command()
        .args(["import", "-"])
        .stdin(Stdio::from(sender.stdout.take().expect("a pipe")))
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary starts");
    until(|| copy.metric("tickwheel_jobs_pending") > 0);
    receiver.kill().expect("it is ours");
    receiver.wait().expect("it ends");
    // The reader of the pipe is gone, which is no error of the export; it may have ended before.
    assert!(sender.wait().expect("it ends").success());
    let done = import(&copy, &export(&server)).json();
    assert!(done["already_there"].as_u64() > Some(0), "{done}");
    assert!(export(&copy) == export(&server), "the servers differ");
}

#[test]
fn an_import_that_was_interrupted_is_repeated() {
    let server = furnished();
    let exported = export(&server);
    let copy = Server::start();
    // The input ends in the middle of a line, like that of a pipe whose writer was killed.
    let half = &exported[..exported.len() / 2];
    let cut = copy.run_with(&["import", "-"], half);
    assert!(cut.code(2).contains("can be repeated"), "{}", cut.stderr);
    let done = import(&copy, &exported).json();
    assert!(done["already_there"].as_u64() >= Some(500), "{done}");
    assert!(done["imported"].as_u64() >= Some(500), "{done}");
    assert!(export(&copy) == exported);
    // A second import adds nothing.
    assert_eq!(import(&copy, &exported).json()["imported"], 0);
    assert!(export(&copy) == exported);
}

#[test]
fn an_export_that_was_interrupted_is_continued() {
    let server = furnished();
    let folder = tempfile::tempdir().unwrap();
    let (whole, part) = (folder.path().join("whole"), folder.path().join("part"));
    server.run(&["export", text(&whole)]).code(0);
    let bytes = std::fs::read(&whole).unwrap();
    assert!(bytes == export(&server));
    assert!(server.run(&["export", text(&whole)]).code(2).contains("--resume"));
    assert!(server.run(&["export", "--resume"]).code(2).contains("FILE"));
    for length in [0, 10, bytes.len() / 3, bytes.len() - 1, bytes.len()] {
        std::fs::write(&part, &bytes[..length]).unwrap();
        server.run(&["export", text(&part), "--resume"]).code(0);
        let found = std::fs::read(&part).unwrap();
        assert!(found == bytes, "from byte {length}: {} of {}", found.len(), bytes.len());
    }
}

#[test]
fn targets_arrive_paused_and_without_their_secrets() {
    let server = Server::start();
    let url = "https://partner.example/{queue}";
    let more = ["--rate", "100/s", "--concurrency", "4", "--header", "authorization=Bearer abc"];
    let add = ["target", "add", "partner", url, "--header", "x-kind=order"];
    let added = server.run(&[&add[..], &more[..]].concat()).text();
    let secret =
        added.split_whitespace().find(|word| word.starts_with("whsec_")).expect("a secret");
    server.run(&["target", "pause", "partner"]).code(0);
    server.run(&["queue", "set", "orders", "--target", "partner"]).code(0);
    server.run(&["put", "orders", "x"]).code(0);
    let exported = export(&server);
    let told = String::from_utf8_lossy(&exported).into_owned();
    assert!(!told.contains(&secret[6..]) && !told.contains("Bearer abc"), "{told}");

    let copy = Server::start();
    let done = import(&copy, &exported);
    assert_eq!((&done.json()["targets"], &done.json()["imported"]), (&1.into(), &1.into()));
    let target = copy.run(&["target", "show", "partner", "--json"]).json();
    assert_eq!((&target["state"], &target["settings"]["url"]), (&"paused".into(), &url.into()));
    assert_eq!(target["settings"]["pacing"]["starts"], 100, "{target}");
    assert_eq!(target["settings"]["headers"], serde_json::json!({"x-kind": "order"}));
    assert_eq!(copy.run(&["queue", "show", "orders", "--json"]).json()["jobs"]["ready"], 1);
    assert!(export(&copy) == exported, "an export of what was imported differs");
    // Once more, and the target keeps what it was given meanwhile.
    copy.run(&["target", "set", "partner", "--timeout", "3s"]).code(0);
    assert_eq!(import(&copy, &exported).json()["targets"], 0);
    let kept = copy.run(&["target", "show", "partner", "--json"]).json();
    assert_eq!(kept["settings"]["timeout"], "3s");
    let told = Server::start().run_with(&["import", "-"], &exported);
    assert!(told.code(0).contains("paused and without secrets"), "{told:?}");
}

#[test]
fn what_cannot_be_imported_is_named_and_the_rest_is() {
    let server = Server::start();
    let job = |id: u32, more: &str| {
        let id = format!("01890a5d-ac96-774b-bcce-{id:012}");
        format!(
            r#"{{"job":{{"put":{{"id":"{id}","queue":"q","text":"x"{more}}},"created":1000}}}}"#
        )
    };
    server.run(&["put", "q", "x", "--key", "taken", "--delay", "1h"]).code(0);
    let finished =
        r#"{"job":{"put":{"id":"01890a5d-ac96-774b-bcce-b302099a8057","queue":"q","text":"x"},
        "created":1,"finished":{"state":"done","at":2}}}"#
            .replace('\n', "");
    let input = [job(1, ""), job(2, r#","key":"taken""#), finished, job(3, "")].join("\n");
    let done = server.run_with(&["import", "-"], input.as_bytes());
    let said = done.code(1);
    assert!(said.contains("line 2: refused") && said.contains("taken"), "{said}");
    assert!(said.contains("line 3: refused") && said.contains("keeps no such jobs"), "{said}");
    assert_eq!(done.stdout, b"2 jobs imported; 0 queues and 0 schedules added\n");
    let wrong = server.run_with(&["import", "-"], b"{\"job\":{}}\n");
    assert!(wrong.code(2).contains("line 1"), "{}", wrong.stderr);
    let wrong = run(server.command().args(["import", "/no/such"]), b"");
    assert!(wrong.code(2).contains("/no/such"));
}
