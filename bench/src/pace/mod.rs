//! Pacing for a million keys; and the check alone, against a rate limiter.
//!
//! * `figure`, `work`: what there is to do, and what it is called
//! * `ours`, `checkers`: who does it
//! * `run`: doing it once, in a process of its own
//! * `rounds`: doing it in turns
//! * `export`: what came of it, on the terminal and in files

mod checkers;
mod export;
mod figure;
mod options;
mod ours;
mod rounds;
mod run;
mod work;

use anyhow::Result;

pub(crate) use options::Options;
pub(crate) use run::Run;

use crate::report::destinations::Destinations;
use crate::report::file;
use crate::report::results;

type Results = results::Results<figure::System, figure::Figure>;

/// Runs the comparison, prints it and writes the files that were asked for.
pub(crate) fn compare(options: &Options) -> Result<()> {
    let destinations = Destinations::check(&options.files, "pace")?;
    let results = rounds::run_all(options)?;
    let report = export::Report::new(options, results);
    file::print(&report)?;
    destinations.write(&report)
}
