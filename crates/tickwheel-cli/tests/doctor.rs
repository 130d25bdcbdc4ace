//! `doctor`: on intact and damaged directories, their repair, and running servers with problems.
#![cfg(unix)]

mod rig;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rig::{Ran, Server, binary, limited, run, tickwheel, until};
use serde_json::{Value, json};

/// Checks whose results depend on the machine that runs the tests.
const OF_THE_MACHINE: [&str; 6] = ["clock", "sync", "disk", "file system", "file limit", "tokens"];
const JOBS: u64 = 300;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn doctor(data: &Path, more: &[&str]) -> Ran {
    let args = ["doctor", "--json", "--data", text(data)];
    run(binary().args(args).args(more), b"")
}

fn document(ran: &Ran) -> Value {
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("no JSON: {ran:?}"))
}

/// Returns the findings of a check, as severity and message with advice.
fn findings(ran: &Ran, check: &str) -> Vec<(String, String)> {
    let document = document(ran);
    let all = document["findings"].as_array().expect("findings");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.iter()
        .filter(|finding| finding["check"] == check)
        .map(|finding| {
            let told = format!("{} → {}", text(&finding["message"]), text(&finding["advice"]));
            (text(&finding["severity"]), told)
        })
        .collect()
}

/// Returns warnings and errors that do not depend on the machine.
fn troubles(ran: &Ran) -> Vec<Value> {
    let document = document(ran);
    let all = document["findings"].as_array().expect("findings").iter();
    let is_trouble = |finding: &&Value| {
        let check = finding["check"].as_str().unwrap_or_default();
        (finding["severity"] == "warning" || finding["severity"] == "error")
            && !OF_THE_MACHINE.contains(&check)
    };
    all.filter(is_trouble).cloned().collect()
}

#[track_caller]
fn assert_found(ran: &Ran, check: &str, severity: &str, text: &str) {
    let found = findings(ran, check);
    let is_there = found.iter().any(|(it, told)| it == severity && told.contains(text));
    assert!(is_there, "no {severity} of {check} with {text:?} in {found:#?}");
}

/// Checks that every command in the advice of a report is one that this program understands.
#[track_caller]
fn assert_advice_can_be_typed(ran: &Ran) {
    let document = document(ran);
    for finding in document["findings"].as_array().expect("findings") {
        let advice = finding["advice"].as_str().unwrap_or_default();
        for command in advice.split('`').skip(1).step_by(2) {
            let Some(args) = command.strip_prefix("tickwheel ") else { continue };
            // The arguments before it are parsed, and nothing is done.
            let args: Vec<&str> = args.split(' ').chain(["--help"]).collect();
            tickwheel(&args).code(0);
        }
    }
}

/// Reserves a job of a queue, and gives its id and token.
fn reserve(server: &Server, queue: &str) -> (String, String) {
    let reserved = server.run(&["reserve", queue, "--wait", "10s", "--json"]).json();
    let part = |value: &Value| value.as_str().expect("a text").to_owned();
    let delivery = &reserved["deliveries"][0];
    (part(&delivery["job"]["id"]), part(&delivery["token"]))
}

