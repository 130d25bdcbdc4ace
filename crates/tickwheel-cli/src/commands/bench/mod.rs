//! `bench`: open-loop load against a running server.
//!
//! Ground rules: the time of each request follows from its number and the rate alone, and its
//! latency counts from that time. A thread that is late sends at once and does not shift the
//! requests after it (no coordinated omission). Every connection is a thread with a client of its
//! own. The load goes into a queue that the command removes, also after Ctrl-C.
//!
//! | file | what it holds |
//! |---|---|
//! | `plan` | which request is due when, and what it carries |
//! | `load` | the threads that put, reserve and acknowledge |
//! | `record` | histograms and errors |
//! | `report` | the table and the document |

mod load;
mod plan;
mod record;
mod report;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tickwheel_api::{Batch, Clock, JobId, JobItem, Queue};

use self::load::Load;
use self::plan::Plan;
use crate::args::{BenchArgs, BenchMode, Connection};
use crate::client::{Client, Path};
use crate::failure::Failure;
use crate::output::{Output, text};

/// How often the clocks are compared; the fastest answer counts.
const CLOCK_PROBES: usize = 5;
/// Jobs that are cancelled with one request.
const CANCEL_BATCH: usize = 1_000;

pub(crate) fn run(
    output: &Output,
    args: &BenchArgs,
    connection: Connection,
) -> Result<(), Failure> {
    let url = args.server.clone().unwrap_or_else(|| connection.url.clone());
    let connection = Connection { url, ..connection };
    let client = Client::new(&connection)?;
    let offset = clock_offset(&client, args.mode)?;
    let name = args.queue.clone().unwrap_or_else(own_name);
    let existed = check_queue(&client, &name, args)?;
    let plan = Plan::new(args, name)?;
    let is_stopped = Arc::new(AtomicBool::new(false));
    stop_on_ctrl_c(&is_stopped);
    let load = Load::new(plan, offset, existed, is_stopped.clone());
    output.remark(&format!(
        "putting {} into queue {:?} of {}",
        text::count(load.plan.jobs(), "job"),
        text::safe(&load.plan.queue),
        client.base()
    ));
    let result = load.run(&connection, output);
    output.end_progress();
    let cleaned = clean_up(&client, &load, existed);
    let record = result?;
    if is_stopped.load(Ordering::Relaxed) {
        output.remark("stopped before the end");
    }
    report::show(output, client.base(), args, &load.plan, &record)?;
    cleaned?;
    match record.errors() {
        0 => Ok(()),
        failed => Err(Failure::Other(format!("{} failed", text::count(failed, "job")))),
    }
}

fn own_name() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("tickwheel-bench-{}-{}", now.as_millis(), std::process::id())
}

/// Refuses to send load to a queue that is in use. Returns `true` if the queue exists.
fn check_queue(client: &Client, name: &str, args: &BenchArgs) -> Result<bool, Failure> {
    let queue = match client.get(&Path::new(&["queues", name])) {
        Ok(answer) => answer.read::<Queue>()?,
        Err(failure) if failure.is_not_found() => return Ok(false),
        Err(failure) => return Err(failure),
    };
    let shown = text::safe(name);
    if !args.yes {
        return Err(Failure::Usage(format!(
            "queue {shown:?} exists: leave --queue out to use a new one, or repeat it with --yes"
        )));
    }
    let jobs = queue.jobs.scheduled + queue.jobs.ready + queue.jobs.leased;
    if args.mode == BenchMode::EndToEnd && jobs > 0 {
        return Err(Failure::Usage(format!(
            "queue {shown:?} has {}, which the workers of the mode end-to-end would acknowledge: \
             use another queue",
            text::count(jobs, "pending job")
        )));
    }
    Ok(true)
}

/// The clock of the server minus that of this machine, in microseconds.
#[derive(Clone, Copy, Debug)]
struct ClockOffset {
    micros: i64,
    /// By how much the offset can be wrong.
    error: i64,
}

fn wall_micros() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

fn clock_offset(client: &Client, mode: BenchMode) -> Result<ClockOffset, Failure> {
    let mut best: Option<ClockOffset> = None;
    for _ in 0..CLOCK_PROBES {
        let before = wall_micros();
        let clock: Clock = client.get(&Path::new(&["clock"]))?.read()?;
        let round_trip = wall_micros() - before;
        if clock.manual && mode == BenchMode::EndToEnd {
            return Err(Failure::Usage(
                "the clock of the server is manual: no job becomes due by itself, so take the mode \
                 put"
                    .to_owned(),
            ));
        }
        let server = i64::try_from(clock.now_ms).unwrap_or(i64::MAX / 1_000) * 1_000;
        // The clock shows whole milliseconds.
        let error = round_trip / 2 + 1_000;
        let micros = server + 500 - (before + round_trip / 2);
        if best.is_none_or(|best| error < best.error) {
            best = Some(ClockOffset { micros, error });
        }
    }
    let best = best.unwrap_or(ClockOffset { micros: 0, error: 0 });
    // Clocks that agree as well as can be measured are taken for the same.
    let micros = if best.micros.abs() <= best.error { 0 } else { best.micros };
    Ok(ClockOffset { micros, ..best })
}

/// Notes Ctrl-C; a second one ends the process.
fn stop_on_ctrl_c(is_stopped: &Arc<AtomicBool>) {
    let is_stopped = Arc::clone(is_stopped);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if is_stopped.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
            }
        });
    });
}

/// Removes the queue, or the jobs that were put into one that existed.
fn clean_up(client: &Client, load: &Load, existed: bool) -> Result<(), Failure> {
    let path = Path::new(&["queues", &load.plan.queue]);
    if !existed {
        return match client.delete(&path.query("force", "true")) {
            Err(failure) if !failure.is_not_found() => Err(failure),
            _ => Ok(()),
        };
    }
    let ids: Vec<JobId> = load.put_ids();
    for ids in ids.chunks(CANCEL_BATCH) {
        let items = ids.iter().map(|id| JobItem { id: *id }).collect();
        // Those that are acknowledged are refused one by one, which is no failure.
        client.post(&Path::new(&["jobs", "batch", "cancel"]), &Batch { items })?;
    }
    Ok(())
}

/// Sleeps until a moment, in steps, so that Ctrl-C is noticed. Returns `false` if it was.
fn sleep_until(moment: Instant, is_stopped: &AtomicBool) -> bool {
    const STEP: Duration = Duration::from_millis(100);
    loop {
        if is_stopped.load(Ordering::Relaxed) {
            return false;
        }
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STEP));
    }
}
