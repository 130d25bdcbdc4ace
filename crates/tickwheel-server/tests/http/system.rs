//! Health, metrics, the API description, and the headers of every answer.

use serde_json::json;
use tickwheel_server::config::{OPTIONS, OptionSpec};

use crate::client::{Request, Service};

#[tokio::test]
async fn every_answer_has_an_id() {
    let service = Service::start().await;
    let given = Request::new("GET", "/healthz").header("x-request-id", "abc-1.2_3");
    assert_eq!(service.send(given).await.header("x-request-id"), Some("abc-1.2_3"));
    let mut seen = Vec::new();
    for odd in ["", "a b", "<script>", &"x".repeat(65)] {
        let answer =
            service.send(Request::new("GET", "/nowhere").header("x-request-id", odd)).await;
        answer.problem(404, "not-found");
        let id = answer.header("x-request-id").unwrap().to_owned();
        assert_ne!(id, odd);
        seen.push(id);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4);
    service.stop().await;
}

#[tokio::test]
async fn wrong_methods_are_refused_with_those_that_are_right() {
    let service = Service::start().await;
    for (method, path, allowed) in [
        ("DELETE", "/v1/queues", "GET,HEAD"),
        ("PATCH", "/v1/queues/q/jobs", "POST,GET,HEAD"),
        ("GET", "/v1/queues/q/reserve", "POST"),
        ("POST", "/healthz", "GET,HEAD"),
    ] {
        let answer = service.send(Request::new(method, path)).await;
        answer.problem(405, "method-not-allowed");
        assert_eq!(answer.header("allow"), Some(allowed), "{method} {path}");
    }
    let head = service.send(Request::new("HEAD", "/v1/queues")).await;
    assert_eq!((head.status, &head.body[..]), (200, ""));
    let head = service.send(Request::new("HEAD", "/v1/queues/none")).await;
    assert_eq!((head.status, &head.body[..]), (404, ""));
    service.stop().await;
}

