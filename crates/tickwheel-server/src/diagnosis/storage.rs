//! The store: what an inspection finds, and what a salvage of a damaged one would keep.
//!
//! The files alone do not show how many jobs a salvage loses. So a salvage is tried on a copy
//! inside the data directory, which is removed afterwards, if there is room for it.

use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tickwheel_queue::Queues;
use tickwheel_queue::store::{Directory, Inspection, StoreError};

use super::access;
use super::{Finding, Repair, Severity, bytes};

/// Room that a trial leaves on the file system.
const TRIAL_MARGIN: u64 = 64 << 20;
/// Parts of the damage that a message names.
const SHOWN_DAMAGE: usize = 5;
/// With less than this beside the reserve, the server neither makes the reserve nor takes puts.
const SCARCE: u64 = 32 << 20;

/// Checks the store in this folder. `reserve` is how many bytes the configuration reserves.
pub(super) fn store(queue: &Path, reserve: u64) -> Vec<Finding> {
    if !queue.exists() {
        let why = format!("{} does not exist: no server has used the directory", queue.display());
        let advice = "check the name, or start a server, which creates it";
        return vec![Finding::new(Severity::Note, "store", why).advice(advice)];
    }
    match Directory::new(queue).inspect() {
        Err(error) => vec![refusal(queue, &error)],
        Ok(found) => {
            let mut findings = contents(queue, &found);
            findings.extend(space(&found, reserve));
            findings.extend(traces(&found));
            findings
        }
    }
}

fn refusal(queue: &Path, error: &StoreError) -> Finding {
    let at = queue.display();
    match error {
        StoreError::Locked => Finding::new(
            Severity::Note,
            "store",
            format!("a server uses {at}, so its rows were not read"),
        )
        .advice(
            "check the running server with `tickwheel doctor` without --data, or stop it first",
        ),
        StoreError::NewerVersion { .. } => {
            Finding::new(Severity::Error, "format", error.to_string())
                .advice("use the version of tickwheel that wrote the directory, or a newer one")
        }
        StoreError::NotAQueue(_) => {
            Finding::new(Severity::Error, "store", format!("{at}: {error}"))
                .advice("name the data directory of the server with --data")
        }
        error => Finding::new(Severity::Error, "store", format!("{at} cannot be read: {error}"))
            .advice("run it as the user of the server, and check the disk"),
    }
}

/// Whether everything can be read.
fn contents(queue: &Path, found: &Inspection) -> Vec<Finding> {
    let mut findings = Vec::new();
    if found.needs_upgrade {
        let what = "the directory has an older format, which the next start of the server upgrades; \
                    its rows were not read";
        let advice = "make a copy first: an older version refuses an upgraded directory";
        findings.push(Finding::new(Severity::Note, "format", what).advice(advice));
    } else if found.damage.is_empty() {
        let what = "the directory has the current format";
        findings.push(Finding::new(Severity::Fine, "format", what));
    }
    if !found.damage.is_empty() {
        findings.push(damage(queue, found));
    } else if found.is_complete {
        let what = format!(
            "all {} rows can be read, {} of them jobs, in {}",
            found.rows,
            found.jobs,
            bytes(found.used)
        );
        findings.push(Finding::new(Severity::Fine, "damage", what));
    }
    findings
}

fn damage(queue: &Path, found: &Inspection) -> Finding {
    let parts = found.damage.len();
    let mut shown = found.damage[..parts.min(SHOWN_DAMAGE)].join("; ");
    if parts > SHOWN_DAMAGE {
        let _ = write!(shown, "; and {} more", parts - SHOWN_DAMAGE);
    }
    let finding = Finding::new(
        Severity::Error,
        "damage",
        format!("the store is damaged, and the server refuses to start: {shown}"),
    );
    let trial = match try_salvage(queue, found) {
        Ok(salvaged) => format!("A salvage, tried on a copy, {salvaged}"),
        Err(why) => format!("What a salvage would keep is unknown: {why}"),
    };
    let finding = finding.advice(format!(
        "restore a backup, or salvage what can be read with `tickwheel doctor --repair` or \
         `tickwheel serve --salvage`. {trial}"
    ));
    // Files that another user creates would lock the server out.
    if access::is_own(queue) { finding.repair(Repair::Salvage(queue.to_owned())) } else { finding }
}

/// Marks that earlier runs left.
fn traces(found: &Inspection) -> Vec<Finding> {
    let mut findings = Vec::new();
    if found.has_failed {
        let what = "a write or a sync failed when the server ran last";
        let advice = "look for errors of the disk in the log of the kernel; the next start copies \
                      the journals";
        findings.push(Finding::new(Severity::Warning, "disk", what).advice(advice));
    }
    if found.needs_repair {
        let what = "a salvage was interrupted; the next start completes it";
        findings.push(Finding::new(Severity::Note, "damage", what));
    }
    if found.kept_aside > 0 {
        let what = format!("earlier salvages left {} in `damaged/`", bytes(found.kept_aside));
        let advice = "remove the folder when nothing in it is needed any more";
        findings.push(Finding::new(Severity::Note, "damage", what).advice(advice));
    }
    findings
}

