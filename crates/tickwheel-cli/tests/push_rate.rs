//! The rate of a push target, measured at the target, while the server is killed and the rate
//! changes.
#![cfg(unix)]

mod rig;

use std::time::{Duration, Instant};

use rig::http_target::{self, HttpTarget};
use rig::{Server, until};

const ALLOW: [&str; 2] = ["--push-allow", "127.0.0.1"];
const WINDOW: Duration = Duration::from_secs(2);
/// How much later than it was written a request may be seen: this machine may be busy.
const SEEN_LATE: Duration = Duration::from_millis(700);
/// The window at the target, which is shorter by that.
const WINDOW_SEEN: Duration = Duration::from_millis(1_300);
const QUEUES: [&str; 2] = ["one", "two"];

/// The largest number of requests in any window that begins and ends between two times.
fn densest(target: &HttpTarget, from: Instant, to: Instant) -> usize {
    let mut times = target.times();
    times.retain(|at| (from..=to).contains(at));
    http_target::densest(times, WINDOW_SEEN)
}

/// Puts jobs in bursts of random sizes into random queues.
fn put_bursts(server: &Server, random: &mut fastrand::Rng, jobs: usize) {
    let mut left = jobs;
    while left > 0 {
        let burst = random.usize(1..=left);
        let queue = QUEUES[random.usize(0..QUEUES.len())];
        let lines = "x\n".repeat(burst);
        server.run_with(&["put", queue, "--lines", "-"], lines.as_bytes()).code(0);
        left -= burst;
    }
}

/// Each step of the test sets another rate, puts random bursts, and kills the server in the middle.
/// No window has more requests than the rate of its step; one that begins before the rate changed
/// has at most the higher of both.
#[test]
fn no_window_has_more_requests_than_allowed_under_bursts_kills_and_changes_of_the_rate() {
    let seed = 15;
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let (target, address) = HttpTarget::start();
    let start = || Server::try_start(folder.path(), "", &ALLOW).unwrap();
    let mut server = start();
    server.run(&["target", "add", "partner", &format!("http://{address}/")]).code(0);
    for queue in QUEUES {
        server.run(&["queue", "set", queue, "--target", "partner", "--lease", "3s"]).code(0);
    }
    let (mut put, mut before) = (0, 0);
    for (step, allowed) in [8, 3, 12, 5].into_iter().enumerate() {
        let changing = Instant::now();
        let rate = format!("{allowed}/2s");
        server.run(&["target", "set", "partner", "--rate", &rate]).code(0);
        let changed = Instant::now();
        let jobs = random.usize(2 * allowed..=3 * allowed);
        put_bursts(&server, &mut random, jobs);
        let sent = put + random.usize(1..jobs);
        put += jobs;
        until(|| target.came().0 >= sent);
        server.signal("KILL");
        server.wait();
        server = start();
        until(|| target.came().0 == put);
        let told = format!("seed {seed}, step {step}");
        let now = Instant::now();
        // What was written under the old rate may be seen a little later.
        let most = densest(&target, changed + SEEN_LATE, now);
        assert!(most <= allowed, "{told}: {most} requests in a window of {rate}");
        let most = densest(&target, changing.checked_sub(WINDOW).unwrap_or(changing), now);
        let highest = allowed.max(before);
        assert!(most <= highest, "{told}: {most} requests in a window, at most {highest} allowed");
        before = allowed;
    }
}
