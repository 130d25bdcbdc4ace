//! The authorization matrix: every route with every scope, on the token's own objects, on those of
//! another tenant, and on missing ones. The answers for the last two must be equal.

use serde_json::{Value, json};
use tickwheel_queue::{JobId, Time};
use tickwheel_server::tokens::{Scope, TokenStore};

use crate::client::{Answer, PATIENCE, Request, Service, token};

const OURS: &str = "a-ours";
const THEIRS: &str = "b-secret";
const NONE: &str = "b-nowhere";
const LEASE: &str = "00000000000000ff";

/// A route: the scope that it needs, its method, path and body. `ID`, `QUEUE` and `NAME` stand for
/// the object of the request.
type Route = (Scope, &'static str, &'static str, Value);

fn routes_by_id() -> Vec<Route> {
    use Scope::{Admin, Consume, Produce, Read};
    let lease = json!({"token": LEASE});
    let item = |more: Value| {
        let mut item = json!({"id": "ID"});
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"items": [item]})
    };
    vec![
        (Read, "GET", "/v1/jobs/ID", Value::Null),
        (Produce, "POST", "/v1/jobs/ID/reschedule", json!({"delay": 1})),
        (Produce, "DELETE", "/v1/jobs/ID", Value::Null),
        (Consume, "POST", "/v1/jobs/ID/ack", lease.clone()),
        (Consume, "POST", "/v1/jobs/ID/fail", lease.clone()),
        (Consume, "POST", "/v1/jobs/ID/release", lease.clone()),
        (Consume, "POST", "/v1/jobs/ID/extend", json!({"token": LEASE, "lease": 9})),
        (Admin, "POST", "/v1/jobs/ID/kick", Value::Null),
        (Produce, "POST", "/v1/jobs/batch/reschedule", item(json!({"delay": 1}))),
        (Produce, "POST", "/v1/jobs/batch/cancel", item(json!({}))),
        (Consume, "POST", "/v1/jobs/batch/ack", item(lease.clone())),
        (Consume, "POST", "/v1/jobs/batch/fail", item(lease.clone())),
        (Consume, "POST", "/v1/jobs/batch/release", item(lease)),
        (Consume, "POST", "/v1/jobs/batch/extend", item(json!({"token": LEASE, "lease": 9}))),
        (Admin, "POST", "/v1/jobs/batch/kick", item(json!({}))),
    ]
}

fn routes_by_queue() -> Vec<Route> {
    use Scope::{Admin, Consume, Produce, Read};
    vec![
        (Read, "GET", "/v1/queues/QUEUE", Value::Null),
        (Read, "GET", "/v1/queues/QUEUE/jobs", Value::Null),
        (Read, "GET", "/v1/queues/QUEUE/keys/k", Value::Null),
        (Read, "GET", "/v1/queues/QUEUE/events", Value::Null),
        (Produce, "POST", "/v1/queues/QUEUE/jobs", json!({"text": ""})),
        (Produce, "POST", "/v1/queues/QUEUE/keys/k/reschedule", json!({"delay": 1})),
        (Produce, "DELETE", "/v1/queues/QUEUE/keys/k", Value::Null),
        (Produce, "POST", "/v1/jobs/batch", json!({"jobs": [{"queue": "QUEUE", "text": ""}]})),
        (Consume, "POST", "/v1/queues/QUEUE/reserve", json!({})),
        (Admin, "PUT", "/v1/queues/QUEUE/settings", json!({})),
        (Admin, "PATCH", "/v1/queues/QUEUE/settings", json!({})),
        (Admin, "POST", "/v1/queues/QUEUE/pause", Value::Null),
        (Admin, "POST", "/v1/queues/QUEUE/resume", Value::Null),
        (Admin, "POST", "/v1/queues/QUEUE/kick", json!({})),
        (Admin, "POST", "/v1/queues/QUEUE/remove-finished", json!({"state": "dead"})),
        (Admin, "POST", "/v1/queues/QUEUE/cancel-waiting", Value::Null),
        (Admin, "POST", "/v1/queues/QUEUE/purge", json!({"state": "dead"})),
        (Admin, "POST", "/v1/queues/QUEUE/drain", Value::Null),
        (Admin, "PUT", "/v1/schedules/new", json!({"queue": "QUEUE", "every": "1h", "text": ""})),
    ]
}

