//! Commands for jobs: putting, listing, reserving and ending them.

use serde_json::{Value, json};

use crate::rig::Server;
use crate::{put, reserve, short, state};

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

    // The ids of one batch have a common prefix, but their short forms differ.
    server.run_with(&["put", "q", "--lines", "--delay", "1h"], b"one\ntwo\nthree").code(0);
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
    // An empty list is a success.
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
    // A late worker gets an error that its lease is over.
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
fn the_end_of_a_lease_is_told_from_when_the_answer_came() {
    let server = Server::start();
    server.run(&["queue", "set", "q", "--lease", "1m"]).code(0);
    put(&server, &["q", "x", "--delay", "2s"]);
    let told = server.run(&["reserve", "q", "--wait", "20s"]).text();
    assert!(!told.contains("in 1m 1s") && !told.contains("in 1m 2s"), "{told}");
    assert!(told.contains("in 1m") || told.contains("in 59s"), "{told}");
}

#[test]
fn many_lines_are_summed_up() {
    let server = Server::start();
    let lines = "job\n".repeat(1_200);
    let put = server.run_with(&["put", "q", "--lines", "--delay", "1h"], lines.as_bytes());
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
    let wrong = server.run_with(&["put", "q", "--jsonl"], b"{\"text\": \"\"}\n{\"dealy\": 1}");
    let why = wrong.code(2);
    assert!(why.contains("line 2: unknown field `dealy`"), "{why}");
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
