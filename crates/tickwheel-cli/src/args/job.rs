//! The commands about jobs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::value::RawValue;
use tickwheel_api::{
    Conflict, Delay, FinishedState, JobId, JobState, LeaseToken, Retry, Timestamp,
};

use super::values;
use super::values::IdArg;

/// A job, by its id or by its key.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The id of the job, whole or short; or its queue, if a key follows
    #[arg(value_name = "ID|QUEUE")]
    pub(crate) job: String,
    /// The key of the job in that queue
    pub(crate) key: Option<String>,
}

/// When a job is due: after a delay or at a time.
#[derive(Debug, Args)]
pub(crate) struct WhenArgs {
    /// Due after this delay: 250ms, 30s, 30m, 1h30m, 7d
    #[arg(long, short, allow_negative_numbers = true, value_parser = values::delay)]
    pub(crate) delay: Option<Delay>,
    /// Due at this time: 2026-12-24T18:00:00Z, 2026-12-24 18:00 (local time), or milliseconds since
    /// 1970
    #[arg(long, value_name = "TIME", conflicts_with = "delay", value_parser = values::time)]
    pub(crate) at: Option<Timestamp>,
}

/// What a job carries.
#[derive(Debug, Args)]
pub(crate) struct PayloadArgs {
    /// What the job carries; `-` reads it from standard input
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub(crate) payload: Option<String>,
    /// Read the payload from this file
    #[arg(long, short)]
    pub(crate) file: Option<PathBuf>,
    /// What the payload is
    #[arg(long = "as", value_name = "KIND", value_enum, default_value_t)]
    pub(crate) kind: PayloadKind,
}

/// How a payload is sent and stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PayloadKind {
    /// JSON if it reads as JSON, else text if it is UTF-8, else bytes
    #[default]
    Auto,
    /// JSON; refused if it is not
    Json,
    /// Text; refused if it is not UTF-8
    Text,
    /// Bytes, whatever they are
    Bytes,
}