fn routes_by_schedule() -> Vec<Route> {
    use Scope::{Admin, Read};
    vec![
        (Read, "GET", "/v1/schedules/NAME", Value::Null),
        (Read, "GET", "/v1/schedules/NAME/next", Value::Null),
        (Admin, "POST", "/v1/schedules/NAME/pause", Value::Null),
        (Admin, "POST", "/v1/schedules/NAME/resume", Value::Null),
        (Admin, "DELETE", "/v1/schedules/NAME", Value::Null),
    ]
}

/// Sends a request of a route with this object.
async fn ask(
    service: &Service,
    (_, method, path, body): &Route,
    token: &str,
    what: &str,
    value: &str,
) -> Seen {
    let mut request = Request::new(method, &path.replace(what, value)).token(token);
    if !body.is_null() {
        request =
            request.body("application/json", body.to_string().replace(what, value).as_bytes());
    }
    let mut client = service.connect().await;
    client.write(&request.bytes()).await;
    if path.ends_with("/events") {
        // A stream has no end, so only the head of the answer is read.
        let (status, _) = client.head().await.unwrap();
        return Seen { status, body: String::new() };
    }
    Seen::of(&client.answer(false).await.unwrap(), what, value)
}

/// The parts of an answer that can tell a caller something: neither its own input nor values that
/// differ each time.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    body: String,
}

impl Seen {
    fn of(answer: &Answer, what: &str, value: &str) -> Self {
        let mut body = answer.json();
        if let Some(problem) = body.as_object_mut() {
            problem.remove("request_id");
        }
        Self { status: answer.status, body: body.to_string().replace(value, what) }
    }

    /// Returns the codes of its problems; for a batch, those of its items.
    fn code(&self) -> Option<String> {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        let problem = if body["results"].is_array() { &body["results"][0]["error"] } else { &body };
        problem["code"].as_str().map(str::to_owned)
    }
}

struct Tenants {
    service: Service,
    admin: String,
    /// The tokens for `a-*`, by scope.
    tokens: Vec<(Scope, String)>,
}

