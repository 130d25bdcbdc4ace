//! The volume of a running server disappears, and something else takes its place.
//!
//! Whatever happens to the directory, the server serves an acknowledged job or reports that it is
//! unavailable. It never answers 404 for the job, never creates a new store, and never opens
//! another store or an older copy of its own. When the volume is back, everything on it is served
//! again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::http::Client;
use crate::namespace::Volume;
use crate::prepared::copy;
use crate::report::{Report, Scale};
use crate::rig::{Server, until};

/// Enough large payloads that the store writes tables, for which it needs the directory.
const LARGE_PUTS: usize = 40;
const LARGE_BYTES: usize = 900_000;

pub(crate) fn run(_: &Scale, report: &mut Report) {
    renamed(report);
    removed(report);
    unmounted(report);
}

/// A server and the jobs that it acknowledged.
struct Victim {
    server: Server,
    client: Client,
    data: PathBuf,
    ids: Vec<String>,
}

impl Victim {
    fn start(data: &Path) -> Self {
        let server = Server::start_on(data);
        let mut victim =
            Self { client: Client::new(&server), server, data: data.to_owned(), ids: Vec::new() };
        for _ in 0..20 {
            assert!(victim.put("small"), "a put on a sound volume failed");
        }
        victim
    }

    /// Puts a job, and returns whether it was acknowledged.
    fn put(&mut self, text: &str) -> bool {
        let job = json!({ "text": text, "delay": "30d" }).to_string();
        let Ok(answer) = self.client.try_send("POST", "/v1/queues/q/jobs", &job) else {
            return false;
        };
        if answer.status == 201 {
            self.ids.push(answer.json()["id"].as_str().expect("an id").to_owned());
        }
        answer.status == 201
    }

    /// Uses the store until it has failed, or has certainly survived.
    fn work_without_a_volume(&mut self) -> usize {
        let text = "x".repeat(LARGE_BYTES);
        let mut failures = 0;
        for _ in 0..LARGE_PUTS {
            failures += usize::from(!self.put(&text));
            if failures > 2 {
                break;
            }
        }
        failures
    }

    /// Checks repeatedly, for longer than the server waits between two attempts to open the store.
    fn check_honesty(&self, report: &mut Report, what: &str) {
        for _ in 0..15 {
            let is_ready = self.client.is_ready();
            let answer = self.client.get(&format!("/v1/jobs/{}", self.ids[0]));
            let is_honest = answer.status == 200 || answer.status >= 500;
            report.check(is_honest, || {
                format!("{what}: an acknowledged job gave {}, ready: {is_ready}", answer.brief())
            });
            if !is_honest {
                break;
            }
            // A pause between two checks; the test does not depend on its length.
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// With the volume back, all jobs must be served again, by this process and the next.
    fn check_recovery(mut self, report: &mut Report, what: &str) {
        until(|| self.client.is_ready());
        until(|| self.client.get("/v1/queues").status == 200);
        self.check_all(report, &format!("{what}, and came back"));
        until(|| self.put("after"));
        self.server.signal("TERM");
        self.server.wait();
        let server = Server::start_on(&self.data);
        self.client = Client::new(&server);
        self.server = server;
        self.check_all(report, &format!("{what}, came back and was started again"));
    }

    fn check_all(&self, report: &mut Report, what: &str) {
        let lost: Vec<_> = self
            .ids
            .iter()
            .filter(|id| self.client.get(&format!("/v1/jobs/{id}")).status != 200)
            .collect();
        report.check(lost.is_empty(), || {
            format!("{what}: {} of {} jobs are lost", lost.len(), self.ids.len())
        });
    }
}

/// Checks that no store appears where the volume was.
fn check_no_store(report: &mut Report, data: &Path, what: &str) {
    report.check(!data.join("queue/store").exists(), || {
        format!("{what}: the server made a new store at {}", data.display())
    });
}

fn renamed(report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, away) = (folder.path().join("data"), folder.path().join("away"));
    let mut victim = Victim::start(&data);
    let old = folder.path().join("old");
    copy(&data, &old);
    for _ in 0..20 {
        assert!(victim.put("small"), "a put on a sound volume failed");
    }
    std::fs::rename(&data, &away).expect("it is ours");
    let failures = victim.work_without_a_volume();
    victim.check_honesty(report, "the directory was renamed");
    check_no_store(report, &data, "the directory was renamed");
    // Puts another store, and then an older copy of the right one, in its place.
    let other = folder.path().join("other");
    let mut server = Server::start_on(&other);
    Client::new(&server).must("POST", "/v1/queues/q/jobs", &json!({ "text": "other" }));
    server.signal("TERM");
    server.wait();
    for (place, what) in
        [(other, "another store took its place"), (old, "an older copy took its place")]
    {
        let _ = std::fs::remove_dir_all(&data);
        copy(&place, &data);
        victim.check_honesty(report, what);
    }
    let _ = std::fs::remove_dir_all(&data);
    std::fs::rename(&away, &data).expect("it is ours");
    victim.check_recovery(report, "the directory was renamed");
    report.fact(format!("renamed, {failures} puts failed"));
}

fn removed(report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut victim = Victim::start(&data);
    std::fs::remove_dir_all(&data).expect("it is ours");
    let failures = victim.work_without_a_volume();
    victim.check_honesty(report, "the directory was removed");
    check_no_store(report, &data, "the directory was removed");
    report.fact(format!("removed, {failures} puts failed"));
}

fn unmounted(report: &mut Report) {
    let volume = Volume::mount(512);
    let mount = tempfile::tempdir().expect("a folder");
    let bound = volume.bind(mount.path());
    let mut victim = Victim::start(&mount.path().join("data"));
    bound.unmount();
    let failures = victim.work_without_a_volume();
    victim.check_honesty(report, "the volume was unmounted");
    check_no_store(report, &mount.path().join("data"), "the volume was unmounted");
    bound.mount_again();
    victim.check_recovery(report, "the volume was unmounted");
    report.fact(format!("unmounted, {failures} puts failed"));
}
