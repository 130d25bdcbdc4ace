//! Every command against a real server: its effect, its text and its JSON.

#[path = "../rig/mod.rs"]
mod rig;

mod jobs;
mod output;
mod queues;
mod watching;

use rig::Server;
use serde_json::Value;

/// Puts a job and returns its id.
pub(crate) fn put(server: &Server, args: &[&str]) -> String {
    let args: Vec<&str> = ["put", "--json"].iter().chain(args).copied().collect();
    server.run(&args).json()["id"].as_str().expect("an id").to_owned()
}

/// Reserves one job and returns its id and token.
pub(crate) fn reserve(server: &Server, queue: &str) -> (String, String) {
    let answer = server.run(&["reserve", queue, "--wait", "10s", "--json"]).json();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let delivery = &answer["deliveries"][0];
    (text(&delivery["job"]["id"]), text(&delivery["token"]))
}

/// Returns the short form of an id, as lists show it.
pub(crate) fn short(id: &str) -> String {
    let digits = id.replace('-', "");
    format!("{}..{}", &digits[..12], &digits[26..])
}

pub(crate) fn state(server: &Server, id: &str) -> String {
    server.run(&["get", id, "--json"]).json()["state"].as_str().expect("a state").to_owned()
}
