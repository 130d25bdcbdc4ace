//! The Rust client against the real binary: every scenario of `clients/conformance`.
//!
//! The format is described in `clients/conformance/README.md`. A runner fails on anything that it
//! does not know, so a new operation cannot be skipped.

mod blocking;
mod matching;
mod operations;
mod reconnect;
mod server;
mod snippets;
mod soak;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use operations::Operations;
use serde::Deserialize;
use serde_json::Value;
use tickwheel_client::Error;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    about: String,
    #[serde(default)]
    serve: Vec<String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    #[serde(rename = "do")]
    operation: String,
    #[serde(default)]
    with: Value,
    expect: Option<Value>,
    error: Option<Value>,
    #[serde(default)]
    save: HashMap<String, String>,
}

/// The scenarios that the fake server supports as well.
const ON_THE_FAKE: [&str; 4] = ["order_timeout", "keys", "concurrent_puts", "worker_trace"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rust_client_conforms() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/conformance");
    let mut run = 0;
    for file in fs::read_dir(folder).expect("the scenarios") {
        let path = file.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = fs::read_to_string(&path).expect("a scenario");
            let scenario: Scenario = serde_json::from_str(&text).expect("a scenario");
            println!("{}: {}", path.display(), scenario.about);
            scenario.run(&path, Operations::start(&scenario.serve)).await;
            run += 1;
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            if ON_THE_FAKE.contains(&name) {
                scenario.run(&path, Operations::on_a_fake()).await;
            }
        }
    }
    assert!(run > 10, "only {run} scenarios were found");
}

#[test]
fn the_rust_client_has_a_method_for_every_operation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list = fs::read_to_string(root.join("clients/operations.json")).expect("the list");
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let source: String = fs::read_dir(root.join("crates/tickwheel-client/src"))
        .expect("the client")
        .map(|file| file.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| fs::read_to_string(path).expect("a source file"))
        .collect();
    for (operation, languages) in list["operations"].as_object().expect("operations") {
        let method = languages["rust"].as_str().unwrap_or_else(|| panic!("{operation}"));
        let is_there =
            ["(", "<"].iter().any(|end| source.contains(&format!("pub async fn {method}{end}")));
        assert!(is_there, "{operation}: the client has no method {method}");
    }
}

impl Scenario {
    async fn run(&self, path: &Path, mut operations: Operations) {
        let mut variables = HashMap::from([("server".to_owned(), operations.url().into())]);
        for (number, step) in self.steps.iter().enumerate() {
            let place = format!("{} step {number} {}", path.display(), step.operation);
            let with = matching::filled(&step.with, &variables);
            let answer = operations.take(&step.operation, with);
            let answer = tokio::time::timeout(Duration::from_secs(60), answer).await;
            let answer = answer.unwrap_or_else(|_| panic!("{place}: no answer within a minute"));
            step.check(&place, answer, &mut variables);
        }
    }
}

impl Step {
    fn check(
        &self,
        place: &str,
        answer: Result<Value, Error>,
        variables: &mut HashMap<String, Value>,
    ) {
        match (answer, &self.error) {
            (Ok(answer), None) => {
                if let Some(expected) = &self.expect {
                    let expected = matching::filled(expected, variables);
                    let matches = matching::matches(&expected, Some(&answer));
                    assert!(matches, "{place}: expected {expected}, got {answer}");
                }
                for (name, pointer) in &self.save {
                    let value = answer.pointer(pointer);
                    let value =
                        value.unwrap_or_else(|| panic!("{place}: no {pointer} in {answer}"));
                    variables.insert(name.clone(), value.clone());
                }
            }
            (Err(error), Some(expected)) => {
                let problem = error.problem().unwrap_or_else(|| panic!("{place}: {error}"));
                let problem = serde_json::to_value(problem).expect("JSON");
                let expected = matching::filled(expected, variables);
                let matches = matching::matches(&expected, Some(&problem));
                assert!(matches, "{place}: expected {expected}, got {problem}");
            }
            (Ok(answer), Some(expected)) => panic!("{place}: expected {expected}, got {answer}"),
            (Err(error), None) => panic!("{place}: {error}"),
        }
    }
}
