//! Exhausting the queue limit with a token that may create queues of its own.

use serde_json::{Value, json};

use crate::http::Client;
use crate::report::{Report, Scale};
use crate::rig::{Server, until};
use crate::tokens::Token;

const LIMIT: usize = 200;

pub(crate) fn run(_: &Scale, report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Token::new(folder.path(), &["admin"], "*");
    let attacker = Token::new(folder.path(), &["produce", "consume"], "a-*");
    let neighbour = Token::new(folder.path(), &["produce"], "b-*");
    let limit = LIMIT.to_string();
    let server = Server::try_start(folder.path(), "", &["--limits-queues", &limit]);
    let server = server.unwrap_or_else(|log| panic!("the server does not start:\n{log}"));
    let client = Client::new(&server);
    let [root, attacker, neighbour] =
        [root, attacker, neighbour].map(|token| client.with_token(&token.secret));
    let jobs: Vec<Value> = (0..2 * LIMIT)
        .map(|queue| json!({ "queue": format!("a-{queue}"), "text": "x", "delay": "30d" }))
        .collect();
    let answer = attacker.post("/v1/jobs/batch", &json!({ "jobs": jobs }));
    let results = answer.json()["results"].as_array().cloned().unwrap_or_default();
    let made: Vec<String> =
        results.iter().filter_map(|result| Some(result["ok"]["id"].as_str()?.to_owned())).collect();
    report.check(results.len() == 2 * LIMIT, || format!("the batch gave {}", answer.brief()));
    report.check(!made.is_empty() && made.len() < LIMIT, || {
        format!("one token created {} of {LIMIT} queues", made.len())
    });
    for (name, caller, queue) in
        [("a neighbour", &neighbour, "b-new"), ("an admin", &root, "c-new")]
    {
        let put = json!({ "text": "x", "delay": "30d" });
        let answer = caller.post(&format!("/v1/queues/{queue}/jobs"), &put);
        report.check(answer.status == 201, || {
            format!("after the attack {name} could not create a queue: {}", answer.brief())
        });
    }
    // There is room again: empty queues are removed by the admin or automatically.
    let items: Vec<Value> = made.iter().map(|id| json!({ "id": id })).collect();
    attacker.must("POST", "/v1/jobs/batch/cancel", &json!({ "items": items }));
    let removed = root.send("DELETE", "/v1/queues/a-0", "");
    report.check(matches!(removed.status, 200 | 204 | 404), || {
        format!("an admin could not remove an empty queue: {}", removed.brief())
    });
    until(|| {
        let put = json!({ "text": "x", "delay": "30d" });
        attacker.post("/v1/queues/a-again/jobs", &put).status == 201
    });
    report.fact(format!("one token created {} of {LIMIT} queues", made.len()));
}
