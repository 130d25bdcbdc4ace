//! The crash test: every acknowledged operation survives a kill of the process.
//!
//! A child process uses a queue with several threads. Each thread logs the operations that it
//! begins and the answers that it gets. The parent kills the child at a random moment, opens the
//! queue, and compares it with the logs: no acknowledged put is lost, no cancelled or acknowledged
//! job is delivered again, no job is delivered early or twice within a lease, keys are unique,
//! each occurrence of a schedule has exactly one job, and a repeated put with an idempotency key
//! puts no second one. The same test runs in one process, on a disk that fails writes and syncs and
//! loses unsynced data.
//!
//! ```sh
//! cargo test -p tickwheel-queue --test crash -- --rounds 200
//! ```

mod account;
mod load;
mod log;

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use account::Account;
use load::Load;
use log::Log;
use tickwheel::ManualClock;
use tickwheel_queue::Queues;
use tickwheel_queue::store::MemoryDisk;

const ROUNDS: u64 = 20;
/// The number of interrupted creations for each round of the other tests.
const CREATIONS: u64 = 3;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [child, folder, round] = args.as_slice()
        && child == "child"
    {
        work_until_killed(Path::new(folder), round.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    let rounds = match rounds(&args) {
        Ok(rounds) => rounds,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    };
    let start = Instant::now();
    let folder = tempfile::tempdir().expect("a folder");
    let outcome = creation_rounds(folder.path(), rounds)
        .and_then(|()| kill_rounds(folder.path(), rounds))
        .and_then(|()| fault_rounds(rounds));
    match outcome {
        Ok(()) => {
            println!("crash: {rounds} rounds of each kind in {:.1?}", start.elapsed());
            ExitCode::SUCCESS
        }
        Err(why) => {
            let kept = folder.keep();
            eprintln!("error: {why}\nthe queue and its accounts are in {}", kept.display());
            ExitCode::FAILURE
        }
    }
}

/// Returns the number after `--rounds`. Other arguments of a test program are ignored.
fn rounds(args: &[String]) -> Result<u64, String> {
    match args.iter().position(|arg| arg == "--rounds") {
        None => Ok(ROUNDS),
        Some(place) => {
            let number = args.get(place + 1).and_then(|number| number.parse().ok());
            number.ok_or_else(|| "`--rounds` wants a number".to_owned())
        }
    }
}

/// Returns a random number.
fn chance(below: u64) -> u64 {
    let id = tickwheel_queue::JobId::new(tickwheel_queue::Time::default());
    u64::from_be_bytes(id.as_bytes()[8..].try_into().expect("eight bytes")) % below
}

fn logs(folder: &Path) -> PathBuf {
    folder.join("accounts")
}

/// The lines that a child prints before and after it opens its queue.
const BEGINS: &str = "begins";
const IS_OPEN: &str = "is open";

fn work_until_killed(folder: &Path, round: u64) {
    println!("{BEGINS}");
    let queues = Queues::open(folder.join("queue")).expect("the queue opens");
    println!("{IS_OPEN}");
    let load = Load::new(queues, round);
    load.run(|thread| Log::file(&logs(folder), round, thread));
}

/// A child process that uses a queue.
struct Worker {
    child: Child,
    says: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(folder: &Path, round: u64) -> Result<Self, String> {
        std::fs::create_dir_all(logs(folder)).map_err(|error| error.to_string())?;
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = Command::new(this)
            .arg("child")
            .arg(folder)
            .arg(round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the child does not start: {error}"))?;
        let stdout = child.stdout.take().ok_or("the child has no output")?;
        Ok(Self { child, says: BufReader::new(stdout).lines() })
    }

    /// Waits until the child prints this line, without a time limit, because a busy machine may
    /// start it late.
    fn wait_for(&mut self, text: &str) -> Result<(), String> {
        match self.says.find(|line| line.as_ref().is_ok_and(|line| line == text)) {
            Some(_) => Ok(()),
            None => Err(format!("the child ended before it said {text:?}")),
        }
    }

    fn kill(mut self) -> Result<(), String> {
        self.child.kill().map_err(|error| format!("the child cannot be killed: {error}"))?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        match status.code() {
            Some(_) => Err(format!("the child ended by itself: {status}")),
            None => Ok(()),
        }
    }
}

/// Sets a clock that stands still, so that nothing becomes due while the queue is compared with the
/// logs.
fn still(builder: tickwheel_queue::Builder) -> tickwheel_queue::Builder {
    let clock = ManualClock::new();
    clock.set_wall(SystemTime::now());
    builder.clock(clock)
}

/// Kills a child while it creates the directory; opening the directory must then succeed. The kills
/// are spread over the time that a creation takes.
fn creation_rounds(folder: &Path, rounds: u64) -> Result<(), String> {
    let rounds = rounds * CREATIONS;
    let mut duration = Duration::ZERO;
    for round in 0..rounds {
        let folder = folder.join(format!("new-{round}"));
        let mut worker = Worker::start(&folder, round)?;
        worker.wait_for(BEGINS)?;
        let start = Instant::now();
        if round == 0 {
            worker.wait_for(IS_OPEN)?;
            duration = start.elapsed();
        } else {
            std::thread::sleep(duration.mul_f64(round as f64 / rounds as f64));
        }
        worker.kill().map_err(|why| format!("round {round}: {why}"))?;
        let mut account = Account::default();
        account.add(log::read(&logs(&folder), round)?);
        let queues = still(Queues::builder())
            .open(folder.join("queue"))
            .map_err(|error| format!("killed during creation, round {round}: {error}"))?;
        account.check(&queues)?;
        drop(queues);
        std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    println!("killed {rounds} times during a creation of {duration:.1?}");
    Ok(())
}

fn kill_rounds(folder: &Path, rounds: u64) -> Result<(), String> {
    let mut account = Account::default();
    for round in 0..rounds {
        let mut worker = Worker::start(folder, round)?;
        worker.wait_for(IS_OPEN)?;
        std::thread::sleep(Duration::from_millis(30 + chance(250)));
        worker.kill().map_err(|why| format!("round {round}: {why}"))?;
        account.add(log::read(&logs(folder), round)?);
        let queues = still(Queues::builder())
            .open(folder.join("queue"))
            .map_err(|error| format!("round {round}: {error}"))?;
        account.check(&queues).map_err(|why| format!("round {round}: {why}"))?;
    }
    account.report("killed", rounds)
}

/// Runs the same test on a disk that fails.
fn fault_rounds(rounds: u64) -> Result<(), String> {
    let disk = MemoryDisk::new();
    let mut account = Account::default();
    for round in 0..rounds {
        let open = |builder: tickwheel_queue::Builder| {
            builder.open_disk(disk.clone()).map_err(|error| error.to_string())
        };
        let load = Load::new(open(Queues::builder())?, round);
        let log = Log::shared();
        let stop = load.stop.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| load.run(|_| log.clone()));
            std::thread::sleep(Duration::from_millis(10 + chance(40)));
            match round % 3 {
                0 => disk.crash(),
                1 => disk.fail_syncs(true),
                _ => disk.fail_commits_after(Some(chance(20))),
            }
            // A worker that waits for jobs does not notice the failure until it is stopped.
            std::thread::sleep(Duration::from_millis(10));
            stop.store(true, Ordering::Relaxed);
        });
        disk.crash();
        drop(load);
        disk.fail_syncs(false);
        disk.fail_commits_after(None);
        account.add(log.take());
        let queues = open(still(Queues::builder()))?;
        account.check(&queues).map_err(|why| format!("faults, round {round}: {why}"))?;
    }
    account.report("failed", rounds)
}