/// What a job can have beside its payload and its time.
#[derive(Clone, Debug, Args)]
pub(crate) struct JobOptions {
    /// Of two jobs due in the same millisecond the higher is delivered first: -128 to 127
    #[arg(long, short, allow_negative_numbers = true)]
    pub(crate) priority: Option<i8>,
    /// A header that is delivered with the job; may be repeated
    #[arg(long = "header", short = 'H', value_name = "NAME=VALUE", value_parser = values::header)]
    pub(crate) headers: Vec<(String, String)>,
    /// The maximum number of attempts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_attempts: Option<u32>,
    /// The delay before each retry: 10s, 1s..1h (doubling) or 1s,10s,1m (one by one)
    #[arg(long, value_name = "DELAYS", value_parser = values::retry)]
    pub(crate) retry: Option<Retry>,
    /// The group of the job, whose jobs share the queue's limits for groups
    #[arg(long)]
    pub(crate) group: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel put orders '{\"close\":42}' --delay 30m --key order-42
  tickwheel put mail 'Merry Christmas' --at 2026-12-24T18:00:00Z
  tickwheel put images --file cat.jpg --header type=image/jpeg
  tickwheel put mail --lines < jobs.txt              one job from each line
  tickwheel put mail --jsonl < jobs.jsonl            lines like {\"text\":\"hi\",\"delay\":\"5m\"}
  echo hello | tickwheel put mail -

If a live job of the queue has the key, the new one takes its place, unless --on-conflict says
otherwise.")]
#[command(mut_arg("payload", |payload| payload.required_unless_present_any(["lines", "jsonl"])))]
pub(crate) struct PutArgs {
    /// The queue; its first job creates it
    pub(crate) queue: String,
    #[command(flatten)]
    pub(crate) payload: PayloadArgs,
    /// Put each line of the payload, or else of standard input, as a job of its own
    #[arg(long, conflicts_with_all = ["key", "id"])]
    pub(crate) lines: bool,
    /// Put each line of the payload, or else of standard input, as a job of its own: a JSON object
    /// with the fields of the API, such as `payload`, `delay`, `key` and `headers`
    #[arg(long, conflicts_with_all = ["key", "id", "lines", "kind"])]
    pub(crate) jsonl: bool,
    #[command(flatten)]
    pub(crate) when: WhenArgs,
    /// The push target that gets the job, through the queue QUEUE.TARGET
    #[arg(long)]
    pub(crate) target: Option<String>,
    /// A name of yours, unique among the live jobs of the queue
    #[arg(long, short)]
    pub(crate) key: Option<String>,
    /// What to do if a live job has the key [default: replace]
    #[arg(long, value_name = "WHAT", requires = "key", value_parser = values::conflict())]
    pub(crate) on_conflict: Option<Conflict>,
    /// The longest time by which puts that replace each other can postpone the job
    #[arg(long, value_name = "DELAY", requires = "key")]
    pub(crate) max_total_delay: Option<Delay>,
    /// Put a job in this queue when the job is acknowledged, with the result as payload
    #[arg(long, value_name = "QUEUE")]
    pub(crate) on_success: Option<String>,
    /// Put a job in this queue when the job dies, with the same payload
    #[arg(long, value_name = "QUEUE")]
    pub(crate) on_death: Option<String>,
    #[command(flatten)]
    pub(crate) options: JobOptions,
    /// The id of the job, a UUID; defaults to a new one
    #[arg(long)]
    pub(crate) id: Option<JobId>,
    /// Makes the command safe to repeat: within a day the same key puts one job
    #[arg(long, value_name = "KEY", conflicts_with_all = ["lines", "jsonl"])]
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel get 01890a5d-ac96-774b-bcce-b302099a8057
  tickwheel get 01890a5dac96..9a8057                 by a short id, as `ls` shows it
  tickwheel get 01890a5d                             by the first digits, if they are unambiguous
  tickwheel get orders order-42                      by queue and key, also if it is finished
  tickwheel get orders order-42 --payload > order.json")]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print the payload and nothing else, byte by byte
    #[arg(long, conflicts_with = "json")]
    pub(crate) payload: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel ls                                       the queues
  tickwheel ls orders
  tickwheel ls orders --state dead
  tickwheel ls orders --error refused                jobs whose last error contains this
  tickwheel ls orders --by error                     how many jobs failed, and why
  tickwheel ls --by error                            the same for all queues
  tickwheel ls orders --key order-42                 finished jobs with this key, too
  tickwheel ls orders --due-to 2026-12-25T00:00:00Z --key-prefix order- --all")]
pub(crate) struct LsArgs {
    /// The queue
    pub(crate) queue: Option<String>,
    /// Only jobs in this state
    #[arg(long, short, requires = "queue", value_parser = values::state())]
    pub(crate) state: Option<JobState>,
    /// Only jobs due at this time or later
    #[arg(long, value_name = "TIME", requires = "queue", value_parser = values::time)]
    pub(crate) due_from: Option<Timestamp>,
    /// Only jobs due at this time or earlier
    #[arg(long, value_name = "TIME", requires = "queue", value_parser = values::time)]
    pub(crate) due_to: Option<Timestamp>,
    /// Only jobs whose key begins with this
    #[arg(long, value_name = "TEXT", requires = "queue")]
    pub(crate) key_prefix: Option<String>,
    /// Only jobs with this key, finished ones included
    #[arg(long, value_name = "KEY", requires = "queue")]
    pub(crate) key: Option<String>,
    /// Only jobs whose last error contains this text, in any case of letters
    #[arg(long, value_name = "TEXT", requires = "queue")]
    pub(crate) error: Option<String>,
    /// Only jobs whose error belongs to this group, as `--by error` prints it
    #[arg(long, value_name = "TEXT", requires = "queue")]
    pub(crate) error_group: Option<String>,
    /// Group the jobs that failed by their error, with `#` for numbers and ids
    #[arg(long, value_name = "WHAT", conflicts_with_all = [
        "state", "due_from", "due_to", "key_prefix", "key", "error", "error_group", "page", "all"])]
    pub(crate) by: Option<GroupBy>,
    /// How many at once
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// The page to list: `next` of the answer before
    #[arg(long, value_name = "TOKEN", requires = "queue")]
    pub(crate) page: Option<String>,
    /// List all pages
    #[arg(long, requires = "queue")]
    pub(crate) all: bool,
}

