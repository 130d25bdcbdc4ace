//! The file system of a data directory: what it is, and how long a sync takes.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Finding, Severity};

/// Syncs that are measured, and the time after which fewer are enough.
const SYNCS: usize = 32;
const SYNC_TIME: Duration = Duration::from_secs(2);
/// A sync that takes longer than this limits every single put.
const SLOW_SYNC: Duration = Duration::from_millis(20);
/// No disk syncs faster than this.
const IMPLAUSIBLE_SYNC: Duration = Duration::from_micros(8);
/// Files that a server creates before anybody can react.
#[cfg(unix)]
const FEW_INODES: u64 = 1_000;

/// Writes and syncs a small file in the directory several times.
pub(super) fn sync_latency(data: &Path) -> Finding {
    let path = data.join("doctor-sync");
    let measured = measure(&path);
    let _ = fs::remove_file(&path);
    let times = match measured {
        Ok(times) => times,
        Err(error) => {
            let what = format!("{} cannot be written: {error}", data.display());
            return Finding::new(Severity::Error, "sync", what)
                .advice("run it as the user of the server, and check how the disk is mounted");
        }
    };
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    let what =
        format!("a sync takes {median:.1?} (median of {}), {longest:.1?} at most", times.len());
    if median > SLOW_SYNC {
        let advice = "use a disk with power-loss protection, find out what else writes to it, or \
                      send jobs in batches: each group of puts waits for one sync";
        return Finding::new(Severity::Warning, "sync", what).advice(advice);
    }
    if median < IMPLAUSIBLE_SYNC {
        let advice = "check that the file system really syncs: no disk is this fast, and a job that \
                      was acknowledged may be lost when the power fails";
        return Finding::new(Severity::Note, "sync", what).advice(advice);
    }
    Finding::new(Severity::Fine, "sync", what)
}

/// The durations of syncs, in ascending order.
fn measure(path: &Path) -> io::Result<Vec<Duration>> {
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
    let start = Instant::now();
    let mut times = Vec::with_capacity(SYNCS);
    while times.is_empty() || (times.len() < SYNCS && start.elapsed() < SYNC_TIME) {
        file.write_all(&[0x5a; 4096])?;
        let before = Instant::now();
        file.sync_data()?;
        times.push(before.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}

/// Checks the kind of the file system, and how many files it can still create.
#[cfg(unix)]
pub(super) fn file_system(data: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Ok(found) = rustix::fs::statvfs(data)
        && found.f_files > 0
        && found.f_favail < FEW_INODES
    {
        let what = format!("the file system can create only {} more files", found.f_favail);
        let advice = "remove files, or move the directory to another file system";
        findings.push(Finding::new(Severity::Warning, "disk", what).advice(advice));
    }
    findings.extend(kind(data));
    findings
}

#[cfg(not(unix))]
pub(super) fn file_system(_: &Path) -> Vec<Finding> {
    Vec::new()
}

/// The numbers are those of `statfs(2)`.
#[cfg(target_os = "linux")]
fn kind(data: &Path) -> Option<Finding> {
    const NETWORK: [(u32, &str); 5] = [
        (0x6969, "NFS"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "SMB"),
        (0x0102_1997, "9P"),
        (0x6573_5546, "FUSE"),
    ];
    const MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
    let kind = u32::try_from(rustix::fs::statfs(data).ok()?.f_type & 0xffff_ffff).ok()?;
    if MEMORY.contains(&kind) {
        let what = "the data is on a file system in memory: all jobs are lost at a restart of the \
                    machine";
        let advice = "move the directory to a disk";
        return Some(Finding::new(Severity::Warning, "file system", what).advice(advice));
    }
    let (_, name) = NETWORK.iter().find(|(number, _)| *number == kind)?;
    let what = format!("the data is on {name}, which may acknowledge a sync too early");
    let advice = "use a local disk, or a block device that syncs when it is told to";
    Some(Finding::new(Severity::Warning, "file system", what).advice(advice))
}

#[cfg(all(unix, not(target_os = "linux")))]
fn kind(_: &Path) -> Option<Finding> {
    None
}
