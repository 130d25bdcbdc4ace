//! Tickwheel side by side with its peers: one program, one subcommand a subject.
//!
//! Ground rules, whatever is measured:
//!
//! * Every system gets exactly the same work, generated from a fixed seed before the clock starts.
//! * Every run is a fresh process, so no system inherits the heap that another one left behind.
//! * Systems take turns; a figure is the median over the rounds.
//! * What a run did is summed up and compared between systems. A difference is an error.

mod r#async;
mod install;
mod lateness;
mod machine;
mod memory;
mod meter;
mod names;
mod pace;
mod process;
mod push;
mod queue;
mod report;
mod scratch;
mod server;
mod stopwatch;
mod timer;
mod wheel;
mod work;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tickwheel side by side with its peers.
#[derive(Parser)]
#[command(
    name = "tickwheel-bench",
    bin_name = "cargo xtask bench",
    version,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// The two timing wheels against DelayQueue, BinaryHeap, BTreeMap and another wheel
    Wheel(wheel::Options),
    /// The timer against Netty, the JDK, Go, tokio and async-io
    Timer(timer::Options),
    /// Sleep, timeout, interval and delay queue against tokio, async-io and futures-timer
    Async(r#async::Options),
    /// Pacing for a million keys, and the check alone against governor
    Pace(pace::Options),
    /// The durable queue against Redis, PostgreSQL and beanstalkd
    Queue(queue::Options),
    /// The service against the queue in it and against Redis, PostgreSQL and beanstalkd
    Server(server::Options),
    /// Push delivery: its speed, its cost beside a worker, and the rates of many targets
    Push(push::Options),
    /// One run of one system in this process, its outcome as JSON on standard output
    #[command(hide = true)]
    WheelRun(wheel::Run),
    /// The same for a timer
    #[command(hide = true)]
    TimerRun(timer::Run),
    /// The same for futures
    #[command(hide = true)]
    AsyncRun(r#async::Run),
    /// The same for pacing
    #[command(hide = true)]
    PaceRun(pace::Run),
    /// The same for a queue, its server included
    #[command(hide = true)]
    QueueRun(queue::Run),
    /// The same for the service
    #[command(hide = true)]
    ServerRun(server::Run),
    /// The target of push deliveries
    #[command(hide = true)]
    PushTarget(push::Run),
}

fn main() -> ExitCode {
    let done = match Cli::parse().subject {
        Subject::Wheel(options) => wheel::compare(&options),
        Subject::Timer(options) => timer::compare(&options),
        Subject::Async(options) => r#async::compare(&options),
        Subject::Pace(options) => pace::compare(&options),
        Subject::Queue(options) => queue::compare(&options),
        Subject::Server(options) => server::compare(&options),
        Subject::Push(options) => push::compare(&options),
        Subject::PushTarget(run) => run.execute(),
        Subject::WheelRun(run) => run.execute(),
        Subject::TimerRun(run) => run.execute(),
        Subject::AsyncRun(run) => run.execute(),
        Subject::PaceRun(run) => run.execute(),
        Subject::QueueRun(run) => run.execute(),
        Subject::ServerRun(run) => run.execute(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
