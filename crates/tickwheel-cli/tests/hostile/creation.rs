//! `kill -9` while the data directory is being created.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http::Client;
use crate::report::{Report, Scale};
use crate::rig::{Server, binary};

pub(crate) fn run(scale: &Scale, report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let span = time_to_start(&folder.path().join("first"));
    let rounds = scale.rounds(10, 500);
    let mut half_made = 0;
    for round in 0..rounds {
        let data = folder.path().join("data");
        // The kills are spread evenly over the start, and a little beyond its end.
        kill_after(&data, span.mul_f64(1.2 * round as f64 / rounds as f64));
        half_made += u64::from(data.join("queue").exists());
        match Server::try_start(&data, "", &[]) {
            Ok(server) => {
                let client = Client::new(&server);
                let put = client.post("/v1/queues/q/jobs", &json!({ "text": "x", "delay": "30d" }));
                report.check(put.status == 201, || {
                    format!("round {round}: the first put gave {}", put.brief())
                });
            }
            Err(log) => report.finding(format!("round {round}: the next start is refused:\n{log}")),
        }
        std::fs::remove_dir_all(&data).expect("it is ours");
    }
    report
        .fact(format!("killed {rounds} times within {span:?}, {half_made} times with a directory"));
}

fn spawn(data: &Path) -> Child {
    binary()
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts")
}

/// Measures how long an undisturbed start takes.
fn time_to_start(data: &Path) -> Duration {
    let start = Instant::now();
    let server = Server::try_start(data, "", &[]);
    server.unwrap_or_else(|log| panic!("the server does not start:\n{log}"));
    start.elapsed()
}

/// Starts a server and kills it after this time, which the attack varies.
fn kill_after(data: &Path, time: Duration) {
    let mut child = spawn(data);
    std::thread::sleep(time);
    let _ = child.kill();
    let _ = child.wait();
}
