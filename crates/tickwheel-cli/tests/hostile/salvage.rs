//! Salvage accounting: bytes of journals and tables are flipped, and no loss may be silent.
//!
//! Two attacks share the damage. `salvage`: if a start with `--salvage` loses anything, the damage
//! is counted, the log contains a warning, and `damaged/` contains the original. `salvage-count`:
//! the count is exact, so the jobs before are the jobs after plus those counted as damaged.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::http::Client;
use crate::prepared::{Census, Prepared};
use crate::report::{Report, Scale};
use crate::rig::Server;

/// Checks that no loss is silent.
pub(crate) fn run(scale: &Scale, report: &mut Report) {
    attack(scale, report, false);
}

/// Checks that each lost job is counted.
pub(crate) fn run_count(scale: &Scale, report: &mut Report) {
    attack(scale, report, true);
}

fn attack(scale: &Scale, report: &mut Report, is_exact: bool) {
    let rounds = scale.rounds(4, 60);
    let mut losses = 0;
    let mut count = 0;
    for has_tables in [false, true] {
        // The server is killed, so that the last acknowledged jobs are only in the journal.
        let prepared = Prepared::new(300, has_tables, "KILL");
        let targets: Vec<(PathBuf, u64)> = prepared
            .files()
            .into_iter()
            .filter(|file| is_target(file))
            .filter_map(|file| Some((file.clone(), used_length(&prepared.data().join(&file))?)))
            .collect();
        for round in 0..rounds {
            let (file, length) = &targets[round as usize % targets.len()];
            // The first round hits the last batch; the others are spread over the file.
            let place = match round / targets.len() as u64 {
                0 => length - 2,
                turn => spread(turn) % length,
            };
            count += 1;
            losses += flip_and_salvage(report, &prepared, file, place, is_exact);
        }
    }
    report.check(losses > 0, || "no flipped byte cost a job: the attack proves nothing".to_owned());
    report.fact(format!("{count} flipped bytes, {losses} of them cost jobs"));
}

/// Returns the journals, and the tables of the keyspaces with jobs.
fn is_target(file: &Path) -> bool {
    let text = file.to_string_lossy();
    text.ends_with(".jnl") || (text.contains("/tables/") && !text.contains("keyspaces/0/"))
}

/// Returns the length up to the last byte that is not zero.
fn used_length(path: &Path) -> Option<u64> {
    let bytes = std::fs::read(path).expect("it is ours");
    bytes.iter().rposition(|byte| *byte != 0).map(|last| last as u64 + 1)
}

/// Spreads a number over 64 bits.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8
}

/// Flips one byte and salvages. Returns 1 if that lost a job.
fn flip_and_salvage(
    report: &mut Report,
    prepared: &Prepared,
    file: &Path,
    place: u64,
    is_exact: bool,
) -> u64 {
    let copy = prepared.copy();
    let what = format!("byte {place} of {}", file.display());
    let path = copy.data().join(file);
    let journal = OpenOptions::new().read(true).write(true).open(&path).expect("it is ours");
    let mut byte = [0];
    journal.read_exact_at(&mut byte, place).expect("it is there");
    journal.write_all_at(&[!byte[0]], place).expect("it is ours");
    drop(journal);
    let server = match Server::try_start(&copy.data(), "", &["--salvage"]) {
        Ok(server) => server,
        Err(log) => {
            let named = log.contains(&*path.to_string_lossy()) || log.contains("damaged/");
            report.check(named, || format!("{what}: salvage is refused without a reason:\n{log}"));
            return 0;
        }
    };
    let census = Census::take(&Client::new(&server));
    let missing = census.missing(&copy.ids);
    let lost = copy.ids.len() - copy.ids.intersection(&census.found).count();
    let invented = census.found.difference(&copy.ids).count();
    report.check(invented == 0, || format!("{what}: {invented} jobs appeared from nowhere"));
    if lost == 0 && census.counted == 0 {
        return 0;
    }
    let is_counted = census.counted as usize >= if is_exact { missing } else { 1 };
    report.check(is_counted, || {
        format!("{what}: {missing} jobs are gone, {} are counted", census.counted)
    });
    if is_exact {
        return u64::from(lost > 0);
    }
    let kept = copy.data().join("queue/damaged");
    let has_copy = std::fs::read_dir(&kept).is_ok_and(|mut entries| entries.next().is_some());
    report.check(has_copy, || format!("{what}: {lost} jobs are gone without a copy in damaged/"));
    report.check(server.log().contains("WARN") || server.log().contains("ERROR"), || {
        format!("{what}: {lost} jobs are gone and the log does not warn:\n{}", server.log_tail())
    });
    u64::from(lost > 0)
}
