//! A disk that is really full: a small file system in memory.
//!
//! Reads always work, removals of jobs work while the server's reserve lasts, puts are refused with
//! 503 `full`, and once there is room again everything works as before.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::http::Client;
use crate::namespace::Volume;
use crate::report::{Report, Scale};
use crate::rig::{Server, until};

const MIB: u64 = 1 << 20;
const VOLUME_MIB: u64 = 192;
const PAYLOAD: usize = 500_000;
/// The bytes by which the directory may exceed `limits.disk`.
const TOLERANCE_MIB: u64 = 8;

pub(crate) fn run(_: &Scale, report: &mut Report) {
    full_volume(report);
    disk_limit(report);
}

/// Puts jobs until one is refused; returns the ids of the others, and the refusal.
fn fill(client: &Client) -> (Vec<String>, crate::http::Answer) {
    let text = "x".repeat(PAYLOAD);
    let mut ids = Vec::new();
    for number in 0_u64.. {
        // Payloads differ, so that compression cannot remove them entirely.
        let job = json!({ "text": noise(number, &text), "delay": "30d" });
        let answer = client.post("/v1/queues/q/jobs", &job);
        if answer.status != 201 {
            return (ids, answer);
        }
        ids.push(answer.json()["id"].as_str().expect("an id").to_owned());
        assert!(ids.len() < 4_000, "the disk never fills");
    }
    unreachable!("the loop returns")
}

/// Returns a text of the same length that does not compress.
fn noise(number: u64, text: &str) -> String {
    let mut seed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    text.chars()
        .map(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            char::from(b'#' + (seed >> 33) as u8 % 57)
        })
        .collect()
}

fn full_volume(report: &mut Report) {
    let volume = Volume::mount(VOLUME_MIB);
    let mut server = Server::start_on(&volume.data());
    let client = Client::new(&server);
    let ready: Vec<Value> = (0..20).map(|_| json!({ "queue": "work", "text": "x" })).collect();
    client.must("POST", "/v1/jobs/batch", &json!({ "jobs": ready }));
    let (mut ids, refusal) = fill(&client);
    report.check(refusal.status == 503 && refusal.code() == "full", || {
        format!("the first put on a full disk gave {}", refusal.brief())
    });
    report.fact(format!("{} MiB took {} MiB of payloads", VOLUME_MIB, (ids.len() * PAYLOAD) >> 20));
    check_full(report, &client, &mut ids, "filled by jobs");
    // Another program takes the last byte.
    let filler = volume.path().join("filler");
    occupy(&filler);
    check_full(report, &client, &mut ids, "filled by another program");
    end(&mut server, "TERM");
    for signal in ["TERM", "KILL"] {
        restart_on_a_full_disk(report, &volume, &mut ids, signal);
    }
    std::fs::remove_file(&filler).expect("it is ours");
    let server = Server::start_on(&volume.data());
    let client = Client::new(&server);
    // Removes enough for the server to allocate its reserve again.
    for id in ids.drain(..ids.len() / 2) {
        let cancelled = client.send("DELETE", &format!("/v1/jobs/{id}"), "");
        report.check(cancelled.status == 200, || {
            format!("with room again a cancel gave {}", cancelled.brief())
        });
    }
    let small = json!({ "text": "x", "delay": "30d" });
    until(|| client.post("/v1/queues/q/jobs", &small).status == 201);
    check_reads(report, &client, &ids, "room again");
}

fn end(server: &mut Server, signal: &str) {
    server.signal(signal);
    server.wait();
}

/// Starts a server on the full disk and ends it with this signal.
fn restart_on_a_full_disk(
    report: &mut Report,
    volume: &Volume,
    ids: &mut Vec<String>,
    signal: &str,
) {
    match Server::try_start(&volume.data(), "", &[]) {
        Ok(mut server) => {
            let client = Client::new(&server);
            check_reads(report, &client, ids, "started on a full disk");
            let put = client.post("/v1/queues/q/jobs", &json!({ "text": "x", "delay": "30d" }));
            report.check(put.status == 201 || put.code() == "full", || {
                format!("started on a full disk, a put gave {}", put.brief())
            });
            if put.status == 201 {
                ids.push(put.json()["id"].as_str().expect("an id").to_owned());
            }
            end(&mut server, signal);
        }
        Err(log) => report.finding(format!("a start on a full disk is refused:\n{log}")),
    }
}

