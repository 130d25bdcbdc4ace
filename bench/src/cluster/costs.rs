//! What capacity is planned with: the cost of an append, and of a job in the log, in processors and
//! on disks. `cargo xtask capacity` reads these figures from `bench/results/cluster.json`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_nats::HeaderMap;
use bytes::Bytes;
use tickwheel_test_servers::nats::NatsCluster;

use super::direct::{self, Direct, LOG_BYTES_PER_PUT, Mode};
use super::jetstream::{JetStream, Message};
use super::nodes::{Cluster, nats_processor_time};
use crate::queue::contender::{Caller, Contender};
use crate::queue::job::{Job, now_micros};
use crate::queue::measure::put::BATCH;
use crate::suite::Figures;

/// The sizes of appends whose cost is measured.
const SIZES: [usize; 4] = [1_000, 20_000, 100_000, 500_000];
const CALLERS: u64 = 8;
/// How long replicas may take to apply what was acknowledged.
const PATIENCE: Duration = Duration::from_mins(1);

/// Measures appends of several sizes, one at a time.
pub(super) fn appends(folder: &Path, time: Duration) -> Result<Figures> {
    let nats = NatsCluster::start(folder, 3)?;
    let stream = Direct::create(&nats, Mode::Each)?;
    let mut sender = stream.sender()?;
    let (mut took, mut used) = (Vec::new(), Vec::new());
    for size in SIZES {
        let payload = Bytes::from(vec![b'.'; size]);
        let (before, began, mut count) = (nats_processor_time(&nats)?, Instant::now(), 0);
        while began.elapsed() < time {
            let (subject, payload) = (direct::STREAM.to_owned(), payload.clone());
            sender.send(vec![Message { subject, headers: HeaderMap::new(), payload }])?;
            count += 1;
        }
        let each = |all: Duration| all.as_secs_f64() / f64::from(count);
        let kilobytes = size as f64 / 1_000.0;
        took.push((kilobytes, each(began.elapsed())));
        used.push((kilobytes, each(nats_processor_time(&nats)?.saturating_sub(before))));
    }
    let ((fixed, per_kb), (cpu_fixed, cpu_per_kb)) = (line(&took), line(&used));
    Ok(vec![
        ("append-fixed", fixed * 1e3),
        ("append-kb", per_kb * 1e6),
        ("append-cpu-fixed", cpu_fixed * 1e3),
        ("append-cpu-kb", cpu_per_kb * 1e6),
    ])
}

/// Returns the value at 0 and the slope of the line that fits points best. Neither is negative: a
/// slope that noise has made so is 0, and so is a value at 0.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|it| it.0), mean(|it| it.1));
    let covariance: f64 = points.iter().map(|it| (it.0 - x) * (it.1 - y)).sum();
    let variance: f64 = points.iter().map(|it| (it.0 - x).powi(2)).sum();
    let slope = (covariance / variance).max(0.0);
    ((y - slope * x).max(0.0), slope)
}

/// The counters whose differences are costs.
struct Counters {
    log_bytes: u64,
    owner: Duration,
    standbys: Duration,
}

impl Counters {
    fn read(cluster: &Cluster, streams: &JetStream, owner: usize) -> Result<Self> {
        let (_, nodes) = cluster.processor_times()?;
        let all: Duration = nodes.iter().sum();
        let log_bytes = log_bytes(streams)?;
        Ok(Self { log_bytes, owner: nodes[owner], standbys: all - nodes[owner] })
    }

    /// Returns the bytes of the log, and the microseconds of the owner and of a standby, per job.
    fn since(&self, before: &Self, jobs: u64) -> [f64; 3] {
        let micros = |now: Duration, then: Duration| {
            now.saturating_sub(then).as_secs_f64() * 1e6 / jobs as f64
        };
        [
            (self.log_bytes - before.log_bytes) as f64 / jobs as f64,
            micros(self.owner, before.owner),
            micros(self.standbys, before.standbys) / 2.0,
        ]
    }
}

fn log_bytes(streams: &JetStream) -> Result<u64> {
    streams.names()?.iter().map(|name| streams.state(name).map(|state| state.bytes)).sum()
}

