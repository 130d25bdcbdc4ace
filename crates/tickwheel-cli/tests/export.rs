//! `export` and `import`: what comes out of a server goes into another, and comes out the same.

mod rig;

use std::path::Path;

use rig::{Ran, Server, run};
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn export(server: &Server) -> Vec<u8> {
    let exported = server.run(&["export", "-"]);
    exported.code(0);
    exported.stdout
}

fn import(server: &Server, lines: &[u8]) -> Ran {
    server.run_with(&["import", "-", "--json"], lines)
}

fn lines(exported: &[u8]) -> Vec<Value> {
    let lines = exported.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
}

/// Reserves the next job of a queue and gives its id and token.
fn reserve(server: &Server, queue: &str) -> (String, String) {
    let reserved = server.run(&["reserve", queue, "--json"]).json();
    let part = |value: &Value| value.as_str().expect("a text").to_owned();
    let delivery = &reserved["deliveries"][0];
    (part(&delivery["job"]["id"]), part(&delivery["token"]))
}

/// A server with jobs in every state, of every kind, in queues with settings of their own.
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
    // What was imported lives: the lease is over, and the key and the attempts are known.
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

#[test]
fn an_import_that_was_interrupted_is_repeated() {
    let server = furnished();
    let exported = export(&server);
    let copy = Server::start();
    // Its line is cut off in the middle, like that of a pipe whose writer was killed.
    let half = &exported[..exported.len() / 2];
    let cut = copy.run_with(&["import", "-"], half);
    assert!(cut.code(2).contains("can be repeated"), "{}", cut.stderr);
    let done = import(&copy, &exported).json();
    assert!(done["already_there"].as_u64() >= Some(500), "{done}");
    assert!(done["imported"].as_u64() >= Some(500), "{done}");
    assert!(export(&copy) == exported);
    // Once more, and nothing is new.
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
    for length in [0, 10, bytes.len() / 3, bytes.len() - 1, bytes.len()] {
        std::fs::write(&part, &bytes[..length]).unwrap();
        server.run(&["export", text(&part), "--resume"]).code(0);
        let found = std::fs::read(&part).unwrap();
        assert!(found == bytes, "from byte {length}: {} of {}", found.len(), bytes.len());
    }
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