/// What `ls` groups jobs by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum GroupBy {
    /// The error of the last attempt
    Error,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel cancel 01890a5d-ac96-774b-bcce-b302099a8057
  tickwheel cancel orders order-42                   by queue and key")]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("when").args(["delay", "at"]).required(true),
    after_help = "\
Examples:
  tickwheel reschedule orders order-42 --delay 10m
  tickwheel reschedule 01890a5d-ac96-774b-bcce-b302099a8057 --at 2026-12-24T18:00:00Z"
)]
pub(crate) struct RescheduleArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) when: WhenArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel reserve mail                             one job, if one is ready
  tickwheel reserve mail --limit 10 --lease 5m --wait 20s
  tickwheel reserve mail --json | jq -r '.deliveries[] | .job.id + \" \" + .token'

Each job comes with a token for `ack`, `fail`, `extend` and `release`. If none of them is called
before the lease ends, the job is delivered again. It is not an error if no job is ready.")]
pub(crate) struct ReserveArgs {
    /// The queue
    pub(crate) queue: String,
    /// The maximum number of jobs
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// The duration of the lease; defaults to the queue's setting
    #[arg(long, short, value_name = "DURATION", value_parser = values::delay)]
    pub(crate) lease: Option<Delay>,
    /// Wait this long for a job to become ready
    #[arg(long, short, value_name = "DURATION", value_parser = values::delay)]
    pub(crate) wait: Option<Delay>,
    /// Your name, which `get` shows with the job and its attempts
    #[arg(long, value_name = "NAME")]
    pub(crate) worker: Option<String>,
}

