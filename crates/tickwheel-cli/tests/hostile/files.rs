//! Every file of a data directory is deleted and truncated in turn.
//!
//! The server then refuses to start with an error that names the file and the remedy, or serves
//! everything, or reports how much is damaged. It never drops data silently.

use std::fs::OpenOptions;
use std::path::Path;

use crate::http::Client;
use crate::prepared::{Census, Prepared};
use crate::report::{Report, Scale};
use crate::rig::Server;

/// Words that appear in the remedy of an error.
const REMEDIES: [&str; 3] = ["salvage", "restore", "backup"];

#[derive(Clone, Copy, Debug)]
enum Harm {
    Delete,
    Empty,
    Halve,
    CutTheLastByte,
}

#[derive(Debug, Default)]
struct Tally {
    refused: u64,
    recovered: u64,
    damaged: u64,
}

pub(crate) fn run(scale: &Scale, report: &mut Report) {
    let harms: &[Harm] = scale.pick(
        &[Harm::Delete, Harm::Halve],
        &[Harm::Delete, Harm::Empty, Harm::Halve, Harm::CutTheLastByte],
    );
    let mut tally = Tally::default();
    for signal in scale.pick(&["TERM"][..], &["TERM", "KILL"]) {
        let prepared = Prepared::new(scale.pick(600, 100_000), true, signal);
        for file in prepared.files() {
            for harm in harms {
                try_harm(report, &mut tally, &prepared, &file, *harm);
            }
        }
    }
    report.check(tally.refused > 0 && tally.recovered > 0, || {
        format!("the attack proves nothing: {tally:?}")
    });
    report.fact(format!(
        "{} harmed directories: {} refused, {} served in full, {} with damage reported",
        tally.refused + tally.recovered + tally.damaged,
        tally.refused,
        tally.recovered,
        tally.damaged
    ));
}

fn try_harm(report: &mut Report, tally: &mut Tally, prepared: &Prepared, file: &Path, harm: Harm) {
    let copy = prepared.copy();
    if !apply(&copy.data().join(file), harm) {
        return;
    }
    let what = format!("{harm:?} {}", file.display());
    let server = match Server::try_start(&copy.data(), "", &["--access-log", "none"]) {
        Ok(server) => server,
        Err(log) => {
            tally.refused += 1;
            check_refusal(report, file, harm, &log);
            return;
        }
    };
    let client = Client::new(&server);
    if !client.is_ready() {
        tally.refused += 1;
        check_refusal(report, file, harm, &server.log());
        return;
    }
    let census = Census::take(&client);
    let missing = census.missing(&copy.ids);
    let is_whole = missing == 0 && census.named.is_empty() && census.refused.is_empty();
    if is_whole && census.schedules == 1 {
        tally.recovered += 1;
        return;
    }
    tally.damaged += 1;
    let says_so = census.counted > 0 || !census.refused.is_empty();
    report.check(says_so, || {
        format!(
            "{what}: served in silence with {missing} of {} jobs missing and {} schedules:\n{}",
            copy.ids.len(),
            census.schedules,
            server.log_tail()
        )
    });
    for refusal in &census.refused {
        report.check(refusal.contains("damaged"), || format!("{what}: {refusal}"));
    }
}

fn check_refusal(report: &mut Report, file: &Path, harm: Harm, log: &str) {
    let what = format!("{harm:?} {}", file.display());
    let name = file.strip_prefix("queue/store").or(file.strip_prefix("queue")).unwrap_or(file);
    // The number of a missing journal is not stored anywhere, so the error names it by a pattern.
    let is_lost_journal =
        matches!(harm, Harm::Delete) && file.extension().is_some_and(|kind| kind == "jnl");
    let is_named =
        log.contains(&*name.to_string_lossy()) || (is_lost_journal && log.contains("*.jnl"));
    report.check(is_named, || {
        format!("{what}: the refusal does not name {}:\n{log}", name.display())
    });
    report.check(REMEDIES.iter().any(|word| log.to_lowercase().contains(word)), || {
        format!("{what}: the refusal names no remedy ({}):\n{log}", REMEDIES.join(", "))
    });
}

/// Harms a file; returns `false` if that changes nothing.
fn apply(path: &Path, harm: Harm) -> bool {
    let length = std::fs::metadata(path).expect("it is there").len();
    let rest = match harm {
        Harm::Delete => {
            std::fs::remove_file(path).expect("it is ours");
            return true;
        }
        Harm::Empty => 0,
        Harm::Halve => length / 2,
        Harm::CutTheLastByte => length.saturating_sub(1),
    };
    let file = OpenOptions::new().write(true).open(path).expect("it is ours");
    file.set_len(rest).expect("it is ours");
    rest != length
}
