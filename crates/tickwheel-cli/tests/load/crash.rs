//! Kills the server while clients use it, and compares the remaining jobs with the accounts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::account::Account;
use crate::client::{Client, Shared, now};
use crate::rig::Server;

const PRODUCERS: u64 = 4;
const WORKERS: u64 = 3;

pub(crate) fn run(rounds: u64) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut shared =
        Shared { account: Account::default(), stop: AtomicBool::new(false), may_be_cut_off: true };
    for round in 0..rounds {
        let server = Server::start_on(folder.path());
        // Compares the jobs that survived the last crash, before clients use the server.
        check(&shared, &server).map_err(|why| format!("round {round}: {why}"))?;
        load_and_kill(&shared, server, round);
    }
    let mut server = Server::start_on(folder.path());
    shared.may_be_cut_off = false;
    check(&shared, &server).map_err(|why| format!("after {rounds} rounds: {why}"))?;
    server.signal("TERM");
    server.wait();
    println!("crash: killed {rounds} times: {}", shared.account.summary());
    let done = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let account = &shared.account;
    if [&account.puts, &account.acks, &account.cancels, &account.cut_off].map(done).contains(&0) {
        return Err("the load did next to nothing: this test proves nothing".to_owned());
    }
    Ok(())
}

fn load_and_kill(shared: &Shared, mut server: Server, round: u64) {
    shared.stop.store(false, Ordering::Relaxed);
    let url = server.url.clone();
    std::thread::scope(|scope| {
        for number in 0..PRODUCERS + WORKERS {
            let url = &*url;
            scope.spawn(move || {
                let client = Client::new(shared, url, (round << 8) + number + 1);
                // The client ends when the server is killed.
                let _ = if number < PRODUCERS { client.produce() } else { client.work() };
            });
        }
        std::thread::sleep(Duration::from_millis(200 + now() % 500));
        server.signal("KILL");
        server.wait();
        shared.stop.store(true, Ordering::Relaxed);
    });
}

fn check(shared: &Shared, server: &Server) -> Result<(), String> {
    let client = Client::new(shared, &server.url, 0);
    let no_answer = |_| format!("no answer:\n{}", server.log_tail());
    let found = client.everything().map_err(no_answer)?;
    // A lease that expires between two pages moves its job to the part of the list that was already
    // read. Such a job is read by its id.
    for id in shared.account.check(&found) {
        let (status, answer) = client.get(&format!("/jobs/{id}")).map_err(no_answer)?;
        if status != 200 {
            shared.account.error(format!("{id} was put and is lost: {answer}"));
        }
    }
    shared.account.verdict().map_err(|why| format!("{why}\n{}", server.log_tail()))
}
