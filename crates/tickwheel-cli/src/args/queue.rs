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
    /// List the groups of a queue with their waiting, running and held jobs
    Groups(GroupsArgs),
    /// Pause a group of a queue, resume it, or give it limits of its own
    SetGroup(SetGroupArgs),
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
  tickwheel queue set calls --fair-groups true                      one job of each group in turn
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
    /// Serve groups of jobs in turn, so that the backlog of one does not delay the others
    #[arg(long, value_name = "BOOL")]
    pub(crate) fair_groups: Option<bool>,
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

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel queue groups calls
  tickwheel queue groups calls --prefix eu-

Held jobs are due, and their group is paused or at one of its limits.")]
pub(crate) struct GroupsArgs {
    /// The queue
    pub(crate) queue: String,
    /// Only groups whose name begins with this
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// How many at once
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// The page to list: `next` of the answer before
    #[arg(long, value_name = "TOKEN")]
    pub(crate) page: Option<String>,
    /// List all pages
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel queue set-group calls acme --starts 10 --window 1s --concurrency 2
  tickwheel queue set-group calls acme --no-pacing         as fast as workers come
  tickwheel queue set-group calls acme --queue-pacing      as `queue set --group-starts` says
  tickwheel queue set-group calls acme --pause

The queue is created if it does not exist.")]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct SetGroupArgs {
    /// The queue
    pub(crate) queue: String,
    /// The group
    pub(crate) group: String,
    /// Pause deliveries of the group; jobs can still be put
    #[arg(long, conflicts_with = "resume")]
    pub(crate) pause: bool,
    /// Resume deliveries of the group
    #[arg(long)]
    pub(crate) resume: bool,
    /// The maximum number of deliveries in any window
    #[arg(long, value_name = "N", requires = "window", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Pacing")]
    pub(crate) starts: Option<u32>,
    /// The length of that window
    #[arg(long, value_name = "DURATION", requires = "starts", value_parser = values::delay, help_heading = "Pacing")]
    pub(crate) window: Option<Delay>,
    /// The maximum number of leased jobs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Pacing")]
    pub(crate) concurrency: Option<u32>,
    /// No limit for the group
    #[arg(long, conflicts_with_all = ["starts", "window", "concurrency"], help_heading = "Pacing")]
    pub(crate) no_pacing: bool,
    /// The limits that the queue sets for each group
    #[arg(long, conflicts_with_all = ["starts", "window", "concurrency", "no_pacing"], help_heading = "Pacing")]
    pub(crate) queue_pacing: bool,
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
