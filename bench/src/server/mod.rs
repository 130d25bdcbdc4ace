//! The service, `tickwheel serve`, against the queue in it and against those that are used as one
//! over a socket: Redis, PostgreSQL and beanstalkd.
//!
//! The peers' servers and clients, the jobs and most of the measuring are those of `queue`.
//!
//! * `system`, `workload`, `figure`: what there is, by name
//! * `plan`: what there is to do, the same for all
//! * `program`: building, starting and stopping the service
//! * `http`, `ours`: asking it
//! * `run`, `measure`, `pending`: doing it once, in a process of its own
//! * `rounds`: doing it in turns
//! * `goals`, `summary`, `picture`, `export`: what came of it, on the terminal and in files

mod export;
mod figure;
mod goals;
pub(crate) mod http;
mod measure;
mod options;
mod ours;
mod pending;
mod picture;
mod plan;
pub(crate) mod program;
mod rounds;
mod run;
mod summary;
mod system;
mod workload;

use anyhow::Result;

pub(crate) use options::Options;
pub(crate) use run::Run;

use crate::queue::leftovers::Leftovers;
use crate::queue::servers;
use crate::report::destinations::Destinations;
use crate::report::{file, results};

/// Everything that was measured.
type Results = results::Results<system::System, figure::Figure>;

/// Runs the comparison, prints it and writes the files that were asked for.
pub(crate) fn compare(options: &Options) -> Result<()> {
    let destinations = Destinations::check(&options.files, "server")?;
    let program = options.program()?;
    let leftovers = Leftovers::of(options.folders())?;
    let peers: Vec<_> = options.systems().into_iter().filter_map(system::System::peer).collect();
    let versions = servers::set_up(&peers, options.folder())?;
    let results = rounds::run_all(options, &program)?;
    drop(leftovers);
    let report = export::Report::new(options, versions, results);
    file::print(&report)?;
    destinations.write(&report)
}
