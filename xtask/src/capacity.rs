//! `cargo xtask capacity`: what ten billion jobs need, from the measured costs.
//!
//! The costs are those of `cargo xtask bench cluster`, whose saved results this reads. The tables are
//! part of docs/CAPACITY.md, and `cargo xtask docs` checks that they are the same.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process::{Failure, root};

const RESULTS: &str = "bench/results/cluster.json";
const DOCUMENT: &str = "docs/CAPACITY.md";
/// The lines of the document between which the tables are.
const BEGIN: &str = "<!-- capacity: cargo xtask capacity --write -->";
const END: &str = "<!-- end of capacity -->";

const REPLICAS: f64 = 3.0;
/// The time between a job's put and its due time, on average.
const MEAN_DELAY_SECONDS: f64 = 86_400.0;
/// A job is put, reserved and acknowledged; with less load, each of these has an append of its own.
const CHANGES_PER_JOB: f64 = 3.0;
/// Records that a log keeps though two replicas have them (`tickwheel-cluster`, `node/worker.rs`).
const KEPT_RECORDS: f64 = 10_000.0;
/// The numbers of jobs of the first table, with the partitions of each.
const SCALES: [(f64, u32); 4] = [(1e7, 1), (1e8, 4), (1e9, 32), (1e10, 256)];
/// The partitions of the second table, and the pauses between two appends in milliseconds; 0 appends
/// as soon as the last append is answered.
const PARTITIONS: [u32; 4] = [32, 64, 128, 256];
const PAUSES_MS: [f64; 2] = [0.0, 20.0];

/// The measured costs.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// The time of an append, in seconds, and for each byte.
    append_s: f64,
    append_s_per_byte: f64,
    /// The processor time of three NATS servers, in the same units.
    append_cpu_s: f64,
    append_cpu_s_per_byte: f64,
    /// Bytes of the log for a job that is put, reserved and acknowledged.
    log_bytes: f64,
    /// Processor seconds for such a job.
    owner_cpu_s: f64,
    standby_cpu_s: f64,
    /// Bytes of a pending job on the disk of a replica.
    disk_bytes: f64,
}

/// What a cluster needs in total.
#[derive(Clone, Copy, Debug)]
struct Needs {
    jobs_per_second: f64,
    /// The time from one append of a partition to the next, in seconds.
    append_interval_s: f64,
    append_bytes: f64,
    appends_per_second: f64,
    log_bytes_per_second: f64,
    nats_cores: f64,
    node_cores: f64,
    node_disk_bytes: f64,
    nats_disk_bytes: f64,
}

impl Costs {
    fn read(results: &Value) -> Result<Self, Failure> {
        let value = |system: &str, figure: &str| {
            let series = results["series"].as_array().into_iter().flatten();
            let mut series = series.filter(|it| it["system"] == system && it["figure"] == figure);
            series.next().and_then(|it| it["value"].as_f64()).ok_or_else(|| {
                let what = format!("{RESULTS} has no {figure} of {system}");
                Failure::Missing(format!("{what}: run `cargo xtask bench cluster --save`"))
            })
        };
        Ok(Self {
            append_s: value("direct", "append-fixed")? / 1e3,
            append_s_per_byte: value("direct", "append-kb")? / 1e9,
            append_cpu_s: value("direct", "append-cpu-fixed")? / 1e3,
            append_cpu_s_per_byte: value("direct", "append-cpu-kb")? / 1e9,
            log_bytes: value("owner", "log-life")?,
            owner_cpu_s: value("owner", "owner-life")? / 1e6,
            standby_cpu_s: value("owner", "standby-life")? / 1e6,
            disk_bytes: value("owner", "disk-job")?,
        })
    }