/// Measures jobs that are put in batches, then reserved and acknowledged in batches.
pub(super) fn jobs(
    binary: &Path,
    folder: &Path,
    partitions: Option<u64>,
    jobs: u64,
) -> Result<Figures> {
    let cluster = Cluster::start(binary, folder, partitions)?;
    let owner = cluster.await_rest()?;
    let (service, streams) = (cluster.at_owner()?, JetStream::connect(&cluster.nats)?);
    let read = || {
        cluster.await_rest()?;
        Counters::read(&cluster, &streams, owner)
    };
    let start = read()?;
    in_batches(&service, |caller, number| {
        let numbers = (number..jobs).step_by(CALLERS as usize).collect::<Vec<_>>();
        numbers.chunks(BATCH as usize).try_for_each(|batch| {
            let due_now = |&number: &u64| Job::new(number, now_micros() / 1_000, Duration::ZERO);
            caller.put(batch.iter().map(due_now).collect())
        })
    })?;
    let put = read()?;
    let done = AtomicU64::new(0);
    in_batches(&service, |caller, _| {
        while done.load(Ordering::SeqCst) < jobs {
            let found = caller.reserve(BATCH as usize)?;
            let count = found.len() as u64;
            if count > 0 {
                caller.ack(found.into_iter().map(|(ticket, _)| ticket).collect())?;
                done.fetch_add(count, Ordering::SeqCst);
            }
        }
        Ok(())
    })?;
    let end = read()?;
    let [put_bytes, put_owner, put_standby] = put.since(&start, jobs);
    let [life_bytes, life_owner, life_standby] = end.since(&start, jobs);
    let difference = (put_bytes / LOG_BYTES_PER_PUT as f64 - 1.0).abs();
    ensure!(
        difference < 0.1,
        "a put takes {put_bytes:.0} bytes of the log: change LOG_BYTES_PER_PUT, which is \
         {LOG_BYTES_PER_PUT}"
    );
    Ok(vec![
        ("log-put", put_bytes),
        ("log-life", life_bytes),
        ("owner-put", put_owner),
        ("standby-put", put_standby),
        ("owner-life", life_owner),
        ("standby-life", life_standby),
    ])
}

/// Lets callers work at the same time.
fn in_batches<C: Contender>(
    contender: &C,
    part: impl Fn(&mut C::Caller, u64) -> Result<()> + Sync,
) -> Result<()> {
    thread::scope(|scope| {
        let work = |number| {
            let part = &part;
            scope.spawn(move || part(&mut contender.caller()?, number))
        };
        let threads: Vec<_> = (0..CALLERS).map(work).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a caller panicked"))
    })
}

/// Measures the space of jobs that are due in a week, and how soon a node that lost its memory, but
/// not its disk, follows again.
pub(super) fn pending(
    binary: &Path,
    folder: &Path,
    partitions: Option<u64>,
    jobs: u64,
) -> Result<Figures> {
    let mut cluster = Cluster::start(binary, folder, partitions)?;
    let owner = cluster.await_rest()?;
    let standby = (owner + 1) % cluster.nodes.len();
    let data = folder.join(format!("node-{}", cluster.nodes[standby].name));
    let service = cluster.at_owner()?;
    let empty = settled_bytes(&data)?;
    in_batches(&service, |caller, number| {
        let numbers = (number..jobs).step_by(CALLERS as usize).collect::<Vec<_>>();
        let mut batches = numbers.chunks(10 * BATCH as usize);
        batches.try_for_each(|batch| caller.put(batch.iter().copied().map(Job::far).collect()))
    })?;
    cluster.await_rest()?;
    cluster.nodes[standby].kill()?;
    let began = Instant::now();
    cluster.nodes[standby].restart()?;
    cluster.await_rest()?;
    let restart = began.elapsed();
    let bytes = settled_bytes(&data)?.saturating_sub(empty);
    Ok(vec![("disk-job", bytes as f64 / jobs as f64), ("rejoin", restart.as_secs_f64())])
}

/// Returns the bytes that a folder's files take on disk, once they stop changing.
fn settled_bytes(folder: &Path) -> Result<u64> {
    let (asked, mut before) = (Instant::now(), bytes_of(folder)?);
    loop {
        sleep(Duration::from_secs(1));
        let bytes = bytes_of(folder)?;
        if bytes == before || asked.elapsed() > PATIENCE {
            return Ok(bytes);
        }
        before = bytes;
    }
}

fn bytes_of(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        // A file that was removed meanwhile has no size.
        let Ok(metadata) = entry.metadata() else { continue };
        sum += if metadata.is_dir() { bytes_of(&entry.path())? } else { 512 * metadata.blocks() };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_is_never_negative() {
        let (fixed, slope) = line(&[(1.0, 12.0), (2.0, 14.0), (4.0, 18.0)]);
        assert!((fixed - 10.0).abs() < 1e-9 && (slope - 2.0).abs() < 1e-9);
        assert_eq!(line(&[(1.0, 3.0), (2.0, 1.0)]).1, 0.0);
    }
}
