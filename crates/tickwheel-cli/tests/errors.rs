//! Errors of the command line: exit codes, remedies and suggestions.

mod rig;

use std::io::{Read, Write};
use std::net::TcpListener;

use rig::{Server, binary, run, tickwheel};
use serde_json::Value;

const NOBODY: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// Returns an address without a listener.
fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// Starts a foreign server that answers every request with this.
fn stranger(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn without_a_server_the_remedy_is_named() {
    let url = nowhere();
    let ran = tickwheel(&["ls", "--url", &url]);
    let said = ran.code(6);
    assert!(said.contains(&format!("no server answers at {url}")), "{said}");
    assert!(said.contains("tickwheel serve") && said.contains("TICKWHEEL_URL"), "{said}");
    assert!(ran.stdout.is_empty());

    let said: Value =
        serde_json::from_str(tickwheel(&["ls", "--json", "--url", &url]).code(6)).unwrap();
    assert_eq!((&said["code"], &said["exit_code"]), (&"unreachable".into(), &6.into()));
    assert!(
        tickwheel(&["ls", "--url", "http://no-such-host.invalid"]).code(6).contains("no-such-host")
    );
    tickwheel(&["watch", "--url", &url]).code(6);
}

#[test]
fn what_is_not_a_tickwheel_server_is_told() {
    let page = stranger("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello");
    assert!(tickwheel(&["ls", "--url", &page]).code(1).contains("cannot be read"));
    let lost = stranger("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    assert!(tickwheel(&["ls", "--url", &lost]).code(1).contains("Is it a tickwheel server?"));
    let moved = stranger(
        "HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    );
    assert!(tickwheel(&["ls", "--url", &moved]).code(1).contains("http://elsewhere/"));
    let nonsense = stranger("220 mail.example.org ESMTP\r\n");
    assert!(tickwheel(&["ls", "--url", &nonsense]).code(1).contains("HTTP"));
}

#[test]
fn a_wrong_command_line_has_its_own_code_and_a_suggestion() {
    for (args, said) in [
        (vec!["serv"], "serve"),
        (vec!["put", "q", "x", "--dely", "1s"], "--delay"),
        (vec!["put", "q", "x", "--delay", "soon"], "\"soon\" is not a duration"),
        (vec!["put", "q", "x", "--delay", "30"], "30 what? Try 30s or 30m"),
        (vec!["pause", "q"], "queue pause"),
        (vec!["put", "q", "x", "--at", "tomorrow"], "\"tomorrow\" is not a time"),
        (vec!["put", "q", "x", "--at", "1795009186"], "did you mean 1795009186000?"),
        (vec!["put", "q", "x", "--delay", "30x"], "\"30x\" is not a duration: write numbers"),
        (vec!["put", "q", "x", "--delay", "1s", "--at", "2026-01-01T00:00:00Z"], "--at"),
        (vec!["put", "q", "x", "--retry", "1h..1s"], "longer"),
        (vec!["put", "q"], "PAYLOAD"),
        (vec!["put", "q", "x", "--priority", "1000"], "1000"),
        (vec!["get", "orders"], "queue"),
        (vec!["ls", "q", "--state", "ded"], "dead"),
        (vec!["reschedule", NOBODY], "--delay"),
        (vec!["ack", NOBODY, "xyz"], "\"xyz\" is not a lease token"),
        (vec!["kick"], "--queue"),
        (vec!["queue", "sho"], "show"),
        (vec!["schedule", "add", "x", "--queue", "q", "y"], "--cron"),
        (vec!["completions", "cmd"], "bash"),
        (vec!["ls", "--url", "localhost:7300"], "http://127.0.0.1:7300"),
        (vec!["ls", "--token", "a\nb"], "TICKWHEEL_TOKEN"),
        (vec!["ls", "--ca", "/no/such.pem", "--url", "https://localhost:1"], "/no/such.pem"),
        (vec!["serve", "--url", "http://x"], "--listen"),
        (vec!["token", "new", "--name", "x", "--scope", "write"], "admin"),
    ] {
        let ran = tickwheel(&args);
        assert!(ran.code(2).contains(said), "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn what_is_not_there_is_suggested() {
    let server = Server::start();
    server.run(&["put", "orders", "x", "--key", "order-42", "--delay", "1h"]).code(0);
    let ran = server.run(&["queue", "show", "ordesr"]);
    assert!(ran.code(3).contains("did you mean the queue \"orders\"?"), "{}", ran.stderr);
    let ran = server.run(&["cancel", "orders", "order-43"]);
    assert!(ran.code(3).contains("did you mean the key \"order-42\"?"), "{}", ran.stderr);
    let ran = server.run(&["get", "order", "order-42"]);
    assert!(ran.code(3).contains("did you mean the queue \"orders\"?"), "{}", ran.stderr);
    server.run(&["get", NOBODY]).code(3);
    server.run(&["ack", NOBODY, "00000000000000ff"]).code(3);
    server.run(&["kick", NOBODY]).code(3);

    let said: Value =
        serde_json::from_str(server.run(&["get", "orders", "x", "--json"]).code(3)).unwrap();
    assert_eq!((&said["status"], &said["code"]), (&404.into(), &"not-found".into()));
    assert!(said["request_id"].is_string() && said["exit_code"] == 3, "{said}");
}

#[test]
fn what_the_server_refuses_names_the_field() {
    let server = Server::start();
    let long = "k".repeat(2000);
    let ran = server.run(&["put", "q", "x", "--key", &long]);
    assert!(ran.code(2).contains("key"), "{}", ran.stderr);
    let ran = server.run(&["put", "no/such name", "x"]);
    assert!(ran.code(2).contains("no/such name"), "{}", ran.stderr);
    let ran = server.run(&["reserve", "q", "--wait", "1h"]);
    assert!(ran.code(2).contains("wait"), "{}", ran.stderr);
}

#[test]
fn what_is_missing_or_misplaced_is_explained() {
    let said = tickwheel(&["queue", "set", "q"]);
    assert!(said.code(2).contains("say what to set"), "{}", said.stderr);
    let said = tickwheel(&["kick", "orders"]);
    assert!(said.code(2).contains("--queue orders"), "{}", said.stderr);
    let said = tickwheel(&["put", "q", "x", "--delay", "-3"]);
    assert!(said.code(2).contains("\"-3\" is not a duration"), "{}", said.stderr);

    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let made = tickwheel(&["token", "new", "--name", "t", "--scope", "admin", "--data", data]);
    // The message names the directory, so that a user notices a wrong one.
    assert!(made.code(0).contains(data), "{}", made.stderr);
    let server = Server::start_on(folder.path());
    let said = server.run(&["ls"]);
    assert!(said.code(5).contains("TICKWHEEL_TOKEN"), "{}", said.stderr);
    let said = server.run(&["ls", "--token", "twk_wrong"]);
    assert!(!said.code(5).contains("TICKWHEEL_TOKEN"), "{}", said.stderr);
}

#[test]
fn tokens_open_what_they_allow() {
    let server = Server::start();
    let data = server.folder().to_str().unwrap();
    let token = |name: &str, scope: &str, queue: &str| {
        let args =
            ["token", "new", "--name", name, "--scope", scope, "--queue", queue, "--data", data];
        tickwheel(&args).text().trim().to_owned()
    };
    let producer = token("shop", "produce,read", "orders-*");
    assert!(producer.starts_with("twk_"), "{producer}");
    // The server notices the new file without a restart.
    rig::until(|| server.run(&["ls"]).code == 5);
    assert!(server.run(&["ls"]).stderr.contains("token"));

    let with = |token: &str, args: &[&str]| {
        run(server.command().env("TICKWHEEL_TOKEN", token).args(args), b"")
    };
    with(&producer, &["put", "orders-eu", "x"]).code(0);
    with(&producer, &["put", "mail", "x"]).code(5);
    with(&producer, &["reserve", "orders-eu"]).code(5);
    with("twk_nobody_0000", &["ls"]).code(5);
    let admin = token("ops", "admin", "*");
    rig::until(|| with(&admin, &["reserve", "orders-eu"]).code == 0);

    let listed = tickwheel(&["token", "ls", "--data", data]).text();
    assert!(listed.contains("shop") && listed.contains("produce,read"), "{listed}");
    let secret = producer.rsplit('_').next().unwrap();
    let json = tickwheel(&["token", "ls", "--data", data, "--json"]).json();
    assert_eq!(json["tokens"][0]["queues"][0], "orders-*");
    assert!(!json.to_string().contains("hash") && !listed.contains(secret));
    assert_eq!(tickwheel(&["token", "rm", "shop", "--data", data]).text(), "1 token removed\n");
    rig::until(|| with(&producer, &["put", "orders-eu", "x"]).code == 5);
    assert!(tickwheel(&["token", "rm", "shop", "--data", data]).code(3).contains("\"shop\""));
    assert!(!server.log().contains(secret), "a secret is in the log");
}

#[test]
fn help_is_everywhere() {
    let overview = tickwheel(&["--help"]).text();
    for part in ["Exit codes:", "TICKWHEEL_URL", "--json", "Examples:", "NO_COLOR"] {
        assert!(overview.contains(part), "{part} is not in the help");
    }
    let serve = tickwheel(&["serve", "--help"]).text();
    for part in
        ["--listen", "--tls-cert", "--limits-body", "8MiB", "--log", "TICKWHEEL_LIMITS_BODY"]
    {
        assert!(serve.contains(part), "{part} is not in the help of serve");
    }
    assert!(!serve.contains("--url"), "serve has no --url");
    assert!(tickwheel(&["put", "-h"]).text().contains("--delay"));
    assert!(tickwheel(&["--version"]).text().starts_with("tickwheel 0."));
    // A call without arguments shows the help and fails.
    assert!(tickwheel(&[]).code(2).contains("Usage:"));
}

#[test]
fn the_exit_codes_are_those_of_the_documents() {
    let help = tickwheel(&["-h"]).text();
    let (_, codes) = help.split_once("Exit codes:\n").expect("a list of exit codes");
    let documents = include_str!("../../../docs/CLI.md");
    let lines: Vec<_> = codes.lines().take_while(|line| line.starts_with("  ")).collect();
    assert!(lines.len() > 5, "{codes}");
    for line in lines {
        let (code, meaning) = line.trim().split_once("  ").expect("a code and its meaning");
        assert!(documents.contains(&format!("| {code} | {meaning} |")), "{line}");
    }
}

#[test]
fn shells_and_man_are_served() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(tickwheel(&["completions", shell]).text().contains("reschedule"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("man1");
    tickwheel(&["man", place.to_str().unwrap()]).code(0);
    for page in ["tickwheel.1", "tickwheel-put.1", "tickwheel-queue-set.1"] {
        let text = std::fs::read_to_string(place.join(page)).unwrap();
        assert!(text.contains(".SH"), "{page}");
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(tickwheel(&["man", file.to_str().unwrap()]).code(1).contains("file"));
}

#[test]
fn the_configuration_is_told_with_its_sources() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tickwheel.toml");
    std::fs::write(&file, "horizon = \"1m\"\n[limits]\nbody = \"1MiB\"\n").unwrap();
    let file = file.to_str().unwrap();
    let mut command = binary();
    command.env("TICKWHEEL_LISTEN", "127.0.0.1:7777").env("TICKWHEEL_LISTN", "x");
    command.args(["config", "--config", file, "--horizon", "2m", "--insecure"]);
    let ran = run(&mut command, b"");
    let text = ran.text();
    let line = |name: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("{name} is not in:\n{text}")).to_owned()
    };
    assert!(
        line("listen").contains("127.0.0.1:7777") && line("listen").contains("TICKWHEEL_LISTEN")
    );
    assert!(line("horizon").contains("2m") && line("horizon").contains("--horizon"));
    assert!(
        line("limits.body").contains("1MiB") && line("limits.body").contains("tickwheel.toml:3")
    );
    assert!(line("insecure").contains("true"));
    assert!(line("data").contains("default"));
    assert!(ran.stderr.contains("TICKWHEEL_LISTN"), "{}", ran.stderr);
    let json = run(command.arg("--json"), b"").json();
    assert_eq!(json["options"][0]["origin"], "environment");
    assert_eq!(json["options"][0]["place"], "TICKWHEEL_LISTEN");
}

#[test]
fn a_wrong_configuration_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tickwheel.toml");
    let path = file.to_str().unwrap();
    for (text, said) in [
        ("[limits]\nbody = \"much\"\n", "tickwheel.toml:2: limits.body: \"much\" is not a size"),
        ("listn = \"x\"\n", "tickwheel.toml:1"),
        ("log = \"loud\"\n", "tickwheel.toml:1: log: \"loud\" is not a log format"),
        ("\nlog_level = \"loud\"\n", "tickwheel.toml:2: log_level: \"loud\" is not a level"),
    ] {
        std::fs::write(&file, text).unwrap();
        for command in ["serve", "config"] {
            let ran = tickwheel(&[command, "--config", path]);
            assert!(ran.code(2).contains(said), "{command} with {text:?}: {}", ran.stderr);
        }
    }
    let ran = tickwheel(&["serve", "--listen", "here"]);
    assert!(ran.code(2).contains("flag --listen: \"here\" is not an address"), "{}", ran.stderr);
    let ran = run(binary().env("TICKWHEEL_NEAR", "many").arg("config"), b"");
    assert!(ran.code(2).contains("environment TICKWHEEL_NEAR"), "{}", ran.stderr);
    assert!(tickwheel(&["serve", "--config", "/no/such.toml"]).code(2).contains("/no/such.toml"));
}
