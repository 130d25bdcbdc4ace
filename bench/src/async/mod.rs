//! Futures on the timer against those of the runtimes.
//!
//! * `workload`, `figure`, `system`: what there is to do, what it yields, and who does it
//! * `contender`, `ours`, `peers`: how each of them does it
//! * `timeouts`, `sleeps`, `fire`, `queue`: doing it once, in a process of its own, as `run` says
//! * `rounds`: doing it in turns
//! * `goals`, `export`: what came of it, on the terminal and in files

mod contender;
mod export;
mod figure;
mod fire;
mod goals;
mod options;
mod ours;
mod peers;
mod queue;
mod rounds;
mod run;
mod sleeps;
mod system;
mod timeouts;
mod workload;

use anyhow::Result;

pub(crate) use options::Options;
pub(crate) use run::Run;

use crate::report::destinations::Destinations;
use crate::report::file;
use crate::report::results;

type Results = results::Results<system::System, figure::Figure>;

/// Runs the comparison, prints it and writes the files that were asked for.
pub(crate) fn compare(options: &Options) -> Result<()> {
    let destinations = Destinations::check(&options.files, "async")?;
    let results = rounds::run_all(options)?;
    let report = export::Report::new(options, results);
    file::print(&report)?;
    destinations.write(&report)
}