/// A delivery: what `reserve` printed.
#[derive(Debug, Args)]
pub(crate) struct DeliveryArgs {
    /// The id of the job, whole or short
    #[arg(value_parser = values::id)]
    pub(crate) id: IdArg,
    /// The token of the delivery, as `reserve` printed it
    #[arg(value_name = "TOKEN")]
    pub(crate) lease_token: LeaseToken,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  tickwheel ack 01890a5d-ac96-774b-bcce-b302099a8057 6ce1b7f0a2d4c985")]
pub(crate) struct AckArgs {
    #[command(flatten)]
    pub(crate) delivery: DeliveryArgs,
    /// The result of the job, as JSON
    #[arg(long, value_name = "JSON", value_parser = values::json)]
    pub(crate) result: Option<Box<RawValue>>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel fail ID TOKEN --error 'no such address'  tried again as the queue's retry policy says
  tickwheel fail ID TOKEN --delay 5m                 tried again in five minutes
  tickwheel fail ID TOKEN --dead                     not tried again")]
pub(crate) struct FailArgs {
    #[command(flatten)]
    pub(crate) delivery: DeliveryArgs,
    /// What went wrong; kept with the job
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// Retry after this delay, if an attempt is left
    #[arg(long, short, value_parser = values::delay)]
    pub(crate) delay: Option<Delay>,
    /// Do not try again: the job is dead
    #[arg(long, conflicts_with = "delay")]
    pub(crate) dead: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  tickwheel extend ID TOKEN --lease 5m               five more minutes from now")]
pub(crate) struct ExtendArgs {
    #[command(flatten)]
    pub(crate) delivery: DeliveryArgs,
    /// How long from now
    #[arg(long, short, value_name = "DURATION", value_parser = values::delay)]
    pub(crate) lease: Delay,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel release ID TOKEN                         ready again at once, in its old place
  tickwheel release ID TOKEN --delay 1m")]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) delivery: DeliveryArgs,
    /// Ready again after this delay
    #[arg(long, short, value_parser = values::delay)]
    pub(crate) delay: Option<Delay>,
}

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("which").args(["id", "queue"]).required(true),
    after_help = "\
Examples:
  tickwheel kick 01890a5d-ac96-774b-bcce-b302099a8057
  tickwheel kick --queue orders                      all dead jobs, the oldest first
  tickwheel kick --queue orders --limit 100
  tickwheel kick --queue orders --error refused --dry-run
  tickwheel kick --queue orders --error-group 'timeout after # s'"
)]
pub(crate) struct KickArgs {
    /// The id of a dead job, whole or short
    #[arg(value_parser = values::dead_job)]
    pub(crate) id: Option<IdArg>,
    /// The dead jobs of this queue
    #[arg(long, short)]
    pub(crate) queue: Option<String>,
    /// The maximum number of jobs
    #[arg(long, short = 'n', value_name = "N", requires = "queue",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Only jobs whose error contains this text, in any case of letters
    #[arg(long, value_name = "TEXT", requires = "queue")]
    pub(crate) error: Option<String>,
    /// Only jobs whose error belongs to this group, as `ls --by error` prints it
    #[arg(long, value_name = "TEXT", requires = "queue")]
    pub(crate) error_group: Option<String>,
    /// Print how many jobs that are, and change nothing
    #[arg(long, requires = "queue")]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel remove-finished orders --state dead      asks before it removes them
  tickwheel remove-finished orders --state done --older-than 7d --yes")]
pub(crate) struct RemoveFinishedArgs {
    /// The queue
    pub(crate) queue: String,
    /// Which ones
    #[arg(long, short, value_parser = values::finished_state())]
    pub(crate) state: FinishedState,
    /// Only those that finished longer ago than this
    #[arg(long, value_name = "DURATION", value_parser = values::delay)]
    pub(crate) older_than: Option<Delay>,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel cancel-waiting orders                    asks before it does it
  tickwheel cancel-waiting orders --yes

Jobs that a worker has are not touched.")]
pub(crate) struct CancelWaitingArgs {
    /// The queue
    pub(crate) queue: String,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel watch                                    all queues
  tickwheel watch orders --json | jq .               one document on each line
  tickwheel watch orders --since 1842-0-5f0c1d9e     what came after that event, then live
  tickwheel watch --count 10                         the next ten events
  tickwheel watch orders --event failed,dead         what goes wrong, and why
  tickwheel watch --key order-42 --error refused

If the connection is lost it is made again, and nothing is missed as long as the server still has
the events in between; otherwise a line says so.")]
pub(crate) struct WatchArgs {
    /// The queue; defaults to all queues
    pub(crate) queue: Option<String>,
    /// The same as an option
    #[arg(long = "queue", value_name = "QUEUE", conflicts_with = "queue")]
    pub(crate) queue_option: Option<String>,
    /// Only these events, such as failed,dead
    #[arg(long, value_name = "NAMES")]
    pub(crate) event: Option<String>,
    /// Only events after which the job is in this state
    #[arg(long, short, value_parser = values::state())]
    pub(crate) state: Option<JobState>,
    /// Only events of jobs with this key
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Only events of jobs whose key begins with this
    #[arg(long, value_name = "TEXT")]
    pub(crate) key_prefix: Option<String>,
    /// Only failures whose error contains this text, in any case of letters
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// Begin after this event instead of now
    #[arg(long, value_name = "EVENT")]
    pub(crate) since: Option<String>,
    /// End after this many events
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel stats
  tickwheel stats --since 5m                         the last five minutes, with rates
  tickwheel stats --json | jq .")]
pub(crate) struct StatsArgs {
    /// Show what happened in a window of this length up to now, from 10s to 1h
    #[arg(long, value_name = "DURATION", value_parser = values::delay)]
    pub(crate) since: Option<Delay>,
}
