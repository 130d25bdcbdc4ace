//! Push targets from the command line, and deliveries of a server that is killed repeatedly.

mod rig;

use std::net::TcpListener;
use std::time::Duration;

use rig::http_target::{HttpTarget, densest};
use rig::{Server, until};

const ALLOW: [&str; 2] = ["--push-allow", "127.0.0.1"];

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

/// A proxy that every variable of the environment names is not asked.
#[test]
fn proxies_of_the_environment_are_not_used() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let names =
        ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    let mut environment = names.map(|name| (name, &address[..])).to_vec();
    environment.extend([("no_proxy", ""), ("NO_PROXY", "")]);
    let server = Server::start_in(&environment, &ALLOW);
    let (target, at) = HttpTarget::start();
    let added = server.run(&["target", "add", "partner", &format!("http://{at}/")]);
    assert!(added.text().contains("16 at once"), "{added:?}");
    server.run(&["queue", "set", "orders", "--target", "partner"]).code(0);
    server.run(&["put", "orders", "x"]).code(0);
    until(|| target.came() == (1, 1));
    // A proxy would be asked for a connection to an https target.
    let secure = format!("https://{at}/");
    server.run(&["target", "add", "secure", &secure, "--timeout", "2s"]).code(0);
    let tested = server.run(&["target", "test", "secure", "--json"]);
    assert!(tested.code(1).contains("a job would be failed"), "{tested:?}");
    assert!(!tested.stdout.is_empty(), "{tested:?}");
    proxy.set_nonblocking(true).unwrap();
    let asked = proxy.accept();
    assert!(asked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
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
    // Long enough that no lease expires because this machine is busy.
    server.run(&["queue", "set", "orders", "--target", "partner", "--lease", "5s"]).code(0);
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
    // Only requests in flight and answers that were not committed at a kill are repeated.
    let again = requests - ids;
    assert!(again <= ROUNDS * 2 * JOBS / 3, "{again} requests came again");
    let most = target.most();
    assert!(most <= 1 + ROUNDS, "a job came {most} times");
}

/// The server is killed while requests are on their way to a target that gets to them late: after
/// its next start it counts all of them.
#[test]
fn a_rate_holds_at_the_target_when_the_server_is_killed() {
    const JOBS: usize = 12;
    let folder = tempfile::tempdir().unwrap();
    let (target, address) = HttpTarget::start_with_lag(Duration::from_millis(700));
    let start = || Server::try_start(folder.path(), "", &ALLOW).unwrap();
    let mut server = start();
    let url = format!("http://{address}/");
    server.run(&["target", "add", "partner", &url, "--rate", "3/1s"]).code(0);
    server.run(&["queue", "set", "orders", "--target", "partner", "--lease", "5s"]).code(0);
    let lines = "x\n".repeat(JOBS);
    server.run_with(&["put", "orders", "--lines", "-"], lines.as_bytes()).code(0);
    for _ in 0..2 {
        let before = target.came().1;
        until(|| target.came().1 > before);
        server.signal("KILL");
        server.wait();
        server = start();
    }
    until(|| target.handled().len() >= JOBS);
    let most = densest(target.handled(), Duration::from_secs(1));
    assert!(most <= 3, "{most} requests in a window");
    until(|| target.came().0 == JOBS);
}
