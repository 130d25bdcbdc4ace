//! The two wheels against their peers, as data structures: no thread and no real time.
//!
//! * `work`: what there is to do, the same for all
//! * `contender`, `ours`, `peers`: who does it
//! * `run`, `verify`: doing it once, in a process of its own
//! * `rounds`, `results`: doing it in turns, and the medians
//! * `goals`, `summary`, `picture`, `export`: what came of it, on the terminal and in files

mod contender;
mod export;
mod goals;
mod options;
mod ours;
mod peers;
mod picture;
mod results;
mod rounds;
mod run;
mod summary;
mod system;
mod verify;
mod work;
mod workload;

use anyhow::Result;

pub(crate) use options::Options;
pub(crate) use run::Run;

use crate::report::destinations::Destinations;
use crate::report::file;

/// Runs the comparison, prints it and writes the files that were asked for.
pub(crate) fn compare(options: &Options) -> Result<()> {
    let destinations = Destinations::check(&options.files, "wheel")?;
    let results = rounds::run_all(options)?;
    let report = export::Report::new(options, results);
    file::print(&report)?;
    destinations.write(&report)
}