/// A target that gives this answer to every request; its URL.
fn target(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

/// Aims a queue at a new target, and waits until the target is in a state.
fn aim(server: &Server, name: &str, url: &str, state: &str) {
    server.run(&["target", "add", name, url]).code(0);
    let queue = format!("pushed-{name}");
    server.run(&["queue", "set", &queue, "--target", name]).code(0);
    server.run(&["put", &queue, "x"]).code(0);
    until(|| server.run(&["target", "show", name, "--json"]).json()["state"] == state);
}

/// The directory of a server that took jobs and was stopped by a signal.
fn directory(signal: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("it is ours");
    let mut server = Server::start_on(folder.path());
    for number in 0..JOBS / 10 {
        let item =
            json!({ "queue": "q", "payload": format!("payload {number:03}"), "delay": "1h" });
        let body = json!({ "items": vec![item; 10] }).to_string();
        let sent = ureq::post(format!("{}/v1/jobs/batch", server.url))
            .header("content-type", "application/json")
            .send(&body);
        assert!(sent.is_ok(), "{sent:?}");
    }
    server.signal(signal);
    server.wait();
    folder
}

fn journal(data: &Path) -> PathBuf {
    let entries = fs::read_dir(data.join("queue/store")).expect("a store");
    let mut journals: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .collect();
    journals.sort();
    journals.pop().expect("a journal")
}

#[test]
fn a_whole_directory_has_no_findings_of_its_own() {
    let folder = directory("TERM");
    let ran = doctor(folder.path(), &[]);
    assert_eq!(troubles(&ran), [] as [Value; 0]);
    assert_found(&ran, "damage", "fine", &format!("{JOBS} of them jobs"));
    assert_found(&ran, "format", "fine", "current format");
    assert_found(&ran, "permissions", "fine", "only the owner");
    assert!(!findings(&ran, "sync").is_empty() && !findings(&ran, "file limit").is_empty());
    // Without `--json`, the same findings are lines of text.
    let shown = tickwheel(&["doctor", "--data", text(folder.path())]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("ok       damage: all "), "{shown}");
    // The directory still works.
    let server = Server::start_on(folder.path());
    assert_eq!(server.run(&["queue", "show", "q", "--json"]).json()["jobs"]["scheduled"], JOBS);
    assert_found(&doctor(folder.path(), &[]), "store", "note", "a server uses");
}

#[test]
fn damage_is_found_tried_and_repaired() {
    let folder = directory("KILL");
    let path = journal(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    let needle = b"payload 015";
    let place = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[place] ^= 0xff;
    fs::write(&path, &bytes).unwrap();

    let ran = doctor(folder.path(), &[]);
    ran.code(9);
    assert_eq!(document(&ran)["status"], "error");
    assert_found(&ran, "damage", "error", text(&path));
    assert_found(&ran, "damage", "error", "tried on a copy, keeps ");
    assert!(fs::read(&path).unwrap() == bytes, "the check changed the journal");
    assert!(!folder.path().join("doctor-trial").exists());
    assert!(Server::try_start(folder.path(), "", &[]).is_err(), "it refuses to start");

    // Nothing is repaired without consent.
    assert!(doctor(folder.path(), &["--repair"]).code(2).contains("--yes"));
    assert!(fs::read(&path).unwrap() == bytes, "it was repaired without consent");
    let (_, told) = findings(&ran, "damage").remove(0);
    let number = |before: &str| {
        let rest = told.split_once(before).expect("a number").1;
        rest.split(' ').next().expect("a number").parse::<u64>().expect("a number")
    };
    let (kept, lost) = (number("keeps "), number("leaves out "));
    assert!(kept < JOBS && lost > 0 && kept + lost >= JOBS, "{told}");

    let repaired = doctor(folder.path(), &["--repair", "--yes"]);
    assert_eq!(troubles(&repaired), [] as [Value; 0]);
    let said = document(&repaired)["repaired"][0].as_str().unwrap().to_owned();
    assert!(said.contains(&format!("keeps {kept} jobs")), "{said}");
    assert_found(&repaired, "damage", "note", "`damaged/`");
    let server = Server::start_on(folder.path());
    assert_eq!(server.run(&["queue", "show", "q", "--json"]).json()["jobs"]["scheduled"], kept);
}

#[test]
fn access_of_other_users_is_found_and_taken_away() {
    let folder = directory("TERM");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let ran = doctor(folder.path(), &[]);
    assert!(matches!(ran.code, 8 | 9), "{ran:?}");
    assert_found(&ran, "permissions", "warning", "mode 755");
    let repaired = doctor(folder.path(), &["--repair", "-y"]);
    assert_found(&repaired, "permissions", "fine", "only the owner");
    assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
    let nothing = doctor(folder.path(), &["--repair", "-y"]);
    assert_eq!(document(&nothing)["repaired"], json!([]));
}

#[test]
fn a_public_address_needs_tokens() {
    let folder = directory("TERM");
    let public = || {
        let args = ["doctor", "--json", "--data", text(folder.path())];
        run(binary().env("TICKWHEEL_LISTEN", "0.0.0.0:7300").args(args), b"")
    };
    assert_found(&public(), "tokens", "error", "refuses to start");
    tickwheel(&["token", "new", "-n", "a", "-s", "admin", "--data", text(folder.path())]).code(0);
    assert_found(&public(), "tokens", "fine", "1 token");
}

#[test]
fn a_directory_that_is_none_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let missing = doctor(&folder.path().join("nowhere"), &[]);
    missing.code(9);
    assert_found(&missing, "directory", "error", "is not a directory");
    assert_found(&doctor(folder.path(), &[]), "store", "note", "no server has used");
    fs::create_dir(folder.path().join("queue")).unwrap();
    fs::write(folder.path().join("queue/FORMAT"), "tickwheel queue, format 9\n").unwrap();
    let newer = doctor(folder.path(), &[]);
    newer.code(9);
    assert_found(&newer, "format", "error", "has format 9, and this version knows");
    assert!(tickwheel(&["doctor", "--repair"]).code(2).contains("--data"));
}

#[test]
fn a_server_at_rest_has_nothing_wrong() {
    let server = Server::start();
    server.run(&["put", "mail", "later", "--delay", "1h"]).code(0);
    let ran = server.run(&["doctor", "--json"]);
    assert_eq!(troubles(&ran), [] as [Value; 0]);
    for check in ["server", "damage", "sync", "queues"] {
        let found = findings(&ran, check);
        assert!(found.iter().any(|(severity, _)| severity == "fine"), "{check}: {found:?}");
    }
    assert_found(&ran, "clock", "fine", "agree");
    assert_found(&ran, "tokens", "note", "without a token");
    // `--server` is an alias of `--url`.
    let named = tickwheel(&["doctor", "--server", &server.url, "--json"]);
    assert_eq!(document(&named)["checked"], server.url);
    assert!(tickwheel(&["doctor", "--url", "http://127.0.0.1:1"]).code(6).contains("no server"));
}

#[test]
fn a_server_in_trouble_says_where() {
    let server = Server::start_with(&["--push-allow", "127.0.0.1"]);
    // A job that has been ready for years, in a queue without workers.
    server.run(&["put", "lonely", "x", "--at", "2020-01-01T00:00:00Z"]).code(0);
    server.run(&["put", "asleep", "x"]).code(0);
    server.run(&["queue", "pause", "asleep"]).code(0);
    server.run(&["put", "broken", "x"]).code(0);
    let (id, token) = reserve(&server, "broken");
    server.run(&["fail", &id, &token, "--dead", "-e", "no"]).code(0);
    aim(&server, "partner", &target("HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n"), "stopped");
    let busy = "HTTP/1.1 429 Slow down\r\nretry-after: 3000\r\ncontent-length: 0\r\n\r\n";
    aim(&server, "busy", &target(busy), "held");

    let ran = server.run(&["doctor", "--json"]);
    ran.code(9);
    assert_found(&ran, "queues", "warning", "\"lonely\" has no worker: 1 ready job");
    assert_found(&ran, "queues", "note", "\"asleep\" is paused");
    assert_found(&ran, "dead jobs", "note", "\"broken\" has 1 dead job");
    assert_found(&ran, "dead jobs", "warning", "1 job died");
    assert_found(&ran, "targets", "error", "\"partner\" is stopped");
    assert_found(
        &ran,
        "targets",
        "error",
        "→ check its URL, then `tickwheel target resume partner`",
    );
    assert_found(&ran, "targets", "warning", "\"busy\" is held");
    assert_found(&ran, "targets", "warning", "`tickwheel target test busy` tries it now");
    assert_advice_can_be_typed(&ran);
}

#[test]
fn a_token_for_some_queues_sees_a_part() {
    let folder = tempfile::tempdir().unwrap();
    let new = ["token", "new", "-n", "a", "-s", "read", "-q", "mail", "--data"];
    let token = tickwheel(&[&new[..], &[text(folder.path())]].concat()).text().trim().to_owned();
    let server = Server::start_on(folder.path());
    server.run(&["doctor"]).code(5);
    let ran = server.run(&["doctor", "--json", "--token", &token]);
    assert_found(&ran, "store", "note", "limited to some queues");
    assert_found(&ran, "tokens", "fine", "asks for a token");
}

#[test]
fn a_manual_clock_is_told() {
    let server = Server::start_with(&["--clock", "manual"]);
    let ran = server.run(&["doctor", "--json"]);
    ran.code(8);
    assert_found(&ran, "clock", "warning", "manual");
}

#[test]
fn late_deliveries_are_told() {
    let server = Server::start();
    server.run(&["put", "q", "x", "--at", "2020-01-01T00:00:00Z"]).code(0);
    let (id, token) = reserve(&server, "q");
    server.run(&["ack", &id, &token]).code(0);
    let ran = server.run(&["doctor", "--json"]);
    assert_found(&ran, "lateness", "warning", "after they were due, in the last 5m → add workers");
    assert_advice_can_be_typed(&ran);
    // A job that is delivered when it is due is not late; the machine may be busy for a while.
    let server = Server::start();
    until(|| {
        server.run(&["put", "q", "x"]).code(0);
        let (id, token) = reserve(&server, "q");
        server.run(&["ack", &id, &token]).code(0);
        let found = findings(&server.run(&["doctor", "--json"]), "lateness");
        found.len() == 1 && found[0].0 == "fine"
    });
}

#[test]
fn a_full_disk_of_a_running_server_is_told() {
    // The store itself takes more than this, so there is no room for jobs.
    let server = Server::start_with(&["--limits-disk", "1MiB"]);
    let said = server.run(&["put", "q", "x"]).code(7).to_owned();
    assert!(said.contains("full"), "{said}");
    let ran = server.run(&["doctor", "--json"]);
    ran.code(9);
    assert_found(&ran, "disk", "error", "→ make room, or remove finished jobs");
}

#[test]
fn a_low_limit_of_open_files_is_told() {
    let folder = directory("TERM");
    let checked = |limits: &str| {
        run(limited(limits).args(["doctor", "--json", "--data", text(folder.path())]), b"")
    };
    let ran = checked("-n 300");
    assert!(matches!(ran.code, 8 | 9), "{ran:?}");
    assert_found(&ran, "file limit", "warning", "may open 300 files");
    assert_found(&ran, "file limit", "warning", "→ raise it with `ulimit -n`, or `LimitNOFILE`");
    // A low soft limit is raised to the hard one.
    let (_, raised) = findings(&checked("-Sn 300"), "file limit").remove(0);
    assert!(!raised.contains("may open 300 files"), "{raised}");
}

#[test]
fn rows_that_a_running_server_could_not_read_are_told() {
    let folder = directory("KILL");
    let path = journal(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    let needle = b"payload 015";
    let place = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[place] ^= 0xff;
    fs::write(&path, &bytes).unwrap();
    let server = Server::try_start(folder.path(), "", &["--salvage"]).unwrap();
    let lost = server.metric("tickwheel_damaged_total");
    assert!(lost > 0);
    let ran = server.run(&["doctor", "--json"]);
    ran.code(9);
    assert_found(&ran, "damage", "error", &format!("{lost} row"));
    let advice = "→ stop the server and run `tickwheel doctor --data DIRECTORY`";
    assert_found(&ran, "damage", "error", advice);
    assert_advice_can_be_typed(&ran);
}

/// Starts a proxy of a server that shifts the clock of its answers by this many milliseconds, and
/// returns its URL.
fn through_another_time(server: &Server, off_ms: i64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let behind = server.url.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if !matches!(stream.read(&mut byte), Ok(1)) {
                    break;
                }
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let Some(path) = head.split(' ').nth(1) else { continue };
            let agent =
                ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
            let mut answer = agent.get(format!("{behind}{path}")).call().expect("an answer");
            let status = answer.status().as_u16();
            let kind = answer.headers()["content-type"].to_str().expect("text").to_owned();
            let mut body = answer.body_mut().read_to_string().expect("an answer");
            if path == "/v1/clock" {
                let mut clock: Value = serde_json::from_str(&body).expect("JSON");
                let now = clock["now_ms"].as_i64().expect("a time");
                clock["now_ms"] = (now + off_ms).into();
                body = clock.to_string();
            }
            let length = body.len();
            let _ = stream.write_all(
                format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
                     connection: close\r\n\r\n{body}"
                )
                .as_bytes(),
            );
        }
    });
    url
}

#[test]
fn clocks_that_differ_are_told() {
    let server = Server::start();
    let checked = |off_ms| {
        let url = through_another_time(&server, off_ms);
        tickwheel(&["doctor", "--json", "--url", &url])
    };
    assert_found(&checked(0), "clock", "fine", "agree");
    let ahead = checked(30_000);
    assert!(matches!(ahead.code, 8 | 9), "{ahead:?}");
    assert_found(&ahead, "clock", "warning", "ahead of that of this machine → synchronize both");
    let behind = checked(-7_230_000);
    behind.code(9);
    assert_found(&behind, "clock", "error", "behind that of this machine → synchronize both");
}

#[test]
fn a_clock_that_was_set_back_is_told() {
    let folder = directory("TERM");
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(3_600);
    let file = fs::File::options().append(true).open(journal(folder.path())).unwrap();
    file.set_modified(later).unwrap();
    let ran = doctor(folder.path(), &[]);
    assert_found(&ran, "clock", "warning", "in the future: the clock was set back since");
    assert_found(&ran, "clock", "warning", "→ check the clock");
}
