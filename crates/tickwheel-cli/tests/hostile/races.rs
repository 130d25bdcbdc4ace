//! Races on ids: an attacker uses an id before it exists.
//!
//! An attacker who can predict an id names it in requests that reach the server at the same moment
//! as the job. A check that runs before the command sees no job and lets it pass.

use std::collections::HashMap;
use std::sync::Barrier;

use serde_json::{Value, json};

use crate::http::Client;
use crate::report::{Report, Scale};
use crate::rig::{Server, until};
use crate::tokens::Token;

/// The number of jobs of a round; the attacker's batch names each of them many times.
const JOBS: usize = 100;
const BATCH: usize = 10_000;

pub(crate) fn run(scale: &Scale, report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Token::new(folder.path(), &["admin"], "*");
    let attacker = Token::new(folder.path(), &["produce", "consume"], "a-*");
    let server = Server::start_on(folder.path());
    let root = Client::new(&server).with_token(&root.secret);
    let attacker = Client::new(&server).with_token(&attacker.secret);
    let rounds = scale.rounds(6, 100);
    for round in 0..rounds {
        cancel_before_it_exists(report, &root, &attacker, round);
    }
    report.fact(format!("{rounds} batches of predicted ids"));
    silence_a_schedule(report, &root, &attacker);
    ids_differ_between_stores(report, &root);
}

/// Sends the attacker's batch and the victim's puts at the same time.
fn cancel_before_it_exists(report: &mut Report, root: &Client, attacker: &Client, round: u64) {
    let ids: Vec<String> = (0..JOBS)
        .map(|job| format!("0190163d-8694-7{:03x}-8000-{job:012x}", round & 0xfff))
        .collect();
    let items = |item: fn(&str) -> Value| {
        let items: Vec<Value> = (0..BATCH).map(|place| item(&ids[place % JOBS])).collect();
        json!({ "items": items }).to_string()
    };
    let (path, body) = match round % 2 {
        0 => ("/v1/jobs/batch/cancel", items(|id| json!({ "id": id }))),
        _ => ("/v1/jobs/batch/reschedule", items(|id| json!({ "id": id, "delay": "7d" }))),
    };
    let start = Barrier::new(2);
    let answer = std::thread::scope(|scope| {
        let attack = scope.spawn(|| {
            start.wait();
            attacker.send("POST", path, &body)
        });
        start.wait();
        for id in &ids {
            let job = json!({ "id": id, "text": "x", "delay": "30d" });
            root.must("POST", "/v1/queues/b-race/jobs", &job);
        }
        attack.join().expect("an answer")
    });
    let results = answer.json()["results"].as_array().cloned().unwrap_or_default();
    report.check(results.len() == BATCH, || format!("{path} gave {}", answer.brief()));
    let odd = results.iter().find(|result| result["error"]["code"] != "not-found");
    report.check(odd.is_none(), || {
        format!("{path} tells a foreign job from an unknown one: {}", odd.unwrap_or(&Value::Null))
    });
    let reached = ids.iter().filter(|id| {
        let job = root.get(&format!("/v1/jobs/{id}"));
        job.status != 200 || due_in_days(&job.json()) < 29
    });
    let reached = reached.count();
    report.check(reached == 0, || {
        format!("{path} reached {reached} of {JOBS} foreign jobs that were put meanwhile")
    });
}

/// Returns the delay with which the job was put.
fn due_in_days(job: &Value) -> u64 {
    let ms = |name: &str| job[name].as_u64().unwrap_or(0);
    ms("due_ms").saturating_sub(ms("created_ms")) / 86_400_000
}

/// Jobs with the ids of future occurrences must not replace them.
fn silence_a_schedule(report: &mut Report, root: &Client, attacker: &Client) {
    let plan = json!({ "queue": "b-ticks", "every": "1s", "text": "tick", "misfire": "all" });
    root.must("PUT", "/v1/schedules/b-ticks", &plan);
    let occurrences = occurrences(root, "b-ticks", 1);
    let (time, id) = occurrences.iter().next().expect("one");
    // An id of that form with the time of a later occurrence, as a hash without a key would produce
    // it.
    for ahead in 1..=10 {
        let guess = format!("{:012x}", time + ahead * 1_000);
        let guess = format!("{}-{}-{}", &guess[..8], &guess[8..], &id[14..]);
        let job = json!({ "id": guess, "text": "x", "delay": "30d" });
        let answer = attacker.post("/v1/queues/a-guess/jobs", &job);
        report.check(matches!(answer.status, 400 | 409 | 422), || {
            format!(
                "a job was put under an id like that of an occurrence, {id}: {}",
                answer.brief()
            )
        });
    }
    let later = occurrences_after(root, "b-ticks", *time, 3);
    let is_whole = (1..=3).all(|tick| later.contains_key(&(time + tick * 1_000)));
    report.check(is_whole, || format!("occurrences after {time} are missing: {later:?}"));
    root.must("DELETE", "/v1/schedules/b-ticks", &Value::Null);
}

/// Two stores give different ids to the same occurrence, so ids cannot be computed without the
/// store's key.
fn ids_differ_between_stores(report: &mut Report, root: &Client) {
    let other = Server::start();
    let other = Client::new(&other);
    let plan =
        json!({ "queue": "b-same", "cron": "* * * * * *", "text": "tick", "misfire": "all" });
    for client in [root, &other] {
        client.must("PUT", "/v1/schedules/b-same", &plan);
    }
    let mut compared = 0;
    until(|| {
        let (ours, theirs) = (occurrences(root, "b-same", 1), occurrences(&other, "b-same", 1));
        for (time, id) in &ours {
            if let Some(twin) = theirs.get(time) {
                compared += 1;
                report
                    .check(id != twin, || format!("two stores call the occurrence at {time} {id}"));
            }
        }
        compared > 0
    });
    report.fact(format!("{compared} occurrences compared between two stores"));
}

/// Waits until a schedule has put `at_least` jobs, and returns their times and ids.
fn occurrences(client: &Client, queue: &str, at_least: usize) -> HashMap<u64, String> {
    occurrences_after(client, queue, 0, at_least)
}

fn occurrences_after(
    client: &Client,
    queue: &str,
    after: u64,
    at_least: usize,
) -> HashMap<u64, String> {
    let mut found = HashMap::new();
    until(|| {
        let page = client.get(&format!("/v1/queues/{queue}/jobs?limit=1000")).json();
        for job in page["jobs"].as_array().into_iter().flatten() {
            let (due, id) = (job["due_ms"].as_u64(), job["id"].as_str());
            if let (Some(due), Some(id)) = (due, id)
                && due > after
            {
                found.insert(due, id.to_owned());
            }
        }
        found.len() >= at_least
    });
    found
}
