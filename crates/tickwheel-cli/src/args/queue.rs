//! The commands about queues.

use clap::{Args, Subcommand};
use tickwheel_api::{Delay, Keep, Order, Retry};

use super::values;

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  tickwheel queue ls
  tickwheel queue set calls --starts 100 --window 1s --concurrency 5")]
pub(crate) enum QueueCommand {
    /// List the queues with the number of jobs in each state; done and cancelled jobs count while
    /// they are kept
    #[command(after_help = "Example:\n  tickwheel queue ls")]
    Ls,
    /// Show a queue: its jobs by state and its settings
    #[command(after_help = "Example:\n  tickwheel queue show orders")]
    Show {
        /// The queue
        queue: String,
    },
    /// Change settings of a queue; the others stay as they are
    Set(Box<QueueSetArgs>),
    /// Pause deliveries; jobs can still be put
    #[command(after_help = "Example:\n  tickwheel queue pause orders")]
    Pause {
        /// The queue
        queue: String,
    },
    /// Remove a queue with its settings; the next job creates it again
    #[command(after_help = "\
Examples:
  tickwheel queue rm orders
  tickwheel queue rm orders --force     with all of its jobs")]
    Rm {
        /// The queue
        queue: String,
        /// Remove its jobs as well, finished ones included
        #[arg(long)]
        force: bool,
    },
    /// Resume deliveries
    #[command(after_help = "Example:\n  tickwheel queue resume orders")]
    Resume {
        /// The queue
        queue: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel queue set orders --lease 2m --max-attempts 5 --retry 1s..1h
  tickwheel queue set calls --starts 100 --window 1s --concurrency 5
  tickwheel queue set calls --group-starts 10 --group-window 1m     for each group of jobs
  tickwheel queue set calls --no-pacing                             as fast as workers come
  tickwheel queue set calls --target partner                        see `tickwheel target`
  tickwheel queue set orders --keep-done 7d --keep-dead 30d,10000 --keep-cancelled nothing

The queue is created if it does not exist.")]
pub(crate) struct QueueSetArgs {
    /// The queue
    pub(crate) queue: String,
    /// The duration of a lease, where the worker names none
    #[arg(long, value_name = "DURATION", value_parser = values::delay)]
    pub(crate) lease: Option<Delay>,
    /// The maximum number of attempts, where the job names none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_attempts: Option<u32>,
    /// The delay before each retry: 10s, 1s..1h (doubling) or 1s,10s,1m (one by one)
    #[arg(long, value_name = "DELAYS", value_parser = values::retry)]
    pub(crate) retry: Option<Retry>,
    /// Deliver ready jobs by due time or by priority
    #[arg(long, value_name = "ORDER", value_parser = values::order())]
    pub(crate) order: Option<Order>,
    /// Send the jobs to this push target; workers do not have to reserve them
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Send the jobs to no target
    #[arg(long, conflicts_with = "target")]
    pub(crate) no_target: bool,
    #[command(flatten)]
    pub(crate) pacing: PacingArgs,
    /// Keep done jobs: for an age (7d), up to a number (1000), both (7d,1000), nothing, forever
    #[arg(long, value_name = "KEEP", value_parser = values::keep, help_heading = "Retention")]
    pub(crate) keep_done: Option<Keep>,
    /// Keep dead jobs
    #[arg(long, value_name = "KEEP", value_parser = values::keep, help_heading = "Retention")]
    pub(crate) keep_dead: Option<Keep>,
    /// Keep cancelled jobs
    #[arg(long, value_name = "KEEP", value_parser = values::keep, help_heading = "Retention")]
    pub(crate) keep_cancelled: Option<Keep>,
}

/// Limits for deliveries.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pacing")]
pub(crate) struct PacingArgs {
    /// The maximum number of deliveries in any window
    #[arg(long, value_name = "N", requires = "window", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) starts: Option<u32>,
    /// The length of that window
    #[arg(long, value_name = "DURATION", requires = "starts", value_parser = values::delay)]
    pub(crate) window: Option<Delay>,
    /// The maximum number of leased jobs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: Option<u32>,
    /// No limit for the queue
    #[arg(long, conflicts_with_all = ["starts", "window", "concurrency"])]
    pub(crate) no_pacing: bool,
    /// The same for each group of jobs
    #[arg(long, value_name = "N", requires = "group_window", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) group_starts: Option<u32>,
    /// The length of that window
    #[arg(long, value_name = "DURATION", requires = "group_starts", value_parser = values::delay)]
    pub(crate) group_window: Option<Delay>,
    /// The same for each group of jobs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) group_concurrency: Option<u32>,
    /// No limit for groups
    #[arg(long, conflicts_with_all = ["group_starts", "group_window", "group_concurrency"])]
    pub(crate) no_group_pacing: bool,
}