/// Whether the file system has room for the store.
fn space(found: &Inspection, reserve: u64) -> Vec<Finding> {
    if found.free == u64::MAX {
        return Vec::new();
    }
    let missing = reserve.saturating_sub(found.reserve);
    let (free, used) = (bytes(found.free), bytes(found.used));
    let advice = "make room: remove finished jobs, or move the directory to a larger file system";
    let mut findings = vec![if found.free < missing + SCARCE {
        let what = format!("{free} are free: the server refuses puts");
        Finding::new(Severity::Error, "disk", what).advice(advice)
    } else if found.free < found.used {
        let what = format!("{free} are free, and merging tables can take {used} more");
        Finding::new(Severity::Warning, "disk", what).advice(advice)
    } else {
        Finding::new(Severity::Fine, "disk", format!("{free} are free, {used} are used"))
    }];
    if missing > 0 && found.reserve == 0 {
        let what = format!("the reserve of {} for a full disk is not allocated", bytes(reserve));
        let advice = "the server allocates it at its next start if there is room";
        findings.push(Finding::new(Severity::Note, "disk", what).advice(advice));
    }
    findings
}

/// What a salvage kept and lost.
pub(super) struct Salvaged {
    jobs: u64,
    damaged: u64,
}

impl fmt::Display for Salvaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keeps {} jobs, and leaves out {} that cannot be read", self.jobs, self.damaged)
    }
}

/// Opens a store with `salvage`, and reads all of the result.
pub(super) fn salvage(queue: &Path) -> Result<Salvaged, String> {
    let opened = Queues::builder().salvage(true).reserve(0).open(queue);
    let queues = opened.map_err(|error| error.to_string())?;
    let stats = queues.stats().wait().map_err(|error| error.to_string())?;
    drop(queues);
    let found = Directory::new(queue).inspect().map_err(|error| error.to_string())?;
    if let Some(damage) = found.damage.first() {
        return Err(format!("the salvaged store is damaged: {damage}"));
    }
    Ok(Salvaged { jobs: found.jobs, damaged: stats.damaged })
}

/// Where a salvage is tried.
pub(super) fn trial_folder(queue: &Path) -> PathBuf {
    queue.with_file_name("doctor-trial")
}

/// Salvages a copy, which is removed afterwards.
fn try_salvage(queue: &Path, found: &Inspection) -> Result<Salvaged, String> {
    let trial = trial_folder(queue);
    let needed = found.used.saturating_sub(found.kept_aside) * 2 + TRIAL_MARGIN;
    if found.free < needed {
        let free = bytes(found.free);
        return Err(format!("trying it needs {} on the disk, and {free} are free", bytes(needed)));
    }
    let salvaged = remove(&trial)
        .and_then(|()| copy(queue, &trial))
        .map_err(|error| format!("{} cannot be filled: {error}", trial.display()))
        .and_then(|()| salvage(&trial));
    // The next trial, or a repair, removes what is left.
    let _ = remove(&trial);
    salvaged
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Copies a queue's directory without the reserve and what earlier salvages kept.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    crate::tokens::make_private(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if name == "reserve" || name == "damaged" {
            continue;
        }
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The inspection of a real store.
    fn inspect(folder: &Path) -> Inspection {
        drop(Queues::builder().reserve(0).open(folder).unwrap());
        Directory::new(folder).inspect().unwrap()
    }

    #[test]
    fn little_room_on_the_disk_is_found_before_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let found = inspect(&folder.path().join("queue"));
        let reserve = 32 << 20;
        let checked = |free: u64, used: u64, allocated: u64| {
            let mut found = found.clone();
            (found.free, found.used, found.reserve) = (free, used, allocated);
            let findings = space(&found, reserve);
            let told = |it: &Finding| (it.severity, it.message.clone(), it.advice.clone());
            findings.iter().map(told).collect::<Vec<_>>()
        };
        let (severity, message, advice) = &checked(SCARCE - 1, 1 << 20, reserve)[0];
        assert_eq!(*severity, Severity::Error);
        assert!(message.contains("32.0 MiB are free: the server refuses puts"), "{message}");
        assert!(advice.as_deref().unwrap().starts_with("make room: "), "{advice:?}");
        // The reserve takes a part of what is free, unless it is there already.
        assert_eq!(checked(reserve + SCARCE - 1, 0, 0)[0].0, Severity::Error);
        assert_eq!(checked(reserve + SCARCE, 0, 0)[0].0, Severity::Fine);
        assert_eq!(checked(SCARCE, 0, reserve)[0].0, Severity::Fine);
        let (severity, message, advice) = &checked(1 << 30, 2 << 30, reserve)[0];
        assert_eq!(*severity, Severity::Warning);
        assert!(message.contains("1.0 GiB are free") && message.contains("2.0 GiB more"));
        assert!(advice.as_deref().unwrap().starts_with("make room: "), "{advice:?}");
        let (severity, message, advice) = &checked(1 << 40, 0, 0)[1];
        assert_eq!(*severity, Severity::Note);
        assert!(message.contains("32.0 MiB") && advice.as_deref().unwrap().contains("next start"));
        assert_eq!(checked(1 << 40, 0, reserve).len(), 1);
    }
}
