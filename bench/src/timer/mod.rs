//! The timer against its peers: threads, real time, and other languages.
//!
//! * `plan`: what there is to do, the same for all
//! * `contender`, `ours`, `peers`: who does it in Rust; `bench/peers` has who does it in Java and Go
//! * `run`: doing it once, in a process of its own; `pause`: the longest calls
//! * `setup`: installing and building what the peers need
//! * `rounds`: doing it in turns
//! * `goals`, `picture`, `export`: what came of it, on the terminal and in files

mod contender;
mod export;
mod figure;
mod goals;
mod options;
mod ours;
mod pause;
mod peers;
mod picture;
mod plan;
mod rounds;
mod run;
mod setup;
mod system;
mod workload;

use anyhow::Result;

pub(crate) use options::Options;
pub(crate) use run::Run;

use crate::report::destinations::Destinations;
use crate::report::{file, results};

/// Everything that was measured.
type Results = results::Results<system::System, figure::Figure>;

/// Runs the comparison, prints it and writes the files that were asked for.
pub(crate) fn compare(options: &Options) -> Result<()> {
    let destinations = Destinations::check(&options.files, "timer")?;
    let harnesses = setup::Harnesses::set_up(&options.systems())?;
    let results = rounds::run_all(options, &harnesses)?;
    let report = export::Report::new(options, harnesses.into_versions(), results);
    file::print(&report)?;
    destinations.write(&report)
}