fn check_reads(report: &mut Report, client: &Client, ids: &[String], when: &str) {
    let lost: Vec<String> = ids
        .iter()
        .map(|id| client.get(&format!("/v1/jobs/{id}")))
        .filter(|answer| answer.status != 200)
        .map(|answer| answer.brief())
        .collect();
    report.check(lost.is_empty(), || {
        format!("{when}: {} of {} jobs cannot be read: {}", lost.len(), ids.len(), lost[0])
    });
    for path in ["/v1/queues", "/v1/queues/q/jobs?limit=5", "/v1/stats", "/metrics", "/healthz"] {
        let answer = client.get(path);
        report
            .check(answer.status == 200, || format!("{when}: GET {path} gave {}", answer.brief()));
    }
}

/// Reads, cancels, acks and purges on a full disk; puts are refused as documented.
fn check_full(report: &mut Report, client: &Client, ids: &mut Vec<String>, when: &str) {
    check_reads(report, client, ids, when);
    let large = json!({ "text": noise(7, &"x".repeat(PAYLOAD)), "delay": "30d" });
    let put = client.post("/v1/queues/q/jobs", &large);
    let is_told = put.status == 503 && put.code() == "full" && put.has_header("retry-after");
    report.check(is_told, || format!("{when}: a put gave {}", put.brief()));
    for id in ids.drain(..2) {
        let answer = client.send("DELETE", &format!("/v1/jobs/{id}"), "");
        report.check(answer.status == 200, || format!("{when}: a cancel gave {}", answer.brief()));
    }
    let reserve = json!({ "limit": 2, "lease": "1h" });
    let given = client.post("/v1/queues/work/reserve", &reserve);
    let deliveries = given.json()["deliveries"].as_array().cloned().unwrap_or_default();
    report.check(deliveries.len() == 2, || format!("{when}: a reserve gave {}", given.brief()));
    for (delivery, verb) in deliveries.iter().zip(["ack", "fail"]) {
        let id = delivery["job"]["id"].as_str().unwrap_or_default();
        let mut body = json!({ "token": delivery["token"] });
        if verb == "fail" {
            body["dead"] = true.into();
        }
        let answer = client.post(&format!("/v1/jobs/{id}/{verb}"), &body);
        report.check(answer.status == 200, || format!("{when}: {verb} gave {}", answer.brief()));
    }
    let purge = client.post("/v1/queues/work/purge", &json!({ "state": "dead" }));
    report.check(purge.status == 200, || format!("{when}: a purge gave {}", purge.brief()));
}

/// Writes until the file system has no byte left.
fn occupy(path: &Path) {
    let mut file = File::create(path).expect("an inode is left");
    let block = vec![b'x'; 4_096];
    while file.write_all(&block).is_ok() {}
}

/// Checks that the directory stays within `limits.disk`, as the file system counts it.
fn disk_limit(report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let limit = 160;
    let args = ["--limits-disk", &format!("{limit}MiB")];
    let server = Server::try_start(folder.path(), "", &args);
    let server = server.unwrap_or_else(|log| panic!("the server does not start:\n{log}"));
    let client = Client::new(&server);
    let (ids, refusal) = fill(&client);
    report.check(refusal.code() == "full", || {
        format!("a put over limits.disk gave {}", refusal.brief())
    });
    let taken = disk_use(folder.path()) / MIB;
    report.check(taken <= limit + TOLERANCE_MIB, || {
        format!("with limits.disk of {limit} MiB the directory takes {taken} MiB")
    });
    check_reads(report, &client, &ids, "over limits.disk");
    report.fact(format!("limits.disk of {limit} MiB: {taken} MiB taken"));
}

/// Returns the bytes that the files in a directory occupy.
fn disk_use(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, meta)| if meta.is_dir() { disk_use(&path) } else { meta.blocks() * 512 })
        .sum()
}
