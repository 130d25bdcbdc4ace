//! `work`: a command for each job.

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use tickwheel_api::Delay;

use super::values;

/// What of a command becomes the result of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResultFrom {
    /// Standard output: JSON if it reads as JSON, else a text
    Stdout,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel work mail -- sendmail -t                 the payload on standard input
  tickwheel work images --concurrency 4 --timeout 2m -- ./resize
  tickwheel work sums --result stdout -- bc          what it prints is the result of the job
  tickwheel work mail -- sh -c 'echo \"$TICKWHEEL_JOB_ID: $(cat)\"'

The command gets the payload on standard input, and in its environment
  TICKWHEEL_JOB_ID          the id of the job
  TICKWHEEL_JOB_QUEUE       its queue
  TICKWHEEL_JOB_KEY         its key, if it has one
  TICKWHEEL_JOB_ATTEMPT     1 for the first delivery, 2 for the second, ...
  TICKWHEEL_HEADER_<NAME>   each header: in capitals, and _ for what is no letter or digit

Exit code 0 acknowledges the job. 75 gives it back, to be tried again after --retry-delay, and does
not count as an attempt. Any other code, a signal or the timeout fails the attempt; the end of
standard error is the error of the job.
SIGTERM or Ctrl-C: no further job is taken, and commands that run may finish. A second signal kills
them, and their jobs are given back.")]
pub(crate) struct WorkArgs {
    /// The queue
    pub(crate) queue: String,
    /// The number of commands that run at the same time
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) concurrency: u16,
    /// Kill a command, and the processes that it started, after this time
    #[arg(long, value_name = "DURATION", value_parser = values::delay)]
    pub(crate) timeout: Option<Delay>,
    /// The length of a lease, which is extended while the command runs: how long a job waits if this
    /// process dies
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::delay)]
    pub(crate) lease: Delay,
    /// When a job is tried again whose command exits with 75
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = values::delay)]
    pub(crate) retry_delay: Delay,
    /// What becomes the result of a job, at most 64 KiB
    #[arg(long, value_name = "FROM", value_enum)]
    pub(crate) result: Option<ResultFrom>,
    /// The name of this worker, which jobs show
    #[arg(long, value_name = "NAME")]
    pub(crate) worker: Option<String>,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
