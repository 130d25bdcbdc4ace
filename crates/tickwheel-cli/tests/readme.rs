//! Runs the session of the README as it is written.

mod rig;

use rig::{Server, run, until};

/// Returns the commands of the README's session, without their comments.
fn session() -> Vec<String> {
    let readme = include_str!("../../../README.md");
    let block = readme
        .split("```")
        .find(|block| block.contains("alias tickwheel="))
        .expect("the README has a session");
    block
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with('#') && !line.starts_with("alias"))
        .map(|line| line.split_once(" # ").map_or(line, |(command, _)| command).trim().to_owned())
        .collect()
}

/// Returns the README's worker.
fn worker() -> &'static str {
    let readme = include_str!("../../../README.md");
    let block = readme.split("```sh\n").find(|block| block.starts_with("tickwheel work"));
    block.and_then(|block| block.split("```").next()).expect("the README has a worker")
}

#[test]
fn the_worker_of_the_readme_does_the_jobs() {
    let server = Server::start();
    server.run_with(&["put", "mail", "--lines", "-"], b"one\ntwo\nthree").code(0);
    let script =
        format!("tickwheel() {{ exec {} \"$@\"; }}\n{}", env!("CARGO_BIN_EXE_tickwheel"), worker());
    let mut worker = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("TICKWHEEL_URL", &server.url)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("a shell");
    until(|| server.metric("tickwheel_jobs_acked_total") == 3);
    worker.kill().expect("it runs");
    worker.wait().expect("it ends");
}

/// Splits a line into words as a shell does; of its syntax the README uses only quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (place, part) in line.split('\'').enumerate() {
        if place % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[test]
fn the_session_of_the_readme_works() {
    let server = Server::start();
    let mut answers = Vec::new();
    for line in session() {
        let mut words = words(&line);
        if words.iter().any(|word| word == "TOKEN") {
            // The second line of the previous output contains the id and the token.
            let (_, reserved): &(String, String) = answers.last().expect("a reserve");
            let mut printed = reserved.lines().nth(1).expect("a job").split_whitespace();
            words.truncate(2);
            words.extend(printed.by_ref().take(2).map(str::to_owned));
        }
        let answer = match words[0].as_str() {
            "tickwheel" => run(server.command().args(&words[1..]), b"").text(),
            // Not every machine has curl, so the test sends the same request itself.
            "curl" => {
                let [_, url, _, header, _, body] = &words[..] else { panic!("{line}") };
                let url = url.replace("http://127.0.0.1:7300", &server.url);
                let (name, value) = header.split_once(": ").expect("a header");
                let mut answer =
                    ureq::post(url).header(name, value).send(body).expect("the server answers");
                answer.body_mut().read_to_string().expect("an answer")
            }
            other => panic!("the README uses {other}"),
        };
        answers.push((line, answer));
    }
    let told = |part: &str| &answers.iter().find(|(line, _)| line.contains(part)).expect(part).1;
    assert!(told("put orders").contains("due in 30m"));
    assert!(told("ls orders").contains("order-42"));
    assert!(told("cancel").contains("cancelled"));
    assert!(told("curl").contains("\"outcome\":\"created\""));
    assert!(told("reserve").contains("hello"));
    assert_eq!(told("ack"), "done\n");
    assert_eq!(told("schedule next").lines().count(), 5);
    assert!(told("queue ls").contains("orders") && told("queue ls").contains("mail"));
}
