//! The commands about push targets.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tickwheel_api::{Delay, Retry, TargetMethod};

use super::values;

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  tickwheel target add partner https://partner.example/orders --rate 100/1s --concurrency 8
  tickwheel queue set orders --target partner
  tickwheel target test partner")]
pub(crate) enum TargetCommand {
    /// Add a target; its signing secret is printed once
    Add(Box<TargetAddArgs>),
    /// List the targets with their state
    #[command(after_help = "Example:\n  tickwheel target ls")]
    Ls,
    /// Show a target: its settings, its state and why
    #[command(after_help = "Example:\n  tickwheel target show partner")]
    Show {
        /// The target
        name: String,
    },
    /// Change settings of a target; the others stay as they are
    Set(Box<TargetSetArgs>),
    /// Pause deliveries to a target; its jobs stay in their queues
    #[command(after_help = "Example:\n  tickwheel target pause partner")]
    Pause {
        /// The target
        name: String,
    },
    /// Resume deliveries to a target that is paused, held or stopped
    #[command(after_help = "Example:\n  tickwheel target resume partner")]
    Resume {
        /// The target
        name: String,
    },
    /// Add a signing secret, which is printed once; the old ones sign beside it for a while
    #[command(after_help = "Example:\n  tickwheel target rotate partner --keep-old 1h")]
    Rotate {
        /// The target
        name: String,
        /// How long the old secrets sign beside the new one
        #[arg(long, value_name = "DURATION", value_parser = values::delay, default_value = "24h")]
        keep_old: Delay,
    },
    /// Remove a target that no queue names
    #[command(after_help = "Example:\n  tickwheel target rm partner")]
    Rm {
        /// The target
        name: String,
    },
    /// Show the states of all targets, and their changes as they happen
    #[command(after_help = "Example:\n  tickwheel target watch")]
    Watch {
        /// End after this many events
        #[arg(long, short = 'n', value_name = "N")]
        count: Option<u64>,
    },
    /// Send one signed request, and show everything about it
    ///
    /// Exits with 1 if a job would not be delivered.
    #[command(after_help = "Example:\n  tickwheel target test partner")]
    Test {
        /// The target
        name: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel target add partner https://partner.example/orders --rate 100/1s --concurrency 8
  tickwheel target add partner 'https://partner.example/orders/{key}' --method put \\
      --header authorization='Bearer abc' --timeout 30s

The URL may contain {id}, {key}, {queue} and {header:NAME} in its path and query.")]
pub(crate) struct TargetAddArgs {
    /// The target
    pub(crate) name: String,
    /// The URL, http or https
    #[arg(value_name = "TARGET_URL")]
    pub(crate) target_url: String,
    #[command(flatten)]
    pub(crate) options: TargetOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel target set partner --rate 50/1s
  tickwheel target set partner --header authorization='Bearer new' --timeout 5s
  tickwheel target set partner --no-rate")]
pub(crate) struct TargetSetArgs {
    /// The target
    pub(crate) name: String,
    /// The URL, http or https; `--url` is that of the server
    #[arg(long, value_name = "URL")]
    pub(crate) target_url: Option<String>,
    /// Any rate
    #[arg(long, conflicts_with = "rate")]
    pub(crate) no_rate: bool,
    #[command(flatten)]
    pub(crate) options: TargetOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TargetOptions {
    /// The maximum number of requests in any window: 100/1s
    #[arg(long, value_name = "N/WINDOW", value_parser = values::rate)]
    pub(crate) rate: Option<(u32, Delay)>,
    /// The maximum number of requests at once [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: Option<u32>,
    /// The method: post, put, patch, delete or get [default: post]
    #[arg(long, value_name = "METHOD", value_parser = values::method)]
    pub(crate) method: Option<TargetMethod>,
    /// A header of each request; with an empty value `set` removes it; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = values::header)]
    pub(crate) headers: Vec<(String, String)>,
    /// A header of the job that each request carries; may be repeated
    #[arg(long = "forward", value_name = "NAME")]
    pub(crate) forward: Vec<String>,
    /// How long a request may take [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = values::delay)]
    pub(crate) timeout: Option<Delay>,
    /// Trust the certificates of this PEM file instead of the public ones
    #[arg(long = "target-ca", value_name = "FILE")]
    pub(crate) target_ca: Option<PathBuf>,
    /// The delay before each retry, where the job names none: 10s, 1s..1h or 1s,10s,1m
    #[arg(long, value_name = "DELAYS", value_parser = values::retry)]
    pub(crate) retry: Option<Retry>,
    /// The maximum number of attempts, where the job names none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_attempts: Option<u32>,
}
