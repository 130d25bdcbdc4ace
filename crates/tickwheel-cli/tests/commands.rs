//! Every command against a real server: what it does, what it prints, and its JSON.

mod rig;

use rig::Server;
use serde_json::{Value, json};

/// Puts a job and gives its id.
fn put(server: &Server, args: &[&str]) -> String {
    let args: Vec<&str> = ["put", "--json"].iter().chain(args).copied().collect();
    server.run(&args).json()["id"].as_str().expect("an id").to_owned()
}

/// Reserves one job and gives its id and token.
fn reserve(server: &Server, queue: &str) -> (String, String) {
    let answer = server.run(&["reserve", queue, "--wait", "10s", "--json"]).json();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let delivery = &answer["deliveries"][0];
    (text(&delivery["job"]["id"]), text(&delivery["token"]))
}

/// The short form of an id, as lists show it.
fn short(id: &str) -> String {
    let digits = id.replace('-', "");
    format!("{}..{}", &digits[..12], &digits[26..])
}

fn state(server: &Server, id: &str) -> String {
    server.run(&["get", id, "--json"]).json()["state"].as_str().expect("a state").to_owned()
}

#[test]
fn a_job_goes_its_way() {
    let server = Server::start();
    let put =
        server.run(&["put", "orders", r#"{"close": 42}"#, "--delay", "30m", "--key", "order-42"]);
    let text = put.text();
    assert!(text.contains("put, due in 30m (20"), "{text}");
    let id = text.split_whitespace().next().unwrap();

    let shown = server.run(&["get", "orders", "order-42"]).text();
    for part in [id, "scheduled", "order-42", "in 30m", "\"close\": 42"] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
    let listed = server.run(&["ls", "orders"]).text();
    assert!(listed.contains(&short(id)) && listed.contains(r#"{"close":42}"#), "{listed}");

    let moved = server.run(&["reschedule", "orders", "order-42", "--delay", "10m"]).text();
    assert!(moved.starts_with("due in 10m"), "{moved}");
    server.run(&["reschedule", id, "--at", "2020-01-01T00:00:00Z"]).code(0);
    assert_eq!(state(&server, id), "ready");

    let (reserved, token) = reserve(&server, "orders");
    assert_eq!(reserved, id);
    let extended = server.run(&["extend", id, &token, "--lease", "5m"]).text();
    assert!(extended.starts_with("the lease ends in 5m"), "{extended}");
    assert_eq!(server.run(&["ack", id, &token]).text(), "done\n");
    assert!(server.run(&["get", id]).code(3).contains(id));
}

#[test]
fn every_command_takes_a_short_id() {
    let server = Server::start();
    let id = put(&server, &["q", "x", "--delay", "1h"]);
    let first = &id[..13];
    assert!(server.run(&["get", &short(&id)]).text().contains(&id));
    assert!(server.run(&["get", first]).text().contains(&id));
    server.run(&["reschedule", &short(&id), "--at", "2020-01-01T00:00:00Z"]).code(0);
    let (_, token) = reserve(&server, "q");
    server.run(&["extend", first, &token, "--lease", "5m"]).code(0);
    server.run(&["release", first, &token]).code(0);
    let (_, token) = reserve(&server, "q");
    server.run(&["fail", &short(&id), &token, "--dead"]).code(0);
    server.run(&["kick", &short(&id)]).code(0);
    let (_, token) = reserve(&server, "q");
    server.run(&["ack", &short(&id), &token]).code(0);
    assert!(server.run(&["get", &short(&id)]).code(3).contains("no job with the id"));

    // The jobs of one batch have the same beginning, and their short ids differ.
    server.run_with(&["put", "q", "--lines", "-", "--delay", "1h"], b"one\ntwo\nthree").code(0);
    let listed = server.run(&["ls", "q", "--json"]).json();
    let ids: Vec<&str> = (0..3).map(|n| listed["jobs"][n]["id"].as_str().expect("an id")).collect();
    let said = server.run(&["cancel", &ids[0][..8]]).code(2).to_owned();
    assert!(said.contains("ambiguous") && ids.iter().all(|id| said.contains(id)), "{said}");
    server.run(&["cancel", &short(ids[1])]).code(0);
    assert_eq!(server.run(&["ls", "q", "--json"]).json()["jobs"].as_array().unwrap().len(), 2);
    assert!(server.run(&["get", "012"]).code(2).contains("at least 4"));
    assert!(server.run(&["get", "order"]).code(2).contains("give its queue and its key"));
}

#[test]
fn a_list_fits_a_terminal_of_80_columns() {
    let server = Server::start();
    let long = "a text that is much longer than what one line of a terminal can show of it";
    for key in ["a-key-that-is-longer-than-its-column", "日本語の長いキーは二倍の幅を取る"]
    {
        server.run(&["put", "q", long, "--key", key, "--delay", "700h"]).code(0);
    }
    server.run(&["put", "q", long, "--key", "now"]).code(0);
    let width =
        |text: &str| text.chars().map(|c| if c > '\u{2e80}' { 2 } else { 1 }).sum::<usize>();
    let reserved = server.run(&["reserve", "q"]).text();
    for line in server.run(&["ls", "q"]).text().lines().chain(reserved.lines()) {
        assert!(width(line) <= 80, "{} columns: {line}", width(line));
    }
    assert!(reserved.contains("a text") && reserved.contains('…'), "{reserved}");
}

#[test]
fn json_is_the_answer_of_the_api() {
    let server = Server::start();
    let put = server.run(&[
        "put",
        "a",
        "[1.0,123456789012345678901234567890]",
        "--delay",
        "1h",
        "--json",
    ]);
    let put = put.json();
    assert_eq!(put["outcome"], "created");
    assert!(put["due_ms"].is_u64() && put["due"].is_string());
    let id = put["id"].as_str().unwrap();
    // Numbers stay as they were written: nothing is lost on the way.
    assert!(
        server.run(&["get", id, "--json"]).text().contains("[1.0,123456789012345678901234567890]")
    );
    let page = server.run(&["ls", "a", "--json"]).json();
    assert_eq!((&page["jobs"][0]["id"], &page["next"]), (&json!(id), &Value::Null));
    assert_eq!(server.run(&["cancel", id, "--json"]).json(), json!({ "was": "scheduled" }));
    assert_eq!(server.run(&["reserve", "a", "--json"]).json(), json!({ "deliveries": [] }));
    let queues = server.run(&["queue", "ls", "--json"]).json();
    assert_eq!(queues["queues"][0]["name"], "a");
    assert!(server.run(&["stats", "--json"]).json().is_object());
    // The options may come first, too.
    assert!(server.run(&["--json", "ls"]).json().is_object());
}

#[test]
fn a_payload_comes_from_an_argument_a_file_or_a_pipe() {
    let server = Server::start();
    let payload = |id: &str| server.run(&["get", id, "--payload"]).stdout;
    let bytes = [0, 159, 146, 150, 10, 13];

    let text = put(&server, &["q", "hello wörld", "--delay", "1h"]);
    assert_eq!(payload(&text), "hello wörld".as_bytes());
    assert_eq!(server.run(&["get", &text, "--json"]).json()["text"], "hello wörld");

    let file = server.folder().join("payload.bin");
    std::fs::write(&file, bytes).unwrap();
    let binary = put(&server, &["q", "--file", file.to_str().unwrap(), "--delay", "1h"]);
    assert_eq!(payload(&binary), bytes);
    assert!(server.run(&["get", &binary]).text().contains("(6 B;"));

    let piped = server.run_with(&["put", "q", "-", "--delay", "1h", "--json"], b"{ \"a\" : 1 }\n");
    let piped = piped.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(payload(&piped), br#"{"a":1}"#);

    let number = put(&server, &["q", "42", "--as", "text", "--delay", "1h"]);
    assert_eq!(server.run(&["get", &number, "--json"]).json()["text"], "42");
    let number = put(&server, &["q", "42", "--delay", "1h"]);
    assert_eq!(server.run(&["get", &number, "--json"]).json()["payload"], 42);
    assert!(server.run(&["put", "q", "{", "--as", "json"]).code(2).contains("not JSON"));
    assert!(server.run(&["put", "q", "--file", "/no/such"]).code(2).contains("/no/such"));
}

#[test]
fn lines_become_jobs() {
    let server = Server::start();
    let input = b"one\n{\"two\":2}\r\n\nthree";
    let put = server.run_with(&["put", "q", "--lines", "-", "--delay", "1h", "--json"], input);
    let lines: Vec<Value> =
        put.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line["ok"]["outcome"] == "created"), "{lines:?}");
    let page = server.run(&["ls", "q", "--json"]).json();
    assert_eq!(page["jobs"].as_array().unwrap().len(), 3);
    assert!(server.run(&["ls", "q"]).text().contains("three"));
}

#[test]
fn what_a_job_can_have_arrives() {
    let server = Server::start();
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    let args = [
        "q",
        "x",
        "--id",
        id,
        "--at",
        "2099-12-24T18:00:00Z",
        "--key",
        "k",
        "--priority",
        "-3",
        "--header",
        "trace=7",
        "-H",
        "content-type=text/csv",
        "--max-attempts",
        "4",
        "--retry",
        "1s..1h",
        "--group",
        "g",
    ];
    assert_eq!(put(&server, &args), id);
    let job = server.run(&["get", id, "--json"]).json();
    assert_eq!(job["due"], "2099-12-24T18:00:00.000Z");
    assert_eq!(
        (&job["key"], &job["priority"], &job["group"]),
        (&json!("k"), &json!(-3), &json!("g"))
    );
    assert_eq!(job["headers"]["trace"], "7");
    assert_eq!((&job["max_attempts"], &job["text"]), (&json!(4), &json!("x")));
    assert!(job["retry"]["exponential"].is_object(), "{job}");
    let shown = server.run(&["get", id]).text();
    for part in ["2099-12-24 18:00:00Z", "header trace", "0 of 4", "text/csv"] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
}

#[test]
fn a_key_that_is_taken_does_what_was_asked() {
    let server = Server::start();
    let put = |how: &[&str]| {
        let args = ["put", "q", "x", "--delay", "1h", "--key", "k"];
        server.run(&args.iter().chain(how).copied().collect::<Vec<_>>())
    };
    let first = put(&[]).text();
    let first = first.split_whitespace().next().unwrap();
    assert!(put(&["--on-conflict", "keep"]).text().starts_with(&format!("{first}  kept")));
    assert!(put(&["--on-conflict", "reject"]).code(4).contains("\"k\""));
    let replaced = put(&[]).text();
    assert!(replaced.contains(&format!("put in place of {first}")), "{replaced}");
}

#[test]
fn an_idempotency_key_makes_a_repeated_put_harmless() {
    let server = Server::start();
    let put = |payload| {
        server.run(&["put", "q", payload, "--delay", "1h", "--idempotency-key", "i-1", "--json"])
    };
    assert_eq!(put("a").json()["id"], put("a").json()["id"]);
    assert_eq!(server.run(&["ls", "q", "--json"]).json()["jobs"].as_array().unwrap().len(), 1);
    assert!(put("b").code(4).contains("idempotency-conflict"));
}

#[test]
fn a_list_is_filtered_and_paged() {
    let server = Server::start();
    for number in 0..5 {
        let key = format!("order-{number}");
        let at = format!("2099-01-0{}T00:00:00Z", number + 1);
        put(&server, &["q", "x", "--key", &key, "--at", &at]);
    }
    put(&server, &["q", "now"]);
    let ids = |args: &[&str]| {
        let args: Vec<&str> = ["ls", "q", "--json"].iter().chain(args).copied().collect();
        let page = server.run(&args).json();
        (page["jobs"].as_array().unwrap().len(), page["next"].as_str().map(str::to_owned))
    };
    assert_eq!(ids(&[]).0, 6);
    assert_eq!(ids(&["--state", "ready"]).0, 1);
    assert_eq!(ids(&["--state", "dead"]).0, 0);
    assert_eq!(ids(&["--key-prefix", "order-"]).0, 5);
    assert_eq!(
        ids(&["--due-from", "2099-01-02T00:00:00Z", "--due-to", "2099-01-04T00:00:00Z"]).0,
        3
    );
    let (count, next) = ids(&["--limit", "4"]);
    assert_eq!(count, 4);
    assert_eq!(ids(&["--limit", "4", "--page", &next.expect("there is more")]), (2, None));
    assert_eq!(ids(&["--limit", "2", "--all"]), (6, None));
    let page = server.run(&["ls", "q", "--limit", "2"]);
    assert!(page.code(0).contains("--all"));
    assert_eq!(page.text().lines().count(), 3);
    // Nothing there is an answer, too.
    let none = server.run(&["ls", "q", "--state", "dead"]);
    assert_eq!(none.text(), "");
    assert!(none.stderr.contains("no such jobs"));
}

#[test]
fn workers_fail_release_and_kick() {
    let server = Server::start();
    let id = put(&server, &["q", "x"]);
    let (_, token) = reserve(&server, "q");
    assert_eq!(server.run(&["release", &id, &token]).text(), "released\n");
    let (_, token) = reserve(&server, "q");
    let failed = server.run(&["fail", &id, &token, "--error", "no such address", "--delay", "1h"]);
    assert!(failed.text().starts_with("scheduled"), "{failed:?}");
    let shown = server.run(&["get", &id]).text();
    assert!(shown.contains("no such address"), "{shown}");

    server.run(&["reschedule", &id, "--delay", "0s"]).code(0);
    let (_, token) = reserve(&server, "q");
    assert!(server.run(&["fail", &id, &token, "--dead"]).text().starts_with("dead"));
    assert_eq!(state(&server, &id), "dead");
    assert_eq!(server.run(&["kick", &id]).text(), "ready again\n");
    // A late worker is told that its lease is over.
    assert!(server.run(&["ack", &id, &token]).code(4).contains(&id));

    let (_, token) = reserve(&server, "q");
    server.run(&["fail", &id, &token, "--dead"]).code(0);
    assert_eq!(
        server.run(&["kick", "--queue", "q", "--limit", "5"]).text(),
        "1 job is ready again\n"
    );
    let (_, token) = reserve(&server, "q");
    server.run(&["fail", &id, &token, "--dead"]).code(0);
    assert_eq!(
        server.run(&["remove-finished", "q", "-s", "dead", "--older-than", "1h", "--yes"]).text(),
        "0 jobs removed\n"
    );
    let asked = server.run(&["remove-finished", "q", "--state", "dead"]).code(2).to_owned();
    assert!(
        asked.contains("removes finished jobs of queue \"q\": repeat it with --yes"),
        "{asked}"
    );
    let purged = server.run(&["purge", "q", "--state", "dead", "--yes"]);
    assert_eq!(purged.text(), "1 job removed\n");
}

#[test]
fn get_shows_the_attempts_of_a_job() {
    let server = Server::start();
    let id = put(&server, &["q", "x"]);
    let reserve = |worker: &str| {
        let args = ["reserve", "q", "--wait", "10s", "--worker", worker, "--json"];
        let answer = server.run(&args).json();
        answer["deliveries"][0]["token"].as_str().expect("a token").to_owned()
    };
    let token = reserve("mail-7");
    let leased = server.run(&["get", &id]).text();
    assert!(leased.contains("mail-7") && !leased.contains("Attempts"), "{leased}");
    let fail = ["fail", &id, &token, "--error", "connection refused", "--delay", "1ms"];
    server.run(&fail).code(0);
    let token = reserve("mail-8");
    server.run(&["release", &id, &token]).code(0);
    let shown = server.run(&["get", &id]).text();
    let lines: Vec<&str> = shown.lines().skip_while(|line| *line != "Attempts").collect();
    assert!(lines[2].contains("failed") && lines[2].contains("mail-7"), "{shown}");
    assert!(lines[2].ends_with("connection refused"), "{shown}");
    assert!(lines[3].contains("released") && lines[3].ends_with("mail-8"), "{shown}");
}

#[test]
fn reserve_shows_what_to_acknowledge() {
    let server = Server::start();
    put(&server, &["q", "first"]);
    put(&server, &["q", "second"]);
    let shown = server.run(&["reserve", "q", "--limit", "5", "--lease", "10m"]).text();
    assert_eq!(shown.lines().count(), 3, "{shown}");
    assert!(shown.contains("in 10m") && shown.contains("second"), "{shown}");
    let none = server.run(&["reserve", "q", "--wait", "10ms"]);
    assert_eq!(none.text(), "");
    assert!(none.stderr.contains("no job of queue \"q\" is ready"));
}

#[test]
fn cancelling_what_waits_asks_first() {
    let server = Server::start();
    put(&server, &["q", "x", "--delay", "1h"]);
    assert!(server.run(&["cancel-waiting", "q"]).code(2).contains("--yes"));
    assert_eq!(server.run(&["cancel-waiting", "q", "--yes"]).text(), "1 job cancelled\n");
    // The earlier name.
    assert_eq!(server.run(&["drain", "q", "--yes"]).text(), "0 jobs cancelled\n");
}

#[test]
fn a_queue_with_jobs_is_removed_by_force_only() {
    let server = Server::start();
    put(&server, &["q", "x", "--delay", "1h"]);
    let refused = server.run(&["queue", "rm", "q"]);
    assert!(refused.stderr.contains("has 1 jobs"), "{}", refused.stderr);
    let removed = server.run(&["queue", "rm", "q", "--force"]).text();
    assert_eq!(removed, "queue \"q\" is removed, with 1 job\n");
    assert!(server.run(&["queue", "rm", "q"]).stderr.contains("there is no queue"));
}

#[test]
fn queues_are_set_paused_and_shown() {
    let server = Server::start();
    let set = [
        "queue",
        "set",
        "calls",
        "--lease",
        "2m",
        "--max-attempts",
        "5",
        "--retry",
        "1s,10s,1m",
        "--starts",
        "100",
        "--window",
        "1s",
        "--concurrency",
        "7",
        "--group-concurrency",
        "2",
        "--keep-done",
        "7d,1000",
        "--keep-dead",
        "forever",
        "--keep-cancelled",
        "nothing",
    ];
    server.run(&set).code(0);
    let settings = server.run(&["queue", "show", "calls", "--json"]).json()["settings"].clone();
    assert_eq!((&settings["lease"], &settings["max_attempts"]), (&json!("2m"), &json!(5)));
    assert_eq!(settings["retry"], json!({ "list": ["1s", "10s", "1m"] }));
    assert_eq!(settings["pacing"]["starts"], 100);
    assert_eq!(settings["pacing"]["concurrency"], 7);
    assert_eq!(settings["group_pacing"]["concurrency"], 2);

    // What is not named stays as it is.
    server.run(&["queue", "set", "calls", "--no-pacing", "--retry", "30s"]).code(0);
    let settings = server.run(&["queue", "show", "calls", "--json"]).json()["settings"].clone();
    assert_eq!(
        (&settings["lease"], &settings["retry"]),
        (&json!("2m"), &json!({ "fixed": "30s" }))
    );
    assert!(settings["pacing"]["starts"].is_null(), "{settings}");
    assert_eq!(settings["group_pacing"]["concurrency"], 2);

    put(&server, &["calls", "x"]);
    assert_eq!(server.run(&["queue", "pause", "calls"]).text(), "queue \"calls\" is paused\n");
    assert_eq!(server.run(&["reserve", "calls"]).text(), "");
    let shown = server.run(&["queue", "show", "calls"]).text();
    for part in ["paused", "2m", "every 30s", "ready"] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
    assert_eq!(server.run(&["queue", "resume", "calls"]).text(), "queue \"calls\" is resumed\n");
    reserve(&server, "calls");
    assert!(server.run(&["queue", "ls"]).text().contains("calls"));
    assert!(server.run(&["ls"]).text().contains("calls"));
    assert!(server.run(&["queue", "set", "calls"]).code(2).contains("--lease"));
}

#[test]
fn groups_are_listed_paused_and_limited() {
    let server = Server::start();
    for group in ["acme", "acme", "initech"] {
        put(&server, &["calls", "x", "--group", group]);
    }
    let set = |args: &[&str]| server.run(&[&["queue", "set-group", "calls"], args].concat());
    let shown = set(&["acme", "--pause"]).text();
    assert!(shown.contains("acme") && shown.contains("paused"), "{shown}");
    reserve(&server, "calls");
    assert_eq!(server.run(&["reserve", "calls"]).text(), "", "acme is paused");
    let page = server.run(&["queue", "groups", "calls", "--json"]).json();
    let counts =
        |group: &Value| (group["name"].clone(), group["waiting"].clone(), group["running"].clone());
    assert_eq!(counts(&page["groups"][0]), (json!("acme"), json!(2), json!(0)));
    assert_eq!(counts(&page["groups"][1]), (json!("initech"), json!(0), json!(1)));
    assert_eq!(page["groups"][0]["held"], 2);

    set(&["acme", "--resume", "--starts", "5", "--window", "1m"]).code(0);
    let group = set(&["acme", "--concurrency", "1", "--json"]).json();
    assert_eq!(group["pacing"], json!({"starts": 5, "window": "1m", "concurrency": 1}));
    reserve(&server, "calls");
    assert_eq!(server.run(&["reserve", "calls"]).text(), "", "one of acme is out");
    set(&["acme", "--queue-pacing"]).code(0);
    reserve(&server, "calls");

    let table = server.run(&["queue", "groups", "calls", "--limit", "1", "--all"]).text();
    assert!(table.contains("acme") && table.contains("initech"), "{table}");
    let table = server.run(&["queue", "groups", "calls", "--prefix", "in"]).text();
    assert!(!table.contains("acme") && table.contains("initech"), "{table}");
    assert_eq!(server.run(&["queue", "groups", "calls", "--prefix", "x"]).text(), "");
    assert!(set(&["acme"]).code(2).contains("--pause"));
    server.run(&["queue", "set", "calls", "--fair-groups", "true"]).code(0);
    let shown = server.run(&["queue", "show", "calls"]).text();
    assert!(shown.contains("served in turn"), "{shown}");
}

#[test]
fn schedules_come_and_go() {
    let server = Server::start();
    let cron = ["--cron", "0 9 * * MON-FRI", "--timezone", "Europe/Berlin"];
    let add = ["schedule", "add", "report", "--queue", "mail", r#"{"report":true}"#];
    let added = server.run(&add.iter().chain(&cron).copied().collect::<Vec<_>>());
    let words = "At 09:00 on Monday through Friday, Europe/Berlin\nnext in ";
    assert!(added.text().contains(words), "{added:?}");
    let every = ["schedule", "add", "ping", "--queue", "calls", "--every", "200ms", "x"];
    server.run(&every).code(0);
    let listed = server.run(&["schedule", "ls"]).text();
    assert!(listed.contains("report") && listed.contains("ping"), "{listed}");
    let next = server.run(&["schedule", "next", "report", "-n", "3"]).text();
    assert_eq!(next.lines().count(), 3, "{next}");
    let is_local = |line: &str| line.contains(" 09:00:00+0") && line.contains("in ");
    assert!(next.lines().all(is_local), "in the time zone of the schedule: {next}");
    let paused = server.run(&["schedule", "pause", "report"]).text();
    assert_eq!(paused, "schedule \"report\" is paused\n");
    assert!(server.run(&["schedule", "show", "report"]).text().contains("paused"));
    let resumed = server.run(&["schedule", "resume", "report"]).text();
    assert!(resumed.contains("is resumed, next in "), "{resumed}");
    assert!(server.run(&["schedule", "pause", "reprot"]).code(3).contains("did you mean"));
    assert!(server.run(&["schedule", "show", "report"]).text().contains("Europe/Berlin"));
    assert!(server.run(&["schedule", "show", "report", "--json"]).json().is_object());
    // It puts a job each time.
    reserve(&server, "calls");
    assert_eq!(server.run(&["schedule", "rm", "ping"]).text(), "schedule \"ping\" is removed\n");
    assert!(server.run(&["schedule", "show", "ping"]).code(3).contains("ping"));
    assert!(
        server
            .run(&["schedule", "rm", "reprot"])
            .code(3)
            .contains("did you mean the schedule \"report\"?")
    );
    let wrong = ["schedule", "add", "bad", "--queue", "mail", "--cron", "0 99 * * *", "x"];
    let said = server.run(&wrong).code(2).to_owned();
    assert!(said.contains("\n  0 99 * * *\n    ^^"), "{said}");
}

#[test]
fn the_end_of_a_lease_is_told_from_when_the_answer_came() {
    let server = Server::start();
    server.run(&["queue", "set", "q", "--lease", "1m"]).code(0);
    put(&server, &["q", "x", "--delay", "2s"]);
    let told = server.run(&["reserve", "q", "--wait", "20s"]).text();
    assert!(!told.contains("in 1m 1s") && !told.contains("in 1m 2s"), "{told}");
    assert!(told.contains("in 1m") || told.contains("in 59s"), "{told}");
}

#[test]
fn watch_goes_on_when_the_server_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start_on(folder.path());
    let address = server.address().to_owned();
    let watch = |form: &[&str]| {
        let mut watch = server.command();
        watch.args(["watch", "q", "--count", "2"]).args(form);
        std::thread::spawn(move || rig::run(&mut watch, b""))
    };
    let (for_programs, for_people) = (watch(&["--json"]), watch(&[]));
    let watched = |server: &Server| server.metric("tickwheel_http_event_streams") == 2;
    rig::until(|| watched(&server));
    let before = put(&server, &["q", "x"]);
    server.signal("TERM");
    assert!(server.wait().success());
    let server = Server::start_at(folder.path(), &address);
    rig::until(|| watched(&server));
    let after = put(&server, &["q", "y"]);

    let seen = for_programs.join().unwrap().text();
    let seen: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> = seen.iter().map(|event| event["event"].as_str().unwrap()).collect();
    // The ids of another life mean nothing: what happened in between may be missing.
    assert_eq!(events, ["put", "reset", "put"]);
    assert_eq!((&seen[0]["job"], &seen[2]["job"]), (&before.into(), &after.into()));
    let told = for_people.join().unwrap();
    assert_eq!(told.text().lines().count(), 2, "{told:?}");
    assert_eq!(told.stderr.matches("the connection is lost").count(), 1, "{told:?}");
    assert!(
        told.stderr.contains("some events were lost") && !told.stderr.contains('{'),
        "{told:?}"
    );
}

#[test]
fn watch_shows_what_happens() {
    let server = Server::start();
    let mut watch = server.command();
    watch.args(["watch", "q", "--json", "--count", "3"]);
    let watching = std::thread::spawn(move || rig::run(&mut watch, b""));
    // Until it is connected there is nothing to see: go on until it has seen enough.
    while !watching.is_finished() {
        let id = put(&server, &["q", "x", "--delay", "1h"]);
        server.run(&["cancel", &id]).code(0);
    }
    let seen = watching.join().unwrap();
    let mut lines: Vec<Value> =
        seen.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // It may have come while something was being committed, and is told of that then.
    if lines[0]["event"] == "reset" {
        lines.remove(0);
    }
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|event| event["queue"] == "q"), "{lines:?}");

    // It goes on after an event that was seen before, and tells people as well.
    let first = lines[0]["id"].as_str().map_or_else(|| lines[0]["id"].to_string(), str::to_owned);
    let again = server.run(&["watch", "q", "--json", "--since", &first, "--count", "1"]);
    assert_eq!(again.json(), lines[1]);
    let told = server.run(&["watch", "q", "--since", &first, "--count", "1"]).text();
    assert!(told.contains(lines[1]["job"].as_str().unwrap()), "{told}");
}

#[test]
fn stats_tell_what_happened_lately_and_queues_what_they_did() {
    let server = Server::start();
    put(&server, &["q", "x"]);
    let told = server.run(&["stats", "--since", "5m"]).text();
    assert!(told.contains("In the last") && told.contains("/s)"), "{told}");
    let line = told.lines().find(|line| line.starts_with("put ")).expect("a line");
    assert!(line.split_whitespace().nth(1) == Some("1"), "{told}");
    assert!(server.run(&["stats", "--since", "2h"]).code(2).contains("since"));
    let shown = server.run(&["queue", "show", "q"]).text();
    assert!(shown.contains("oldest ready") && shown.contains("Since the queue"), "{shown}");
}

#[test]
fn stats_are_told() {
    let server = Server::start();
    put(&server, &["q", "x"]);
    let told = server.run(&["stats"]).text();
    assert!(told.contains("put") && told.contains("durability"), "{told}");
}

#[test]
fn no_job_writes_to_the_terminal_of_its_reader() {
    let server = Server::start();
    let id = put(&server, &["q", "\u{1b}]0;owned\u{7}", "--key", "\u{1b}[2J", "--delay", "1h"]);
    for args in [vec!["get", &id], vec!["ls", "q"]] {
        let shown = server.run(&args).text();
        assert!(!shown.contains('\u{1b}') && shown.contains(r"\u{1b}"), "{shown:?}");
    }
}

#[test]
fn colours_are_for_terminals_or_on_demand() {
    let server = Server::start();
    put(&server, &["q", "x"]);
    assert!(!server.run(&["ls", "q"]).text().contains('\u{1b}'));
    assert!(server.run(&["ls", "q", "--color", "always"]).text().contains("\u{1b}[32m"));
    assert!(!server.run(&["ls", "q", "--color", "never"]).text().contains('\u{1b}'));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let server = Server::start();
    put(&server, &["q", "x"]);
    let mut child = server
        .command()
        .args(["ls", "q"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn many_lines_are_summed_up() {
    let server = Server::start();
    let lines = "job\n".repeat(1_200);
    let put = server.run_with(&["put", "q", "--lines", "-", "--delay", "1h"], lines.as_bytes());
    assert_eq!(put.text(), "1,200 jobs put\n");
}

#[test]
fn lines_of_json_have_their_own_fields() {
    let server = Server::start();
    let lines = br#"{"text": "a", "delay": "5m", "key": "one", "headers": {"x": "own"}}

{"payload": {"n": 1}}
{"text": "again", "key": "one", "on_conflict": "keep"}
{"text": "", "key": "two", "max_attempts": 0}
"#;
    let args = ["put", "q", "--jsonl", "-", "--delay", "1h", "--header", "x=default"];
    let put = server.run_with(&args, lines);
    assert!(put.code(1).contains("1 of 4 jobs refused"), "{put:?}");
    let told = String::from_utf8_lossy(&put.stdout).into_owned();
    assert!(told.contains("line 5: refused: ") && told.ends_with("2 jobs put, 1 kept\n"), "{told}");
    let job = server.run(&["get", "q", "one", "--json"]).json();
    assert_eq!((&job["text"], &job["headers"]["x"]), (&json!("a"), &json!("own")));
    let wrong = server.run_with(&["put", "q", "--jsonl", "-"], b"{\"text\": \"\"}\n{\"dealy\": 1}");
    let why = wrong.code(2);
    assert!(why.contains("line 2: unknown field `dealy`"), "{why}");
}

#[test]
fn only_a_queue_that_exists_is_paused() {
    let server = Server::start();
    server.run(&["put", "mail", "x"]).code(0);
    let said = server.run(&["queue", "pause", "mial"]).code(3).to_owned();
    assert!(said.contains("did you mean the queue \"mail\"?"), "{said}");
    assert!(!server.run(&["queue", "ls"]).text().contains("mial"));
    server.run(&["queue", "pause", "mail"]).code(0);
    let reserved = server.run(&["reserve", "mail"]);
    reserved.code(0);
    assert!(reserved.stderr.contains("queue \"mail\" is paused"), "{reserved:?}");
}

#[test]
fn a_test_moves_the_clock() {
    let server = Server::start_with(&["--clock", "manual"]);
    server.run(&["put", "q", "close", "--delay", "30m"]).code(0);
    assert!(server.run(&["reserve", "q", "--json"]).json()["deliveries"] == json!([]));
    let shown = server.run(&["clock", "advance", "30m 1s"]).text();
    assert!(shown.ends_with("(manual clock)\n"), "{shown}");
    assert_eq!(server.run(&["clock", "show"]).text(), shown);
    let reserved = server.run(&["reserve", "q", "--json"]).json();
    assert_eq!(reserved["deliveries"][0]["job"]["text"], "close");
}