    /// Returns what a cluster needs; `None` if its partitions cannot append so much.
    fn needs(&self, jobs: f64, partitions: u32, pause_s: f64) -> Option<Needs> {
        let partitions = f64::from(partitions);
        let jobs_per_second = jobs / MEAN_DELAY_SECONDS;
        let bytes_per_second = jobs_per_second * self.log_bytes;
        let per_partition = bytes_per_second / partitions;
        // An append carries what came since the last one: interval = fixed + bytes * interval * cost.
        let busy_share = per_partition * self.append_s_per_byte;
        if busy_share >= 1.0 {
            return None;
        }
        let change_interval_s = partitions / (jobs_per_second * CHANGES_PER_JOB);
        let append_interval_s =
            (self.append_s / (1.0 - busy_share)).max(pause_s).max(change_interval_s);
        let append_bytes = per_partition * append_interval_s;
        let appends_per_second = partitions / append_interval_s;
        let append_cpu = self.append_cpu_s + append_bytes * self.append_cpu_s_per_byte;
        let node_cpu = self.owner_cpu_s + (REPLICAS - 1.0) * self.standby_cpu_s;
        Some(Needs {
            jobs_per_second,
            append_interval_s,
            append_bytes,
            appends_per_second,
            log_bytes_per_second: bytes_per_second,
            nats_cores: appends_per_second * append_cpu,
            node_cores: jobs_per_second * node_cpu,
            node_disk_bytes: REPLICAS * jobs * self.disk_bytes,
            nats_disk_bytes: REPLICAS * partitions * KEPT_RECORDS * append_bytes,
        })
    }

    /// Returns both tables.
    fn tables(&self) -> String {
        let mut text = String::from(
            "| jobs | partitions | jobs/s | appends/s | log, MB/s | NATS, cores | nodes, cores | \
             nodes, disk | NATS, disk |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        );
        for (jobs, partitions) in SCALES {
            let first = format!("| {} | {partitions} ", count(jobs));
            let rest = self.needs(jobs, partitions, 0.0).map_or_else(
                || "| too much for so few partitions |||||||".to_owned(),
                |needs| {
                    format!(
                        "| {} | {} | {} | {} | {} | {} | {} |",
                        count(needs.jobs_per_second),
                        count(needs.appends_per_second),
                        number(needs.log_bytes_per_second / 1e6),
                        number(needs.nats_cores),
                        number(needs.node_cores),
                        bytes(needs.node_disk_bytes),
                        bytes(needs.nats_disk_bytes),
                    )
                },
            );
            let _ = writeln!(text, "{first}{rest}");
        }
        text.push_str(
            "\n| partitions | jobs each | disk of a replica | an append every | of | appends/s | \
             NATS, cores |\n|---:|---:|---:|---:|---:|---:|---:|\n",
        );
        let (jobs, _) = SCALES[SCALES.len() - 1];
        for partitions in PARTITIONS {
            for needs in PAUSES_MS.map(|pause| self.needs(jobs, partitions, pause / 1e3)) {
                let each = jobs / f64::from(partitions);
                let _ = write!(text, "| {partitions} | {} ", count(each));
                let _ = match needs {
                    None => writeln!(text, "| {} | - | - | - | - |", bytes(each * self.disk_bytes)),
                    Some(needs) => writeln!(
                        text,
                        "| {} | {} ms | {} | {} | {} |",
                        bytes(each * self.disk_bytes),
                        number(needs.append_interval_s * 1e3),
                        bytes(needs.append_bytes),
                        count(needs.appends_per_second),
                        number(needs.nats_cores),
                    ),
                };
            }
        }
        text
    }
}

/// Writes a number with two digits that mean something.
fn number(value: f64) -> String {
    match value {
        it if it < 0.095 => format!("{it:.2}"),
        it if it < 9.95 => format!("{it:.1}"),
        it => format!("{it:.0}"),
    }
}

/// Writes a number with the letter of its size.
fn with_unit(value: f64, units: [&str; 5]) -> String {
    let mut value = value;
    for (place, unit) in units.iter().enumerate() {
        if value < 999.5 || place == units.len() - 1 {
            let text = if *unit == units[0] { format!("{value:.0}") } else { number(value) };
            return format!("{text}{unit}");
        }
        value /= 1_000.0;
    }
    unreachable!("the last unit takes every value")
}

fn count(value: f64) -> String {
    with_unit(value, ["", "k", "M", "G", "T"])
}

fn bytes(value: f64) -> String {
    with_unit(value, [" B", " kB", " MB", " GB", " TB"])
}

fn document_path() -> PathBuf {
    root().join(DOCUMENT)
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::Read(path.display().to_string(), error))
}

