//! The commands about schedules.

use clap::{Args, Subcommand};
use tickwheel_api::{Delay, Misfire};

use super::job::{JobOptions, PayloadArgs};
use super::values;

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  tickwheel schedule add report --queue mail --cron '0 9 * * MON-FRI' --timezone Europe/Berlin daily
  tickwheel schedule next report")]
pub(crate) enum ScheduleCommand {
    /// Add a schedule, or replace the one of that name
    Add(Box<ScheduleAddArgs>),
    /// List the schedules
    #[command(after_help = "Example:\n  tickwheel schedule ls")]
    Ls,
    /// Show a schedule
    #[command(after_help = "Example:\n  tickwheel schedule show report")]
    Show {
        /// The schedule
        name: String,
    },
    /// Remove a schedule; jobs that it has put stay
    #[command(after_help = "Example:\n  tickwheel schedule rm report")]
    Rm {
        /// The schedule
        name: String,
    },
    /// Pause a schedule: occurrences in the pause put no job
    #[command(after_help = "Example:\n  tickwheel schedule pause report")]
    Pause {
        /// The schedule
        name: String,
    },
    /// Resume a schedule
    #[command(after_help = "Example:\n  tickwheel schedule resume report")]
    Resume {
        /// The schedule
        name: String,
    },
    /// Show the next times of a schedule, in its own time zone
    #[command(after_help = "Example:\n  tickwheel schedule next report -n 10")]
    Next {
        /// The schedule
        name: String,
        /// How many
        #[arg(long, short = 'n', value_name = "N", default_value_t = 5,
              value_parser = clap::value_parser!(u32).range(1..=1000))]
        count: u32,
    },
}

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("times").args(["cron", "every"]).required(true),
    after_help = "\
Examples:
  tickwheel schedule add report --queue mail --cron '0 9 * * MON-FRI' --timezone Europe/Berlin daily
  tickwheel schedule add ping --queue calls --every 30s '{\"ping\":true}'
  tickwheel schedule add bills --queue mail --cron @monthly --misfire all --misfire-limit 3 bill"
)]
pub(crate) struct ScheduleAddArgs {
    /// The schedule
    pub(crate) name: String,
    /// The queue that it puts jobs into
    #[arg(long, short)]
    pub(crate) queue: String,
    /// By the calendar: five or six fields of cron, or a nickname such as @daily
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) cron: Option<String>,
    /// The time zone of the calendar, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "cron")]
    pub(crate) timezone: Option<String>,
    /// By a period: 30s, 1h
    #[arg(long, value_name = "DURATION", value_parser = values::delay)]
    pub(crate) every: Option<Delay>,
    /// What to do about occurrences that were missed while the server was down [default: once]
    #[arg(long, value_name = "WHAT", value_parser = values::misfire())]
    pub(crate) misfire: Option<Misfire>,
    /// The maximum number of missed occurrences that put a job
    #[arg(long, value_name = "N", requires = "misfire",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) misfire_limit: Option<u32>,
    #[command(flatten)]
    pub(crate) payload: PayloadArgs,
    #[command(flatten)]
    pub(crate) options: JobOptions,
}
