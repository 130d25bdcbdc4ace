//! The durable queue against those that are used as one: Redis, PostgreSQL and beanstalkd.
//!
//! * `system`, `workload`, `figure`: what there is, by name
//! * `plan`, `job`: what there is to do, the same for all
//! * `contender`, `ours`, `peers`: who does it
//! * `servers`: installing, starting and stopping the peers' servers
//! * `run`, `measure`: doing it once, in a process of its own
//! * `rounds`: doing it in turns
//! * `leftovers`: nothing stays on disk, also after Ctrl-C
//! * `goals`, `summary`, `picture`, `export`: what came of it, on the terminal and in files

pub(crate) mod contender;
mod export;
mod figure;
mod goals;
pub(crate) mod job;
pub(crate) mod leftovers;
pub(crate) mod measure;
mod options;
pub(crate) mod ours;
pub(crate) mod peers;
mod picture;
mod plan;
mod rounds;
mod run;
pub(crate) mod servers;
mod summary;
pub(crate) mod system;
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
    let destinations = Destinations::check(&options.files, "queue")?;
    let leftovers = leftovers::Leftovers::of(options.folders())?;
    let peers: Vec<_> = options.systems().into_iter().filter_map(system::System::peer).collect();
    let versions = servers::set_up(&peers, options.folder())?;
    let results = rounds::run_all(options)?;
    drop(leftovers);
    let report = export::Report::new(options, versions, results);
    file::print(&report)?;
    destinations.write(&report)
}