/// Returns the tables from the saved results.
fn tables() -> Result<String, Failure> {
    let text = read(&root().join(RESULTS))?;
    let results: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::Missing(format!("{RESULTS} is not JSON: {error}")))?;
    Ok(Costs::read(&results)?.tables())
}

/// Splits a document into what is before the tables, the tables, and what is after them.
fn parts(document: &str) -> Option<(&str, &str, &str)> {
    let begin = document.find(BEGIN)? + BEGIN.len();
    let end = begin + document[begin..].find(END)?;
    Some((&document[..begin], &document[begin..end], &document[end..]))
}

/// Prints the tables, or writes them into the document.
pub(crate) fn run(write: bool) -> Result<(), Failure> {
    let tables = tables()?;
    if !write {
        print!("{tables}");
        return Ok(());
    }
    let document = read(&document_path())?;
    let missing = || Failure::Missing(format!("{DOCUMENT} has no lines `{BEGIN}` and `{END}`"));
    let (before, _, after) = parts(&document).ok_or_else(missing)?;
    let path = document_path();
    fs::write(&path, format!("{before}\n\n{tables}\n{after}"))
        .map_err(|error| Failure::Read(path.display().to_string(), error))
}

/// Returns a finding if the document has other tables.
pub(crate) fn check() -> Result<Option<String>, Failure> {
    let (tables, document) = (tables()?, read(&document_path())?);
    let is_same = parts(&document).is_some_and(|(_, found, _)| found.trim() == tables.trim());
    let finding = || {
        format!("{DOCUMENT} has other tables than {RESULTS}: run `cargo xtask capacity --write`")
    };
    Ok((!is_same).then(finding))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        append_s: 2e-3,
        append_s_per_byte: 25e-9,
        append_cpu_s: 3e-3,
        append_cpu_s_per_byte: 10e-9,
        log_bytes: 500.0,
        owner_cpu_s: 30e-6,
        standby_cpu_s: 10e-6,
        disk_bytes: 300.0,
    };

    #[test]
    fn an_append_carries_what_came_since_the_last_one() {
        let needs = COSTS.needs(86_400.0 * 40_000.0, 1, 0.0).expect("one partition is enough");
        // 20 MB/s take half of the time.
        assert!((needs.append_interval_s - 4e-3).abs() < 1e-9, "{needs:?}");
        assert!((needs.append_bytes - 80_000.0).abs() < 1e-3, "{needs:?}");
        assert!((needs.appends_per_second - 250.0).abs() < 1e-6, "{needs:?}");
        assert!((needs.nats_cores - 250.0 * 3.8e-3).abs() < 1e-9, "{needs:?}");
        assert!((needs.node_cores - 2.0).abs() < 1e-9, "{needs:?}");
        let paused = COSTS.needs(86_400.0 * 40_000.0, 1, 20e-3).expect("one is enough");
        assert!((paused.appends_per_second - 50.0).abs() < 1e-9, "{paused:?}");
        let idle = COSTS.needs(86_400.0 * 10.0, 1, 0.0).expect("one is enough");
        assert!((idle.appends_per_second - 30.0).abs() < 1e-9, "{idle:?}");
        assert!(COSTS.needs(86_400.0 * 80_000.0, 1, 0.0).is_none(), "40 MB/s are too much");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!((count(1e10), count(115_741.0)), ("10G".to_owned(), "116k".to_owned()));
        assert_eq!((count(3.4), count(1e7)), ("3".to_owned(), "10M".to_owned()));
        assert_eq!((bytes(3.3e9), bytes(999.0)), ("3.3 GB".to_owned(), "999 B".to_owned()));
    }

    #[test]
    fn tables_are_found_in_a_document() {
        let document = format!("a\n{BEGIN}\n\n| x |\n\n{END}\nb");
        let (_, found, after) = parts(&document).expect("both lines are there");
        assert_eq!((found.trim(), after), ("| x |", &format!("{END}\nb")[..]));
        assert!(parts("nothing").is_none());
    }

    #[test]
    fn a_result_without_a_figure_is_refused() {
        let error = Costs::read(&serde_json::json!({ "series": [] })).unwrap_err().to_string();
        assert!(error.contains("append-fixed") && error.contains("--save"), "{error}");
    }
}