#[tokio::test]
async fn it_tells_how_it_is() {
    let service = Service::start().await;
    let health = service.get("/healthz").await;
    assert_eq!(health.json()["status"], "ok");
    assert_eq!(service.get("/readyz").await.json()["status"], "ready");
    let docs = service.get("/docs").await;
    assert_eq!(docs.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(docs.header("content-security-policy").unwrap().contains("default-src 'none'"));
    let index = service.get("/").await;
    assert_eq!(index.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(index.body.contains("href=\"/docs\""), "{}", index.body);
    let openapi = service.get("/openapi.json").await.json();
    assert_eq!(openapi["openapi"], "3.1.0");
    assert!(openapi["paths"]["/v1/queues/{queue}/jobs"]["post"].is_object());
    let problem = service.get("/problems/stale-lease").await;
    assert!(problem.body.starts_with("stale-lease: The lease has expired"));
    service.stop().await;
}

/// Returns the method, path and body of an example with curl.
fn read_curl(source: &str) -> (&str, &str, &str) {
    let path = source.split("localhost:7300").nth(1).unwrap().split([' ', '\'']).next().unwrap();
    let body = source.split(" -d '").nth(1).map_or("", |body| body.trim_end_matches('\''));
    let default = if body.is_empty() { "GET" } else { "POST" };
    let method = source.split(" -X ").nth(1).map_or(default, |it| it.split(' ').next().unwrap());
    (method, path, body)
}

#[tokio::test]
async fn the_examples_of_the_description_are_understood() {
    let service = Service::start().await;
    let document = service.get("/openapi.json").await.json();
    service.put_text("orders", "x").await;
    let operations = document["paths"].as_object().unwrap().values();
    for operation in operations.flat_map(|item| item.as_object().unwrap().values()) {
        let source = operation["x-codeSamples"][0]["source"].as_str().unwrap();
        let (method, path, body) = read_curl(source);
        // These requests wait, or their answer is not text.
        if ["events", "/live", "/reserve", "/backup"].iter().any(|end| path.ends_with(end)) {
            continue;
        }
        let mut request = Request::new(method, path);
        if !body.is_empty() {
            request = request.body("application/json", body.as_bytes());
        }
        let answer = service.send(request).await;
        // The job, schedule or clock may be missing, but the request itself must be valid.
        assert!([200, 201, 404, 409].contains(&answer.status), "{source}\n{answer:?}");
        if answer.status == 404 {
            assert!(!answer.body.contains("no such page"), "{source}\n{answer:?}");
        }
    }
    service.stop().await;
}

fn read_json(path: &std::path::Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[tokio::test]
async fn the_clients_have_every_operation_and_their_tests_use_every_parameter() {
    let clients = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients");
    let clients = std::path::Path::new(clients);
    let list = read_json(&clients.join("operations.json"));
    let files = std::fs::read_dir(clients.join("conformance")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let scenarios: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|it| it == "json"))
        .map(|path| read_json(&path))
        .collect();
    let steps: Vec<_> =
        scenarios.iter().flat_map(|scenario| scenario["steps"].as_array().unwrap()).collect();
    let service = Service::start().await;
    let document = service.get("/openapi.json").await.json();
    let items = document["paths"].as_object().unwrap().values();
    let mut known: Vec<&String> = ["operations", "left_out"]
        .iter()
        .flat_map(|it| list[it].as_object().unwrap().keys())
        .collect();
    for operation in items.flat_map(|item| item.as_object().unwrap().values()) {
        let name = operation["operationId"].as_str().unwrap();
        let count = known.len();
        known.retain(|it| *it != name);
        assert_eq!(known.len() + 1, count, "clients/operations.json lists {name} once");
        let Some(step) = list["operations"][name]["do"].as_str() else { continue };
        let used: Vec<_> = steps.iter().filter(|it| it["do"] == step).collect();
        assert!(!used.is_empty(), "no scenario of clients/conformance has a step {step}");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let parameter =
                (parameter["in"].as_str().unwrap(), parameter["name"].as_str().unwrap());
            // Clients send the id of the last event when they reconnect.
            let ("query", parameter) = parameter else { continue };
            let is_used = used.iter().any(|it| it["with"].get(parameter).is_some());
            assert!(is_used || parameter == "last_event_id", "no step {step} has {parameter}");
        }
    }
    assert!(known.is_empty(), "no route has these operations: {known:?}");
    service.stop().await;
}

#[tokio::test]
async fn metrics_count_jobs_and_requests() {
    let service = Service::start().await;
    service.put_text("q", "").await;
    let (id, token) = service.reserve_one("q").await;
    service.post(&format!("/v1/jobs/{id}/ack"), json!({"token": token})).await;
    service.post("/v1/queues/q/jobs", json!({"text": "", "delay": "1h"})).await;
    service.get("/nowhere").await;
    let answer = service.get("/metrics").await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "tickwheel_queue_jobs{queue=\"q\",state=\"scheduled\"} 1",
        "tickwheel_queue_paused{queue=\"q\"} 0",
        "tickwheel_queue_jobs_put_total{queue=\"q\"} 2",
        "tickwheel_queue_jobs_acked_total{queue=\"q\"} 1",
        "tickwheel_queue_oldest_ready_age_seconds{queue=\"q\"} 0",
        "tickwheel_queue_delivery_lateness_seconds_bucket{queue=\"q\",le=\"+Inf\"} 1",
        "tickwheel_queues_without_metrics 0",
        "tickwheel_jobs_put_total 2",
        "tickwheel_jobs_delivered_total 1",
        "tickwheel_jobs_acked_total 1",
        "tickwheel_jobs_pending 1",
        "tickwheel_horizon_seconds 300",
        "tickwheel_delivery_lateness_seconds_count 1",
        "tickwheel_delivery_lateness_seconds_bucket{le=\"+Inf\"} 1",
        "tickwheel_http_requests_total{route=\"POST /v1/queues/{queue}/jobs\",status=\"2xx\"} 2",
        "tickwheel_http_requests_total{route=\"other\",status=\"4xx\"} 1",
        "tickwheel_http_requests_in_flight 1",
        "tickwheel_http_connections 1",
    ] {
        assert!(answer.body.lines().any(|it| it == line), "{line}\n{}", answer.body);
    }
    let commits =
        answer.body.lines().find_map(|it| it.strip_prefix("tickwheel_commit_seconds_count "));
    assert!(commits.unwrap().parse::<u64>().unwrap() >= 4);
    for line in answer.body.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .fold(name, |it, end| it.strip_suffix(end).unwrap_or(it));
        let head = |it: &str| answer.body.contains(&format!("# TYPE {it} "));
        assert!(head(name) || head(base), "{line}");
    }
    let recent = service.get("/v1/stats?since=5m").await.json()["recent"].clone();
    assert_eq!((&recent["put"], &recent["acked"]), (&json!(2), &json!(1)));
    assert_eq!(recent["lateness"]["count"], 1);
    assert!(recent["window_ms"].as_u64().unwrap() <= 300_000);
    for window in ["soon", "9s", "2h"] {
        let refused = service.get(&format!("/v1/stats?since={window}")).await;
        assert_eq!(refused.problem(400, "invalid-parameter").as_deref(), Some("since"), "{window}");
    }
    let queue = service.get("/v1/queues/q").await.json();
    assert_eq!((&queue["counters"]["put"], &queue["lateness"]["count"]), (&json!(2), &json!(1)));
    assert_eq!(queue.get("oldest_ready_ms"), None);
    service.put_text("q", "").await;
    let queue = service.get("/v1/queues/q").await.json();
    assert!(queue["oldest_ready_ms"].as_u64().is_some());
    let stats = service.get("/v1/stats").await.json();
    assert_eq!(
        (&stats["put"], &stats["acked"], &stats["durability"]),
        (&json!(3), &json!(1), &json!("sync"))
    );
    service.stop().await;
}

