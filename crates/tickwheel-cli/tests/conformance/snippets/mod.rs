//! The Rust programs of `docs/clients` and of the client's README: each code block is one of these
//! files, to the letter, and the tests run them against the real binary.

#![allow(unreachable_pub, reason = "the programs are written as in a crate of the user's")]

mod closer;
mod handle;
mod put;
mod shop;
mod tests;
mod time;
mod webhook;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tickwheel_client::testing::Server;
use tickwheel_client::{Client, NewJob};
use tokio::signal::unix::SignalKind;

#[test]
fn every_code_block_is_one_of_these_files() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/snippets");
    let read = |path: &Path| fs::read_to_string(path).expect("a readable file");
    let files: BTreeSet<String> = fs::read_dir(tests)
        .expect("the folder of this file")
        .map(|file| file.expect("readable").path())
        .filter(|path| path.file_name().is_some_and(|name| name != "mod.rs"))
        .map(|path| read(&path))
        .collect();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/clients");
    let mut blocks = BTreeSet::new();
    for (page, opening) in [
        ("README.md", "```rust\n"),
        ("rust.md", "```rust\n"),
        ("../../crates/tickwheel-client/README.md", "```rust,no_run\n"),
    ] {
        for block in read(&docs.join(page)).split(opening).skip(1) {
            blocks.insert(block.split("```").next().unwrap_or_default().to_owned());
        }
    }
    assert_eq!(blocks, files);
}

/// The program of the README: its `main` is private.
mod readme {
    include!("readme.rs");

    pub(super) fn run() -> Result<(), tickwheel_client::Error> {
        main()
    }
}

/// Starts the binary of this build.
fn server() -> Server {
    Server::builder().binary(env!("CARGO_BIN_EXE_tickwheel")).start().expect("a server")
}

#[tokio::test]
async fn the_producers_run() {
    let server = server();
    shop::run(server.url()).await.expect("the order is placed and paid");
    put::put_and_cancel(server.url()).await.expect("the order is placed and paid");
    let queue = server.client().expect("a client").queue("orders").await.expect("the queue");
    assert_eq!(queue.counters.put, 2);
    assert_eq!(queue.counters.cancelled, 2);
}

/// Waits until the queue has acknowledged this many jobs.
async fn acknowledged(client: Client, count: u64) {
    while client.queue("orders").await.expect("the queue").counters.acked < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_workers_run() {
    let server = server();
    let client = server.client().expect("a client");
    let order = || NewJob::json("orders", &42).expect("JSON");
    client.put(order()).await.expect("a job");
    closer::run(server.url(), acknowledged(client.clone(), 1)).await.expect("the worker");
    client.put(order()).await.expect("a job");
    handle::work(server.url(), acknowledged(client, 2)).await.expect("the worker");
}

#[tokio::test]
async fn the_test_on_the_fake_runs() {
    tests::a_paid_order_is_not_closed().await.expect("the test passes");
}

#[tokio::test]
async fn the_tests_with_a_server_run() {
    // These programs take the binary from the environment, which only a new process can have.
    if std::env::var_os("TICKWHEEL_BIN").is_none() {
        let this = std::env::current_exe().expect("this program");
        let mut again = Command::new(this);
        again.args(["--exact", "snippets::the_tests_with_a_server_run"]);
        again.env("TICKWHEEL_BIN", env!("CARGO_BIN_EXE_tickwheel"));
        assert!(again.status().expect("this program starts").success());
        return;
    }
    tests::an_unpaid_order_is_closed().await.expect("the test passes");
    time::thirty_minutes().await.expect("the test passes");
}

#[tokio::test]
async fn the_program_of_the_readme_runs() {
    // It takes the address from the environment, and runs until it is interrupted.
    if std::env::var_os("TICKWHEEL_URL").is_some() {
        // An interrupt that comes before the program listens must not kill this process.
        let interrupts = tokio::signal::unix::signal(SignalKind::interrupt()).expect("signals");
        let program = tokio::task::spawn_blocking(readme::run);
        program.await.expect("no panic").expect("the program ends well");
        drop(interrupts);
        return;
    }
    let server = server();
    let client = server.client().expect("a client");
    let mut program = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "snippets::the_program_of_the_readme_runs"])
        .env("TICKWHEEL_URL", server.url())
        .stdout(Stdio::null())
        .spawn()
        .expect("this program starts");
    // The order is put, 30 minutes pass, and the worker closes it.
    while !client.get(("orders", "order-42")).await.is_ok_and(|job| job.due_ms > job.created_ms) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.advance(Duration::from_secs(30 * 60)).await.expect("a manual clock");
    acknowledged(client, 1).await;
    let ended = loop {
        if let Some(status) = program.try_wait().expect("it can be waited for") {
            break status;
        }
        let interrupt = Command::new("kill").args(["-INT", &program.id().to_string()]).status();
        assert!(interrupt.expect("kill runs").success());
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(ended.success(), "{ended}");
}

#[test]
fn the_receiver_runs() {
    let secret = "whsec_dGlja3doZWVsIGNvbmZvcm1hbmNlIGtleSAyNCs=";
    assert_eq!(webhook::receive(secret, &HashMap::new(), b"{}"), 401);
}