impl Tenants {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let admin = token(&folder, "root", &[Scope::Admin], &["*"]);
        let tokens =
            Scope::ALL.map(|scope| (scope, token(&folder, scope.as_str(), &[scope], &["a-*"])));
        let service = Service::on(folder, |_| {}).await;
        let tenants = Self { service, admin, tokens: tokens.into() };
        for queue in [OURS, THEIRS] {
            tenants.put(queue).await;
        }
        tenants
    }

    fn token(&self, wanted: Scope) -> &str {
        let found = self.tokens.iter().find(|(scope, _)| *scope == wanted);
        &found.unwrap().1
    }

    /// Puts a job due tomorrow and returns its id.
    async fn put(&self, queue: &str) -> String {
        self.put_with(queue, json!({"text": "", "delay": "1d"})).await.json()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    async fn put_with(&self, queue: &str, job: Value) -> Answer {
        let request = Request::new("POST", &format!("/v1/queues/{queue}/jobs")).json(&job);
        let answer = self.service.send(request.token(&self.admin)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer
    }

    async fn get(&self, token: &str, path: &str) -> Answer {
        self.service.send(Request::new("GET", path).token(token)).await
    }
}

/// Waits until a condition holds.
async fn until(is_so: impl AsyncFn() -> bool) {
    let poll = async {
        while !is_so().await {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, poll).await.expect("it becomes so");
}

#[tokio::test]
async fn by_id_what_is_not_ours_is_like_what_is_not_there() {
    let tenants = Tenants::start().await;
    let service = &tenants.service;
    for route in routes_by_id() {
        for (scope, token) in &tenants.tokens {
            let has_scope = *scope == route.0 || *scope == Scope::Admin;
            let ours = tenants.put(OURS).await;
            let theirs = tenants.put(THEIRS).await;
            let unknown = JobId::new(Time::from_millis(1)).to_string();
            let foreign = ask(service, &route, token, "ID", &theirs).await;
            let nothing = ask(service, &route, token, "ID", &unknown).await;
            let own = ask(service, &route, token, "ID", &ours).await;
            assert_eq!(foreign, nothing, "{route:?} with {scope}");
            assert!(!foreign.body.contains(THEIRS), "{foreign:?}");
            let wanted = if has_scope { "not-found" } else { "forbidden" };
            assert_eq!(foreign.code().as_deref(), Some(wanted), "{route:?} with {scope}");
            let is_refused = matches!(own.code().as_deref(), Some("forbidden" | "not-found"));
            assert_eq!(is_refused, !has_scope, "{route:?} with {scope}: {own:?}");
            // The other tenant's job is unchanged, as a token for all queues can see.
            let job = tenants.get(&tenants.admin, &format!("/v1/jobs/{theirs}")).await.json();
            assert_eq!(
                (job["state"].as_str(), job["attempts"].as_u64()),
                (Some("scheduled"), Some(0))
            );
            let by_admin = ask(service, &route, &tenants.admin, "ID", &theirs).await;
            assert_ne!(by_admin.code().as_deref(), Some("not-found"), "{route:?}");
        }
    }
    tenants.service.stop().await;
}

#[tokio::test]
async fn a_queue_that_is_not_ours_is_refused_whether_it_is_there_or_not() {
    let tenants = Tenants::start().await;
    let service = &tenants.service;
    for queue in [OURS, THEIRS] {
        tenants.put_with(queue, json!({"text": "", "delay": "1d", "key": "k"})).await;
    }
    for route in routes_by_queue() {
        for (scope, token) in &tenants.tokens {
            let has_scope = *scope == route.0 || *scope == Scope::Admin;
            let foreign = ask(service, &route, token, "QUEUE", THEIRS).await;
            let nothing = ask(service, &route, token, "QUEUE", NONE).await;
            let own = ask(service, &route, token, "QUEUE", OURS).await;
            assert_eq!(foreign, nothing, "{route:?} with {scope}");
            let is_forbidden =
                |seen: &Seen| seen.status == 403 || seen.code().as_deref() == Some("forbidden");
            assert!(is_forbidden(&foreign), "{route:?} with {scope}: {foreign:?}");
            assert_eq!(is_forbidden(&own), !has_scope, "{route:?} with {scope}: {own:?}");
        }
    }
    assert_eq!(tenants.get(&tenants.admin, &format!("/v1/queues/{NONE}")).await.status, 404);
    tenants.service.stop().await;
}

#[tokio::test]
async fn a_schedule_that_is_not_ours_is_like_one_that_is_not_there() {
    let tenants = Tenants::start().await;
    let service = &tenants.service;
    let put = async |name: &str, queue: &str, token: &str| {
        let body = json!({"queue": queue, "every": "1h", "text": ""});
        let request = Request::new("PUT", &format!("/v1/schedules/{name}")).json(&body);
        service.send(request.token(token)).await
    };
    for route in routes_by_schedule() {
        for (scope, token) in &tenants.tokens {
            let has_scope = *scope == route.0 || *scope == Scope::Admin;
            for (name, queue) in [("sched-ours", OURS), ("sched-theirs", THEIRS)] {
                assert!(put(name, queue, &tenants.admin).await.status < 300);
            }
            let foreign = ask(service, &route, token, "NAME", "sched-theirs").await;
            let nothing = ask(service, &route, token, "NAME", "sched-none").await;
            let own = ask(service, &route, token, "NAME", "sched-ours").await;
            assert_eq!(foreign, nothing, "{route:?} with {scope}");
            assert_eq!(foreign.status, if has_scope { 404 } else { 403 });
            assert!(!foreign.body.contains(THEIRS), "{foreign:?}");
            assert_eq!(own.status, if has_scope { 200 } else { 403 }, "{own:?}");
        }
    }
    // Names are global: a name in use is refused, but the answer does not tell whose it is.
    assert!(put("sched-theirs", THEIRS, &tenants.admin).await.status < 300);
    let taken = put("sched-theirs", OURS, tenants.token(Scope::Admin)).await;
    assert_eq!(taken.problem(400, "invalid-parameter").as_deref(), Some("name"));
    assert!(!taken.body.contains(THEIRS), "{taken:?}");
    tenants.service.stop().await;
}

#[tokio::test]
async fn an_id_of_another_tenant_cannot_be_used_and_is_not_explained() {
    let tenants = Tenants::start().await;
    let (ours, theirs) = (tenants.put(OURS).await, tenants.put(THEIRS).await);
    let producer = tenants.token(Scope::Produce);
    let put = async |id: &str, key: Option<&str>| {
        let path = format!("/v1/queues/{OURS}/jobs");
        let mut request = Request::new("POST", &path).json(&json!({"text": "", "id": id}));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        tenants.service.send(request.token(producer)).await
    };
    for key in [None, Some("k")] {
        put(&ours, key).await.problem(409, "id-exists");
        let refused = put(&theirs, key.map(|_| "other")).await;
        assert_eq!(refused.problem(422, "invalid-field").as_deref(), Some("/id"));
        assert!(!refused.body.contains(THEIRS) && !refused.body.contains("exist"), "{refused:?}");
    }
    let batch = json!({"jobs": [{"queue": OURS, "text": "", "id": theirs}]});
    let request = Request::new("POST", "/v1/jobs/batch").json(&batch).token(producer);
    let result = tenants.service.send(request).await.json()["results"][0]["error"].clone();
    assert_eq!(
        (&result["code"], &result["field"]),
        (&json!("invalid-field"), &json!("/jobs/0/id"))
    );
    tenants.service.stop().await;
}

#[tokio::test]
async fn lists_numbers_and_metrics_leave_other_tenants_out() {
    let tenants = Tenants::start().await;
    for _ in 0..40 {
        tenants.put(THEIRS).await;
    }
    let reader = tenants.token(Scope::Read);
    let queues = tenants.get(reader, "/v1/queues").await.json();
    assert_eq!(queues["queues"].as_array().unwrap().len(), 1);
    let stats = tenants.get(reader, "/v1/stats?since=5m").await.json();
    assert_eq!((&stats["queues"], &stats["pending"]), (&json!(1), &json!(1)));
    for whole in ["put", "commits", "disk_bytes", "in_memory", "lateness", "commit_time", "recent"]
    {
        assert_eq!(stats[whole], Value::Null, "{whole}");
    }
    let metrics = tenants.get(reader, "/metrics").await.body;
    assert!(metrics.contains(&format!("queue=\"{OURS}\"")));
    // The count of queues without metrics does not include the other tenant's queue.
    let of_all = "tickwheel_queues_without_metrics 0";
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        assert!(line == of_all || line.contains(&format!("queue=\"{OURS}\"")), "{line}");
    }
    let all = tenants.get(&tenants.admin, "/v1/stats").await.json();
    assert_eq!((&all["queues"], &all["pending"], &all["put"]), (&json!(2), &json!(42), &json!(42)));
    assert!(
        tenants.get(&tenants.admin, "/metrics").await.body.contains("tickwheel_jobs_put_total 42")
    );
    tenants.service.stop().await;
}

/// A tenant sends batches with ids that another tenant's queue creates at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_batch_that_races_with_its_ids_touches_nothing() {
    const ROUNDS: usize = 10;
    let tenants = Tenants::start().await;
    for _ in 0..ROUNDS {
        let ids: Vec<String> =
            (0..2_000).map(|_| JobId::new(Time::from_millis(1)).to_string()).collect();
        let items: Vec<_> = ids.iter().map(|id| json!({"id": id})).collect();
        let cancel = Request::new("POST", "/v1/jobs/batch/cancel").json(&json!({"items": items}));
        let mut attacker = tenants.service.connect().await;
        attacker.write(&cancel.token(tenants.token(Scope::Produce)).bytes()).await;
        // The last jobs are created while the batch is in flight.
        for id in ids.iter().rev().take(5) {
            tenants.put_with(THEIRS, json!({"text": "", "delay": "1d", "id": id})).await;
        }
        let results = attacker.answer(false).await.unwrap().json()["results"].clone();
        for result in results.as_array().unwrap() {
            assert_eq!(result["error"]["code"], "not-found", "{result}");
        }
        for id in ids.iter().rev().take(5) {
            let job = tenants.get(&tenants.admin, &format!("/v1/jobs/{id}")).await.json();
            assert_eq!(job["state"], "scheduled");
        }
    }
    tenants.service.stop().await;
}