#[test]
fn the_documents_list_every_option() {
    let row = |option: &OptionSpec| {
        let default = match option.default {
            "" => "–".to_owned(),
            default => format!("`{default}`"),
        };
        format!("| `{}` | {default} | {} |\n", option.name, option.help)
    };
    let head = "| option | default | meaning |\n|---|---|---|\n".to_owned();
    let table = OPTIONS.iter().map(row).fold(head, |table, row| table + &row);
    let document = include_str!("../../../../docs/SERVER.md");
    assert!(document.contains(&table), "docs/SERVER.md should contain this table:\n{table}");
}

#[tokio::test]
async fn the_length_that_head_tells_is_that_of_the_answer_to_get() {
    let service = Service::start().await;
    for path in ["/v1/queues", "/v1/queues/none", "/nowhere"] {
        let of = |method| Request::new(method, path).header("x-request-id", "same");
        let (get, head) = (service.send(of("GET")).await, service.send(of("HEAD")).await);
        assert_eq!(head.status, get.status);
        assert_eq!(head.header("content-length"), get.header("content-length"), "{path}");
        assert!(head.body.is_empty());
    }
    service.stop().await;
}

#[tokio::test]
async fn parameters_are_refused_where_there_are_none() {
    let service = Service::start().await;
    let delayed = service.post("/v1/queues/q/jobs?delay=1h", serde_json::json!({"text": ""})).await;
    assert_eq!(delayed.problem(400, "invalid-parameter").as_deref(), Some("delay"));
    for path in ["/v1/queues?limit=1", "/v1/stats?a", "/v1/queues/q?state=dead&b=1"] {
        service.get(path).await.problem(400, "invalid-parameter");
    }
    // Probes add such queries to avoid cached answers.
    for path in ["/healthz?now=1", "/metrics?a=b", "/v1/queues?"] {
        assert_eq!(service.get(path).await.status, 200, "{path}");
    }
    service.stop().await;
}

#[tokio::test]
async fn every_route_refuses_the_parameters_that_its_description_excludes() {
    let service = Service::start().await;
    service.put_text("orders", "x").await;
    let document = service.get("/openapi.json").await.json();
    let refused = async |method: &str, path: &str, name: &str, value: &str| {
        let request = Request::new(method, &format!("{path}?{name}={value}"));
        let answer = service.send(request).await;
        assert_eq!(answer.problem(400, "invalid-parameter").as_deref(), Some(name), "{path}");
        answer.json()["detail"].as_str().unwrap().to_owned()
    };
    let paths = document["paths"].as_object().unwrap().iter();
    for (path, item) in paths.filter(|(path, _)| path.starts_with("/v1/")) {
        let path = path.replace("{queue}", "orders").replace("{name}", "daily");
        for (method, operation) in item.as_object().unwrap() {
            let method = &method.to_uppercase();
            let all = operation["parameters"].as_array().into_iter().flatten();
            let parameters: Vec<_> = all.filter(|it| it["in"] == "query").collect();
            let names: Vec<_> = parameters.iter().map(|it| it["name"].as_str().unwrap()).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let wanted = format!("unknown parameter \"colour\": this route takes {known}");
            assert_eq!(refused(method, &path, "colour", "red").await, wanted, "{method} {path}");
            for (name, schema) in names.iter().zip(parameters.iter().map(|it| &it["schema"])) {
                if schema["type"] != "string" {
                    let detail = refused(method, &path, name, "odd!").await;
                    assert!(detail.starts_with(&format!("parameter \"{name}\": ")), "{detail}");
                }
                let Some(min) = schema["minimum"].as_u64() else { continue };
                let max = schema["maximum"].as_u64().unwrap();
                for number in [min - 1, max + 1] {
                    refused(method, &path, name, &number.to_string()).await;
                }
                for number in [min, max] {
                    let answer = service.get(&format!("{path}?{name}={number}")).await;
                    assert_ne!(answer.status, 400, "{path} {name}={number}");
                }
            }
        }
    }
    service.stop().await;
}
