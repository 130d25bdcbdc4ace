//! A data directory with known contents, and a census of the jobs that a server finds in it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::http::Client;
use crate::rig::Server;

const QUEUES: [&str; 3] = ["orders", "mail", "reports"];
/// The large payloads exceed the memory of the store together, so it writes tables.
const LARGE_BYTES: usize = 600_000;
const LARGE_JOBS: usize = 40;

/// A data directory that no server uses.
#[derive(Debug)]
pub(crate) struct Prepared {
    folder: tempfile::TempDir,
    /// The ids of all jobs in the directory.
    pub(crate) ids: BTreeSet<String>,
}

impl Prepared {
    /// Fills a directory with small jobs and, for tables, with large ones. This signal ends the
    /// server.
    pub(crate) fn new(small: usize, has_tables: bool, signal: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut server = Server::start_on(&folder.path().join("data"));
        let ids = fill(&Client::new(&server), small, has_tables);
        server.signal(signal);
        server.wait();
        Self { folder, ids }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns a copy of the directory, to be damaged.
    pub(crate) fn copy(&self) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        copy(&self.data(), &folder.path().join("data"));
        Self { folder, ids: self.ids.clone() }
    }

    /// Returns the files by their paths in the directory.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect(&self.data(), Path::new(""), &mut files);
        files.sort();
        files
    }
}

fn fill(client: &Client, small: usize, has_tables: bool) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    let plan = json!({ "queue": "reports", "cron": "0 3 1 1 *", "text": "yearly" });
    client.must("PUT", "/v1/schedules/yearly", &plan);
    let small = (0..small).map(|number| {
        let queue = QUEUES[number % QUEUES.len()];
        json!({ "queue": queue, "text": format!("job {number}"), "delay": "30d", "key": number.to_string() })
    });
    // Payloads that do not compress.
    let mut seed = 1_u64;
    let mut noise = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        char::from(b'!' + (seed >> 33) as u8 % 90)
    };
    let large = (0..if has_tables { LARGE_JOBS } else { 0 }).map(|number| {
        let text: String = (0..LARGE_BYTES).map(|_| noise()).collect();
        json!({ "queue": QUEUES[number % QUEUES.len()], "text": text, "delay": "30d" })
    });
    let jobs: Vec<Value> = large.chain(small).collect();
    let mut rest = &jobs[..];
    while !rest.is_empty() {
        // A batch must fit into a request; the large jobs come first.
        let count = if rest[0]["key"].is_null() { 4 } else { 100 }.min(rest.len());
        let answer = client.must("POST", "/v1/jobs/batch", &json!({ "jobs": rest[..count] }));
        let results = answer["results"].as_array().expect("results");
        let put = results.iter().map(|it| it["ok"]["id"].as_str().expect("put").to_owned());
        ids.extend(put);
        rest = &rest[count..];
    }
    ids
}

fn collect(root: &Path, place: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(root.join(place)).expect("a folder") {
        let entry = entry.expect("a folder");
        let place = place.join(entry.file_name());
        if entry.file_type().expect("a file").is_dir() {
            collect(root, &place, files);
        } else {
            files.push(place);
        }
    }
}

/// Copies a directory. Journals are sparse files and stay sparse.
pub(crate) fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    let status = command.args(["-a", "--sparse=always"]).arg(from).arg(to).status().expect("cp");
    assert!(status.success(), "cannot copy {}", from.display());
}

/// The jobs that a server finds in its directory.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// Jobs that can be read.
    pub(crate) found: BTreeSet<String>,
    /// Jobs that the server names as damaged.
    pub(crate) named: BTreeSet<String>,
    /// The server's count of damaged jobs, after all were read.
    pub(crate) counted: u64,
    /// Schedules that can be read.
    pub(crate) schedules: usize,
    /// Requests that were not answered with 200.
    pub(crate) refused: Vec<String>,
}

impl Census {
    pub(crate) fn take(client: &Client) -> Self {
        let mut census = Self::default();
        for queue in census.list(client, "/v1/queues", "queues") {
            let name = queue["name"].as_str().unwrap_or_default().to_owned();
            let mut page = String::new();
            loop {
                let path = format!("/v1/queues/{name}/jobs?limit=200{page}");
                let answer = client.get(&path);
                if answer.status != 200 {
                    census.refused.push(format!("{path}: {}", answer.brief()));
                    break;
                }
                let answer = answer.json();
                let ids = |list: &Value| -> Vec<String> {
                    let list = list.as_array().into_iter().flatten();
                    list.filter_map(|it| it["id"].as_str().or(it.as_str()).map(str::to_owned))
                        .collect()
                };
                census.found.extend(ids(&answer["jobs"]));
                census.named.extend(ids(&answer["damaged"]));
                match answer["next"].as_str() {
                    Some(next) => page = format!("&page={next}"),
                    None => break,
                }
            }
        }
        census.schedules = census.list(client, "/v1/schedules", "schedules").len();
        census.counted = client.get("/v1/stats").json()["damaged"].as_u64().unwrap_or(0);
        census
    }

    fn list(&mut self, client: &Client, path: &str, field: &str) -> Vec<Value> {
        let answer = client.get(path);
        if answer.status != 200 {
            self.refused.push(format!("{path}: {}", answer.brief()));
        }
        answer.json()[field].as_array().cloned().unwrap_or_default()
    }

    /// Returns the jobs that were put and are neither readable nor named as damaged.
    pub(crate) fn missing(&self, ids: &BTreeSet<String>) -> usize {
        ids.iter().filter(|id| !self.found.contains(*id) && !self.named.contains(*id)).count()
    }
}
