//! A cluster with several partitions: what is about one queue goes to its partition, and what is
//! about all is merged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tickwheel_cluster::{Bucket, Layout};
use tickwheel_server::tokens::Scope;

use crate::client::{Answer, Request, Service, token};
use crate::cluster::{NAMES, Rig};
use crate::events::Stream;

const PARTITIONS: u32 = 4;

fn partition_of(queue: &str) -> u32 {
    Layout::even(PARTITIONS).unwrap().partition_of(Bucket::of_queue(queue))
}

/// Names of queues: this many of each partition.
fn queues(of_each: usize) -> Vec<String> {
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for name in (0..).map(|number| format!("queue-{number}")) {
        let of_one = found.entry(partition_of(&name)).or_default();
        if of_one.len() < of_each {
            of_one.push(name);
        }
        if found.len() == PARTITIONS as usize && found.values().all(|it| it.len() == of_each) {
            break;
        }
    }
    found.into_values().flatten().collect()
}

/// The owners of all partitions, once all nodes know the same ones and each owns about as many.
async fn owners(nodes: &[Service]) -> Vec<String> {
    loop {
        let mut known = BTreeSet::new();
        for node in nodes {
            let seen = node.get("/v1/cluster").await.json();
            let owner = |it: &Value| it["owner"].as_str().map(str::to_owned);
            let owners: Option<Vec<_>> =
                seen["partitions"].as_array().unwrap().iter().map(owner).collect();
            known.insert(owners.filter(|it| it.len() == PARTITIONS as usize));
        }
        if let (1, Some(Some(owners))) = (known.len(), known.first()) {
            let count = |name: &&str| owners.iter().filter(|it| it == name).count();
            let counts: Vec<_> = NAMES.iter().map(count).filter(|it| *it > 0).collect();
            let is_even = counts.iter().max().unwrap() - counts.iter().min().unwrap() < 2;
            if is_even && counts.len() == nodes.len().min(PARTITIONS as usize) {
                return owners.clone();
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn start() -> (Rig, Vec<Service>) {
    let rig = Rig::with_partitions(u64::from(PARTITIONS));
    let nodes = rig.start_all().await;
    owners(&nodes).await;
    (rig, nodes)
}

/// Stops all nodes. Two that were dropped with the runtime would wait for it.
async fn stop(nodes: Vec<Service>) {
    for node in nodes {
        node.stop().await;
    }
}

fn names(list: &Value, field: &str) -> Vec<String> {
    let name = |it: &Value| it["name"].as_str().unwrap().to_owned();
    list[field].as_array().unwrap().iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_serves_the_queues_of_all_partitions() {
    let (rig, mut nodes) = start().await;
    let queues = queues(3);
    let mut ids = Vec::new();
    for (index, queue) in queues.iter().enumerate() {
        ids.push(nodes[index % 3].put_text(queue, "hello").await);
    }
    for (index, id) in ids.iter().enumerate() {
        let job = nodes[(index + 1) % 3].get(&format!("/v1/jobs/{id}")).await;
        assert_eq!((job.status, &job.json()["queue"]), (200, &json!(queues[index])), "{job:?}");
    }
    for node in &nodes {
        let list = node.get("/v1/queues").await.json();
        let mut wanted = queues.clone();
        wanted.sort();
        assert_eq!(names(&list, "queues"), wanted);
        let stats = node.get("/v1/stats?since=5m").await.json();
        assert_eq!((&stats["queues"], &stats["pending"]), (&json!(12), &json!(12)), "{stats}");
        assert_eq!(stats["recent"]["put"], 12, "{stats}");
        let overview = node.get("/v1/overview").await.json();
        assert_eq!(overview["totals"]["jobs"]["ready"], 12, "{overview}");
        assert_eq!(overview["queues"].as_array().map(Vec::len), Some(12));
        assert_eq!(node.get("/v1/wheel").await.json()["ready"], 12);
        assert_eq!(node.get("/v1/history").await.status, 200);
        assert_eq!(node.get("/readyz").await.status, 200);
        let short = &ids[0][..13];
        let found = node.get(&format!("/v1/ids/{short}")).await.json();
        assert!(found["ids"].as_array().unwrap().contains(&json!(ids[0])), "{found}");
    }
    // A worker is served by any node.
    let (id, token) = nodes[1].reserve_one(&queues[5]).await;
    let acked = nodes[2].post(&format!("/v1/jobs/{id}/ack"), json!({"token": token})).await;
    assert_eq!(acked.status, 200, "{acked:?}");

    // A node ends, and another one takes its partitions over.
    nodes.remove(0).stop().await;
    owners(&nodes).await;
    for (index, id) in ids.iter().enumerate().filter(|(index, _)| *index != 5) {
        let job = nodes[index % 2].get(&format!("/v1/jobs/{id}")).await;
        assert_eq!(job.status, 200, "{job:?}");
    }
    // It returns without its disk, and gets its share again.
    nodes.insert(0, rig.start(NAMES[0], tempfile::tempdir().unwrap()).await);
    owners(&nodes).await;
    assert_eq!(nodes[0].get("/v1/stats").await.json()["pending"], 11);
    stop(nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_split_and_answered_in_order() {
    let (_rig, nodes) = start().await;
    let queues = queues(2);
    let mut items: Vec<_> =
        queues.iter().map(|queue| json!({"queue": queue, "text": "x", "key": "k"})).collect();
    items.insert(3, json!({"text": "no queue"}));
    let batch = json!({ "items": items });
    let request =
        || Request::new("POST", "/v1/jobs/batch").header("idempotency-key", "once").json(&batch);
    let put = nodes[0].send(request()).await;
    assert_eq!(put.status, 200, "{put:?}");
    let results = put.json()["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), 9);
    assert_eq!(results[3]["error"]["field"], "/items/3/queue", "{}", results[3]);
    let mut ids = Vec::new();
    for (result, item) in results.iter().zip(batch["items"].as_array().unwrap()) {
        if item["queue"].is_string() {
            assert_eq!(result["ok"]["queue"], item["queue"], "{result}");
            ids.push(result["ok"]["id"].as_str().unwrap().to_owned());
        }
    }
    // A repetition at another node has the same answer.
    let again = nodes[1].send(request()).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"), "{again:?}");
    assert_eq!(again.json(), put.json());
    assert_eq!(nodes[2].get("/v1/stats").await.json()["pending"], 8);
    // A problem names the item in the whole batch.
    let taken: Vec<_> = queues
        .iter()
        .map(|queue| json!({"queue": queue, "text": "x", "key": "k", "on_conflict": "reject"}))
        .collect();
    let refused = nodes[2].post("/v1/jobs/batch", json!({ "items": taken })).await.json();
    for (index, result) in refused["results"].as_array().unwrap().iter().enumerate() {
        assert_eq!(result["error"]["field"], format!("/items/{index}/key"), "{result}");
    }
    // A batch that cannot be read changes nothing.
    let wrong = json!({"items": [{"queue": queues[0]}, {"queue": queues[7], "due": "soon"}]});
    let wrong = nodes[2].post("/v1/jobs/batch", wrong).await;
    assert_eq!(wrong.problem(422, "invalid-field").as_deref(), Some("/items/1/due"));

    let nobody = "0190163d-8694-739b-aaa8-966c26f8ad91";
    let cancelled: Vec<_> = ids[..4].iter().map(|id| json!({ "id": id })).collect();
    let mut cancelled = json!({ "items": cancelled });
    cancelled["items"].as_array_mut().unwrap().push(json!({"id": nobody}));
    let answer = nodes[0].post("/v1/jobs/batch/cancel", cancelled).await.json();
    let results = answer["results"].as_array().unwrap();
    assert!(results[..4].iter().all(|it| it["ok"]["was"] == "ready"), "{answer}");
    assert_eq!(results[4]["error"]["code"], "not-found", "{answer}");
    assert_eq!(nodes[1].get("/v1/stats").await.json()["pending"], 4);
    stop(nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_an_id_of_the_callers_is_found() {
    let (_rig, nodes) = start().await;
    let queues = queues(1);
    // All ids have the bucket of partition 0, wherever their jobs are.
    let id = |number: usize| format!("0190163d-8694-739b-8000-966c26f8ad9{number}");
    for (number, queue) in queues.iter().enumerate() {
        let job = json!({"id": id(number), "text": "x"});
        assert_eq!(nodes[0].post(&format!("/v1/queues/{queue}/jobs"), job).await.status, 201);
    }
    for (number, queue) in queues.iter().enumerate() {
        let job = nodes[1].get(&format!("/v1/jobs/{}", id(number))).await;
        assert_eq!((job.status, &job.json()["queue"]), (200, &json!(queue)), "{job:?}");
        let job = nodes[2].get(&format!("/v1/jobs/{}?queue={queue}", id(number))).await;
        assert_eq!(job.status, 200, "{job:?}");
    }
    let elsewhere = format!("/v1/jobs/{}?queue={}", id(1), queues[2]);
    nodes[0].get(&elsewhere).await.problem(404, "not-found");
    let items: Vec<_> = (0..4).map(|number| json!({"id": id(number)})).collect();
    let answer = nodes[0].post("/v1/jobs/batch/cancel", json!({ "items": items })).await.json();
    let results = answer["results"].as_array().unwrap();
    assert!(results.iter().all(|it| it["ok"]["was"] == "ready"), "{answer}");

    // Jobs of several partitions can have one id; a change that names no queue is about one of them.
    let same = id(7);
    for queue in &queues {
        let job = json!({"id": same, "text": "x", "delay": "1h"});
        assert_eq!(nodes[0].post(&format!("/v1/queues/{queue}/jobs"), job).await.status, 201);
    }
    for left in (0..4).rev() {
        let cancelled = nodes[1].send(Request::new("DELETE", &format!("/v1/jobs/{same}"))).await;
        assert_eq!(cancelled.json()["was"], "scheduled", "{cancelled:?}");
        assert_eq!(nodes[2].get("/v1/stats").await.json()["pending"], left);
    }
    stop(nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_in_the_partitions_of_their_queues() {
    let (_rig, nodes) = start().await;
    let queues = queues(1);
    for (number, queue) in queues.iter().enumerate() {
        let schedule = json!({"queue": queue, "every": "1h", "text": "x"});
        let put = nodes[number % 3].put(&format!("/v1/schedules/s{number}"), schedule).await;
        assert_eq!(put.status, 201, "{put:?}");
    }
    let list = nodes[1].get("/v1/schedules").await.json();
    assert_eq!(names(&list, "schedules"), ["s0", "s1", "s2", "s3"]);
    for number in 0..4 {
        let next = nodes[2].get(&format!("/v1/schedules/s{number}/next?n=2")).await.json();
        assert_eq!(next["next"].as_array().map(Vec::len), Some(2), "{next}");
        let paused = nodes[0].poke(&format!("/v1/schedules/s{number}/pause")).await.json();
        assert_eq!(paused["paused"], true);
    }
    // A name is that of one schedule.
    let schedule = json!({"queue": queues[2], "every": "1h"});
    nodes[0].put("/v1/schedules/s1", schedule).await.problem(409, "wrong-state");
    assert_eq!(nodes[0].delete("/v1/schedules/s1").await.status, 200);
    nodes[1].get("/v1/schedules/s1").await.problem(404, "not-found");
    stop(nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_all_partitions_are_one_stream_that_resumes() {
    let (_rig, nodes) = start().await;
    let queues = queues(1);
    let mut stream = Stream::open(&nodes[0], Request::new("GET", "/v1/events?event=put")).await;
    let mut last = String::new();
    for queue in &queues {
        nodes[1].put_text(queue, "first").await;
        let event = stream.next().await;
        assert_eq!((&event.event[..], &event.data["queue"]), ("put", &json!(queue)));
        assert_eq!(event.id.split('.').count(), PARTITIONS as usize);
        last = event.id;
    }
    drop(stream);
    for queue in queues.iter().rev() {
        nodes[2].put_text(queue, "second").await;
    }
    let resumed = Request::new("GET", "/v1/events?event=put").header("last-event-id", &last);
    let mut stream = Stream::open(&nodes[1], resumed).await;
    let mut seen = BTreeSet::new();
    for _ in &queues {
        let event = stream.next().await;
        assert_eq!(event.event, "put", "{event:?}");
        seen.insert(event.data["queue"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen.len(), queues.len(), "each once");
    let wrong = Request::new("GET", "/v1/events").header("last-event-id", "1-1-00000000");
    nodes[0].send(wrong).await.problem(400, "invalid-header");
    let wrong = nodes[0].get("/v1/events?last_event_id=x").await;
    wrong.problem(400, "invalid-parameter");
    // The stream of a queue is that of its partition.
    let path = format!("/v1/queues/{}/events", queues[3]);
    let mut stream = Stream::open(&nodes[0], Request::new("GET", &path)).await;
    nodes[0].put_text(&queues[3], "third").await;
    assert!(!stream.next().await.id.contains('.'));
    let mut live = Stream::open(&nodes[2], Request::new("GET", "/v1/live")).await;
    let data = loop {
        let block = live.block().await.unwrap();
        if let Some(data) = block.lines().find_map(|line| line.strip_prefix("data: ")) {
            break serde_json::from_str::<Value>(data).unwrap();
        }
    };
    assert_eq!(data["overview"]["totals"]["jobs"]["ready"], 9, "{data}");
    drop((stream, live));
    stop(nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_backups_are_those_of_all_partitions() {
    let (_rig, nodes) = start().await;
    for queue in queues(2) {
        nodes[0].put_text(&queue, "x").await;
    }
    let text = nodes[1].get("/metrics").await.body;
    assert!(text.contains("tickwheel_jobs_put_total 8\n"), "{text}");
    assert_eq!(text.matches("# TYPE tickwheel_http_requests_total").count(), 1);
    for number in 0..PARTITIONS {
        for name in ["owner", "epoch", "position", "appends_total", "append_seconds_total", "lag"] {
            let line = format!("tickwheel_partition_{name}{{partition=\"{number}\"");
            assert!(text.contains(&line), "{line}: {text}");
        }
    }
    nodes[0].get("/v1/backup").await.problem(400, "invalid-parameter");
    nodes[0].get("/v1/backup?partition=4").await.problem(404, "not-found");
    for number in 0..PARTITIONS {
        let mut client = nodes[0].connect().await;
        let path = format!("/v1/backup?partition={number}");
        client.write(&Request::new("GET", &path).bytes()).await;
        assert_eq!(client.head().await.unwrap().0, 200);
        let begin = client.chunk().await.unwrap();
        assert!(begin.starts_with(b"tickwheel backup"), "{begin:?}");
    }
    stop(nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_shows_all_partitions() {
    let (_rig, nodes) = start().await;
    let queues = queues(1);
    let mut ids = Vec::new();
    for queue in &queues {
        ids.push(nodes[0].put_text(queue, "x").await);
        let schedule = json!({"queue": queue, "every": "1h", "text": "x"});
        nodes[0].put(&format!("/v1/schedules/of-{queue}"), schedule).await;
    }
    for node in &nodes {
        for path in ["/", "/queues", "/jobs", "/put"] {
            let page = node.get(path).await;
            let text = &page.body;
            assert_eq!(page.status, 200, "{path}: {text}");
            for queue in &queues {
                assert!(text.contains(&format!("{queue}\"")), "{path}, {queue}: {text}");
            }
        }
        for (queue, id) in queues.iter().zip(&ids) {
            for path in [format!("/queues/{queue}"), format!("/jobs/{id}")] {
                assert_eq!(node.get(&path).await.status, 200, "{path}");
            }
        }
        let page = node.get("/schedules").await;
        let text = &page.body;
        assert!(queues.iter().all(|queue| text.contains(&format!("of-{queue}"))), "{text}");
        assert_eq!(node.get("/wheel").await.status, 200);
        assert_eq!(node.get("/errors").await.status, 200);
        assert_eq!(node.get("/targets").await.status, 200);
    }
    stop(nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_belongs_to_the_partition_of_its_name() {
    let (_rig, nodes) = start().await;
    let queues = queues(1);
    let (queue, other) = (&queues[2], &queues[3]);
    let settings = json!({"url": "https://example.com/hook"});
    let put = nodes[0].put(&format!("/v1/targets/{queue}"), settings).await;
    assert_eq!(put.status, 201, "{put:?}");
    let named = json!({ "target": queue });
    let set = nodes[1].put(&format!("/v1/queues/{queue}/settings"), named.clone()).await;
    assert_eq!(set.status, 200, "{set:?}");
    let refused = nodes[2].put(&format!("/v1/queues/{other}/settings"), named).await;
    assert_eq!(refused.problem(422, "invalid-field").as_deref(), Some("/target"));
    assert!(refused.body.contains("of its own partition only"), "{refused:?}");
    assert_eq!(names(&nodes[2].get("/v1/targets").await.json(), "targets"), [queue.as_str()]);
    let mut stream = Stream::open(&nodes[1], Request::new("GET", "/v1/target-events")).await;
    let block = loop {
        let block = stream.block().await.unwrap();
        if block.contains("data: ") {
            break block;
        }
    };
    assert!(block.contains(queue.as_str()), "{block}");
    drop(stream);
    stop(nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_checked_by_every_partition() {
    let (_rig, nodes) = start().await;
    let queues = queues(1);
    for queue in &queues {
        nodes[0].put_text(queue, "x").await;
    }
    let all = token(&nodes[0].folder, "all", &[Scope::Read, Scope::Admin], &["*"]);
    let one = token(&nodes[0].folder, "one", &[Scope::Read, Scope::Produce], &[&queues[1]]);
    let get = |path: &str, token: &str| Request::new("GET", path).token(token);
    for node in &nodes {
        while node.get("/v1/cluster").await.status != 401 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for token in [&all, &one] {
            while node.send(get("/v1/cluster", token)).await.status != 200 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    let batch = json!({"items": [{"queue": queues[0], "text": "x"}]});
    // At one node only: each partition counts refusals, and refuses a caller with many for a while.
    let node = &nodes[0];
    for path in ["/v1/queues", "/v1/stats", "/v1/events", "/metrics", "/v1/schedules/s"] {
        node.get(path).await.problem(401, "unauthorized");
    }
    node.post("/v1/jobs/batch", batch.clone()).await.problem(401, "unauthorized");
    // A large body of a stranger is refused before it arrives.
    let mut stranger = node.connect().await;
    let large = Request::new("POST", &format!("/v1/queues/{}/jobs", queues[0]))
        .header("content-type", "application/json")
        .header("content-length", "1000000");
    stranger.write(&large.bytes()).await;
    stranger.answer(false).await.unwrap().problem(401, "unauthorized");
    for node in &nodes {
        let seen = node.send(get("/v1/queues", &all)).await.json();
        assert_eq!(names(&seen, "queues").len(), 4);
        let seen = node.send(get("/v1/queues", &one)).await.json();
        assert_eq!(names(&seen, "queues"), [queues[1].as_str()]);
        let refused = Request::new("POST", "/v1/jobs/batch").token(&one).json(&batch);
        let refused = node.send(refused).await.json();
        assert_eq!(refused["results"][0]["error"]["code"], "forbidden", "{refused}");
        // The dashboard asks all partitions with the token of its visitor.
        let cookie = format!("tickwheel_token={all}");
        let page = node.send(Request::new("GET", "/queues").header("cookie", &cookie)).await;
        let shows =
            |page: &Answer, queue: &String| page.body.contains(&format!("/queues/{queue}\""));
        assert!(queues.iter().all(|queue| shows(&page, queue)), "{page:?}");
        let cookie = format!("tickwheel_token={one}");
        let page = node.send(Request::new("GET", "/queues").header("cookie", &cookie)).await;
        assert!(shows(&page, &queues[1]) && !shows(&page, &queues[2]), "{page:?}");
    }
    stop(nodes).await;
}
