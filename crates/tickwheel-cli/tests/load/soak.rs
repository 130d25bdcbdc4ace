//! Runs many clients at once, and then processes the remaining jobs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::account::Account;
use crate::client::{Client, Shared};
use crate::rig::{PATIENCE, Server};

pub(crate) fn run(clients: u64, seconds: u64) -> Result<(), String> {
    let mut server = Server::start_with(&["--access-log", "errors"]);
    let shared =
        Shared { account: Account::default(), stop: AtomicBool::new(false), may_be_cut_off: false };
    let start = Instant::now();
    let slowest = std::thread::scope(|scope| {
        let hands: Vec<_> = (0..clients)
            .map(|number| {
                let (shared, url) = (&shared, &*server.url);
                scope.spawn(move || {
                    let client = Client::new(shared, url, number + 1);
                    // A client that fails has recorded an error in the accounts.
                    let _ = if number % 4 == 0 { client.produce() } else { client.work() };
                    client.slowest.get()
                })
            })
            .collect();
        std::thread::sleep(Duration::from_secs(seconds));
        shared.stop.store(true, Ordering::Relaxed);
        hands.into_iter().map(|hand| hand.join().expect("no panic")).max().unwrap_or_default()
    });
    let under_load = start.elapsed();

    std::thread::scope(|scope| {
        for number in 0..clients.min(32) {
            let (shared, url) = (&shared, &*server.url);
            scope.spawn(move || {
                let _ = Client::new(shared, url, clients + number + 1).work_off(PATIENCE * 5);
            });
        }
    });
    shared.account.check_all_gone();
    server.signal("TERM");
    let status = server.wait();
    println!(
        "soak: {clients} clients for {:.1} s: {}; the slowest answer took {:.0} ms",
        under_load.as_secs_f64(),
        shared.account.summary(),
        slowest.as_secs_f64() * 1e3,
    );
    shared.account.verdict().map_err(|why| format!("{why}\n{}", server.log_tail()))?;
    if !status.success() {
        return Err(format!("the server ended with {status}:\n{}", server.log_tail()));
    }
    let done = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    if done(&shared.account.puts) < clients || done(&shared.account.acks) == 0 {
        return Err("the load did next to nothing: this test proves nothing".to_owned());
    }
    Ok(())
}
