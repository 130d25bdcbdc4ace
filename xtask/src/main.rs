//! The chores of this repository: `cargo xtask --help` lists them.
//!
//! This file is the command line and nothing else. Each chore has a module of its own, and all of
//! them start other programs through [`process`], which prints each command in a form that can be
//! pasted into a shell.

mod api_check;
mod beanstalk;
mod bench;
mod browser;
mod burst_chart;
mod capacity;
mod client_packages;
mod clients;
mod cluster;
mod crash;
mod deadline;
mod deb;
mod deny;
mod docs_check;
mod examples_check;
mod fuzz;
mod hostile;
mod jepsen;
mod manifests;
mod package;
mod process;
mod sanitize;
mod semver;
mod simulate;
mod soak;
mod test;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};

/// Every chore of the Tickwheel repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run every check: format, clippy, tests, loom, the `no_std` build, rustdoc, documents and API
    Test {
        /// Run one part only
        #[arg(value_parser = PossibleValuesParser::new(test::parts()))]
        part: Option<String>,
    },
    /// Run a benchmark of bench/; arguments are passed on, `--help` included
    #[command(disable_help_flag = true)]
    Bench {
        /// The benchmark's name and its arguments
        #[arg(value_name = "NAME] [ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run a coverage-guided target of fuzz/ (installs cargo-fuzz under target/)
    Fuzz {
        /// A file of `fuzz/fuzz_targets`, without its `.rs`
        target: String,
        /// How long to run
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
        seconds: u32,
    },
    /// Run the library's tests under `AddressSanitizer`
    Sanitize,
    /// Kill a process that works on the queue, again and again, and check that nothing is lost
    Crash {
        /// The number of kills
        #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
        rounds: u32,
    },
    /// Let many clients work on a real server at once, and check that nothing is lost
    Soak {
        /// The number of clients
        #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
        clients: u32,
        /// How long the clients work
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
        seconds: u32,
    },
    /// Attack a real server: tokens, floods, memory, full disks, vanished volumes, damaged files
    ///
    /// `cargo xtask test` runs a short form of it.
    Hostile {
        /// Run one attack only; an unknown name lists them
        #[arg(long, value_name = "NAME")]
        attack: Option<String>,
        /// How often to repeat attacks with random parts
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        rounds: Option<u32>,
        /// Run the short form
        #[arg(long)]
        short: bool,
    },
    /// Check a real server against its description (installs schemathesis into target/)
    Api {
        /// How long the server is tested
        #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..))]
        seconds: u32,
    },
    /// Kill, stop, cut off and fill nodes and NATS servers under load, and check what clients saw
    ///
    /// Prints the counts of operations, faults and findings. `cargo xtask test cluster` inflicts each
    /// kind of fault once.
    Jepsen {
        /// How long load and faults last
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
        minutes: u32,
        /// The seed of the faults; random without this
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// The partitions of the cluster
        #[arg(long, value_name = "N", default_value_t = 1)]
        partitions: u32,
    },
    /// Simulate a cluster with crashes, pauses, lost answers and skewed clocks
    ///
    /// A run depends on its seed alone. `cargo xtask test` runs the first 1,000 seeds.
    Simulate {
        /// The number of seeds
        #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
        seeds: u64,
        /// The first seed
        #[arg(long, value_name = "N", default_value_t = 0)]
        first: u64,
        /// Run this seed only
        #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "first"])]
        seed: Option<u64>,
    },
    /// Test the client libraries against a real server (installs what their languages need)
    Clients {
        /// Test one language only
        #[arg(value_parser = PossibleValuesParser::new(clients::languages()))]
        language: Option<String>,
    },
    /// Test the dashboard in a real browser (installs chromium, playwright-core and axe-core)
    Browser {
        /// Run only the tests whose names contain this; with --figures, only this part:
        /// open-pages, no-pages or many-jobs
        name: Option<String>,
        /// Take the screenshots of the documents again
        #[arg(long)]
        screenshots: bool,
        /// Measure what the dashboard costs, with a release build, instead of testing it
        #[arg(long, conflicts_with = "screenshots")]
        figures: bool,
    },
    /// Start three NATS servers and three nodes on loopback (installs NATS into target/)
    Cluster,
    /// Record a burst of jobs for a push target, and draw the chart of docs/guides
    BurstChart {
        /// The binary to record; built by default
        #[arg(long, value_name = "PATH")]
        program: Option<PathBuf>,
        /// Draw the run that was recorded last
        #[arg(long, conflicts_with = "program")]
        redraw: bool,
    },
    /// Print what ten billion jobs need, from the saved results of `cargo xtask bench cluster`
    Capacity {
        /// Write the tables into docs/CAPACITY.md
        #[arg(long)]
        write: bool,
    },
    /// Check the documents: READMEs agree, links resolve, public types have examples
    Docs,
    /// Build every published crate from its package, and the library with its oldest Rust
    Package,
    /// Build the Debian package and check its contents (installs cargo-deb; needs dpkg-deb)
    Deb,
    /// Check the Kubernetes manifests and the systemd unit (installs kubernetes-validate)
    Manifests,
    /// Check licences, sources and advisories of all dependencies (installs cargo-deny)
    Deny {
        /// Leave out the advisories, which need the network
        #[arg(long)]
        offline: bool,
    },
    /// Find breaking changes of the library's API (installs cargo-semver-checks)
    Semver {
        /// The commit to compare with; defaults to the latest release tag
        #[arg(long, value_name = "COMMIT")]
        baseline: Option<String>,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Test { part } => test::run(part.as_deref()),
        Chore::Bench { args } => bench::run(args),
        Chore::Fuzz { target, seconds } => fuzz::run(&target, seconds),
        Chore::Sanitize => sanitize::run(),
        Chore::Crash { rounds } => crash::run(rounds),
        Chore::Soak { clients, seconds } => soak::run(clients, seconds),
        Chore::Hostile { attack, rounds, short } => hostile::run(attack, rounds, short),
        Chore::Jepsen { minutes, seed, partitions } => jepsen::run(minutes, seed, partitions),
        Chore::Simulate { seeds, first, seed } => simulate::run(seeds, first, seed),
        Chore::Api { seconds } => api_check::run(seconds),
        Chore::Clients { language } => clients::run(language.as_deref()),
        Chore::Browser { name, figures: true, .. } => browser::figures(name.as_deref()),
        Chore::Browser { name, screenshots, .. } => browser::run(name.as_deref(), screenshots),
        Chore::Cluster => cluster::run(),
        Chore::BurstChart { program, redraw } => burst_chart::run(program, redraw),
        Chore::Capacity { write } => capacity::run(write),
        Chore::Docs => docs_check::run(),
        Chore::Package => package::run(),
        Chore::Deb => deb::run(),
        Chore::Manifests => manifests::run(),
        Chore::Deny { offline } => deny::run(offline),
        Chore::Semver { baseline } => semver::run(baseline),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{} {failure}", process::paint("1;31", "error:"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bench_passes_everything_on() {
        let cli = Cli::parse_from(["xtask", "bench", "wheel", "--json", "out.json", "--help"]);
        let Chore::Bench { args } = cli.chore else {
            panic!("parsed as another chore");
        };
        assert_eq!(args, ["wheel", "--json", "out.json", "--help"]);
    }

    #[test]
    fn an_unknown_part_of_the_tests_lists_the_others() {
        let Err(error) = Cli::try_parse_from(["xtask", "test", "lomo"]) else {
            panic!("accepted");
        };
        let text = error.to_string();
        assert!(
            text.contains("lomo") && text.contains("loom") && text.contains("hostile"),
            "{text}"
        );
    }

    #[test]
    fn fuzzing_for_no_time_is_refused() {
        assert!(Cli::try_parse_from(["xtask", "fuzz", "wheel", "--seconds", "0"]).is_err());
    }
}
