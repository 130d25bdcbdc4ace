//! The Rust programs of `docs/clients`: each code block is one of these files, to the letter, and the
//! tests run them against the real binary.

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
use std::process::Command;

use tickwheel_client::testing::Server;
use tickwheel_client::{Client, NewJob};

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
    for page in ["README.md", "rust.md"] {
        let page = read(&docs.join(page));
        for block in page.split("```rust\n").skip(1) {
            blocks.insert(block.split("```").next().unwrap_or_default().to_owned());
        }
    }
    assert_eq!(blocks, files);
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
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
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

#[test]
fn the_receiver_runs() {
    let secret = "whsec_dGlja3doZWVsIGNvbmZvcm1hbmNlIGtleSAyNCs=";
    assert_eq!(webhook::receive(secret, &HashMap::new(), b"{}"), 401);
}
