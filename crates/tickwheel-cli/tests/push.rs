//! Push targets from the command line, and deliveries of a server that is killed again and again.

mod rig;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rig::{Server, until};

const ALLOW: [&str; 2] = ["--push-allow", "127.0.0.1"];

/// A target that answers 200 to everything, and how often each `webhook-id` came.
#[derive(Clone, Default)]
struct HttpTarget {
    ids: Arc<Mutex<HashMap<String, usize>>>,
}

impl HttpTarget {
    fn start() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (target, address) = (Self::default(), listener.local_addr().unwrap());
        let accepting = target.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let target = accepting.clone();
                std::thread::spawn(move || target.serve(stream));
            }
        });
        (target, address)
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut writer = stream;
        loop {
            let (mut length, mut id) = (0, None);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).ok()? == 0 {
                    return None;
                }
                if line == "\r\n" {
                    break;
                }
                let (name, value) = line.split_once(": ").unwrap_or_default();
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.trim().parse().ok()?,
                    "webhook-id" => id = Some(value.trim().to_owned()),
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            *self.ids.lock().unwrap().entry(id?).or_default() += 1;
            writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").ok()?;
        }
    }

    /// How many ids came, and how many requests.
    fn came(&self) -> (usize, usize) {
        let ids = self.ids.lock().unwrap();
        (ids.len(), ids.values().sum())
    }
}

#[test]
fn a_target_is_added_tested_and_used() {
    let server = Server::start_with(&ALLOW);
    let (target, address) = HttpTarget::start();
    let url = format!("http://{address}/hook/{{queue}}");
    let added = server.run(&[
        "target",
        "add",
        "partner",
        &url,
        "--rate",
        "100/s",
        "--concurrency",
        "8",
        "--header",
        "authorization=Bearer abc",
    ]);
    let text = added.text();
    assert!(text.contains("whsec_") && text.contains("100 in 1s, 8 at once"), "{text}");
    assert!(!text.contains("Bearer abc"), "{text}");
    assert!(server.run(&["target", "add", "partner", &url]).code(2).contains("target set"));
    assert!(!server.log().contains("whsec_"));

    let tested = server.run(&["target", "test", "partner"]).text();
    for part in
        ["POST http://", "> webhook-signature: v1,", "< 200 after", "a job would be delivered"]
    {
        assert!(tested.contains(part), "{part} is not in:\n{tested}");
    }
    assert!(server.run(&["target", "test", "partnre"]).code(3).contains("did you mean"));

    let shown = server.run(&["queue", "set", "orders", "--target", "partner"]).text();
    assert!(shown.contains("target") && shown.contains("partner"), "{shown}");
    server.run(&["put", "orders", "x"]).code(0);
    until(|| target.came().1 == 2);
    let put = server.run(&["put", "calls", "x", "--target", "partner", "--json"]).json();
    assert_eq!(put["queue"], "calls.partner");
    until(|| target.came().1 == 3);
    assert!(server.run(&["put", "calls", "x", "--target", "nobody"]).code(2).contains("nobody"));
    until(|| server.run(&["target", "ls"]).text().contains("active"));
    until(|| {
        let shown = server.run(&["target", "show", "partner"]).text();
        shown.lines().filter(|line| line.contains("delivered  ok")).count() == 2
    });

    assert!(server.run(&["target", "rm", "partner"]).code(4).contains("names target"));
    let set = server.run(&["target", "set", "partner", "--no-rate", "--timeout", "3s"]).text();
    assert!(set.contains("8 at once") && !set.contains("100 in"), "{set}");
    assert!(server.run(&["target", "set", "partner"]).code(2).contains("say what to set"));
    assert!(server.run(&["target", "rotate", "partner"]).text().starts_with("whsec_"));
    server.run(&["target", "pause", "partner"]).code(0);
    assert!(server.run(&["target", "show", "partner"]).text().contains("paused"));
    let watched = server.run(&["target", "watch", "-n", "1"]).text();
    assert!(watched.contains("paused") && watched.contains("partner"), "{watched}");
    server.run(&["target", "resume", "partner"]).code(0);
    server.run(&["target", "rm", "partner"]).code(4);
    for queue in ["orders", "calls.partner"] {
        server.run(&["queue", "set", queue, "--no-target"]).code(0);
    }
    server.run(&["target", "rm", "partner"]).code(0);
    server.run(&["target", "show", "partner"]).code(3);
}

#[cfg(unix)]
#[test]
fn signing_secrets_are_in_files_of_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    fn check(folder: &std::path::Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", entry.path().display());
            if entry.file_type().unwrap().is_dir() {
                check(&entry.path());
            }
        }
    }
    let server = Server::start();
    server.run(&["target", "add", "partner", "https://partner.example/"]).code(0);
    check(server.folder());
}

/// Rounds of kill -9 while deliveries run: every job arrives, and at most what was in flight at a
/// kill arrives once more, with the same id.
#[test]
fn no_job_is_lost_when_the_server_is_killed() {
    const ROUNDS: usize = 3;
    const JOBS: usize = 300;
    const CONCURRENCY: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let (target, address) = HttpTarget::start();
    let start = || Server::try_start(folder.path(), "", &ALLOW).unwrap();
    let mut server = start();
    let url = format!("http://{address}/");
    let concurrency = CONCURRENCY.to_string();
    let add = ["target", "add", "partner", &url, "--concurrency", &concurrency];
    server.run(&add).code(0);
    server.run(&["queue", "set", "orders", "--target", "partner", "--lease", "1s"]).code(0);
    let lines = "x\n".repeat(JOBS);
    for round in 0..ROUNDS {
        server.run_with(&["put", "orders", "--lines", "-"], lines.as_bytes()).code(0);
        until(|| target.came().0 >= round * JOBS + JOBS / 3);
        server.signal("KILL");
        server.wait();
        server = start();
    }
    until(|| target.came().0 == ROUNDS * JOBS);
    until(|| {
        let jobs = server.run(&["queue", "show", "orders", "--json"]).json()["jobs"].clone();
        jobs["scheduled"] == 0 && jobs["ready"] == 0 && jobs["leased"] == 0 && jobs["dead"] == 0
    });
    let (ids, requests) = target.came();
    assert_eq!(ids, ROUNDS * JOBS);
    // What was sent and not committed at a kill: requests in flight, and answers on their way to
    // the disk.
    let again = requests - ids;
    assert!(again <= ROUNDS * 2 * JOBS / 3, "{again} requests came again");
}