/// Pages, answers to `reserve` and backups are produced while the client reads them. A client whose
/// token is removed gets at most the data that was already in flight.
#[tokio::test]
async fn a_long_answer_breaks_off_when_its_token_is_removed() {
    const JOBS: usize = 15;
    const PAYLOAD: usize = 1 << 20;
    let service = Service::start().await;
    let root = token(&service.folder, "root", &[Scope::Admin], &["*"]);
    let put = json!({"text": "x".repeat(PAYLOAD)});
    // Until the service has read the token, it accepts requests without one.
    until(async || service.get("/v1/queues").await.status == 401).await;
    for _ in 0..JOBS {
        let request = Request::new("POST", "/v1/queues/q/jobs").json(&put).token(&root);
        assert_eq!(service.send(request).await.status, 201);
    }
    let requests = [
        Request::new("GET", "/v1/queues/q/jobs?limit=1000"),
        Request::new("GET", "/v1/backup"),
        Request::new("POST", "/v1/queues/q/reserve").json(&json!({"limit": JOBS})),
    ];
    for (number, request) in requests.into_iter().enumerate() {
        let name = format!("reader-{number}");
        let reader = token(&service.folder, &name, &[Scope::Admin], &["*"]);
        let ask = || Request::new("GET", "/v1/queues").token(&reader);
        until(async || service.send(ask()).await.status == 200).await;
        let mut client = service.connect().await;
        client.write(&request.token(&reader).bytes()).await;
        let (status, _) = client.head().await.unwrap();
        assert_eq!(status, 200);
        let mut read = client.chunk().await.unwrap().len();
        TokenStore::new(service.folder.path()).remove(&name).unwrap();
        until(async || service.send(ask()).await.status == 401).await;
        while let Some(chunk) = client.chunk().await {
            read += chunk.len();
        }
        assert!(read < JOBS * PAYLOAD, "request {number} was answered whole: {read} bytes");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_worker_whose_token_is_removed_gets_no_job() {
    let tenants = Tenants::start().await;
    let service = &tenants.service;
    let worker = tenants.token(Scope::Consume);
    let reserve = |token: &str, wait: &str| {
        let path = format!("/v1/queues/{OURS}/reserve");
        Request::new("POST", &path).json(&json!({"wait": wait})).token(token)
    };
    let mut waiting = service.connect().await;
    waiting.write(&reserve(worker, "60s").bytes()).await;
    until(async || {
        let metrics = tenants.get(&tenants.admin, "/metrics").await.body;
        // This request and the waiting one.
        metrics.contains("tickwheel_http_requests_in_flight 2")
    })
    .await;
    TokenStore::new(service.folder.path()).remove("consume").unwrap();
    until(async || tenants.get(worker, "/v1/queues").await.status == 401).await;
    let id = tenants.put_with(OURS, json!({"text": ""})).await.json()["id"].clone();
    waiting.answer(false).await.unwrap().problem(401, "unauthorized");
    // The job was never leased to the removed worker: the next delivery is its first.
    let next = service.send(reserve(&tenants.admin, "10s")).await.json()["deliveries"][0].clone();
    assert_eq!((&next["job"]["id"], &next["job"]["attempts"]), (&id, &json!(1)));
    let stats = tenants.get(&tenants.admin, "/v1/stats").await.json();
    assert_eq!(stats["delivered"], 1);
    tenants.service.stop().await;
}
