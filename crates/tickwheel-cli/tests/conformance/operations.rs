//! The operations of scenarios, performed with the client.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tickwheel_client::api::{Code, Delay, HistoryWindow, JobId, LeaseToken, Problem, PutRequest};
use tickwheel_client::testing::Fake;
use tickwheel_client::{
    BatchResult, Client, Error, EventFilter, Events, JobRef, Lease, List, NewJob, Outcome, Payload,
    Retry, TargetEvents, Told, Work, verify_webhook,
};
use tokio::sync::watch;

use crate::server::Server;

type Answer = Result<Value, Error>;

pub(crate) struct Operations {
    server: Option<Server>,
    client: Client,
    events: Option<Events>,
    states: Option<TargetEvents>,
}

#[derive(Deserialize)]
struct LeaseArguments {
    id: JobId,
    token: LeaseToken,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: String,
    delay: Option<Delay>,
    #[serde(default)]
    dead: bool,
    lease: Option<Delay>,
}

impl LeaseArguments {
    fn lease(&self) -> Lease {
        Lease { id: self.id, token: self.token }
    }

    fn retry(&self) -> Retry {
        match self.delay {
            _ if self.dead => Retry::Never,
            Some(delay) => Retry::After(delay.0),
            None => Retry::ByPolicy,
        }
    }
}

#[derive(Deserialize)]
struct WorkArguments {
    queue: String,
    jobs: usize,
    concurrency: Option<usize>,
    prefetch: Option<usize>,
    lease: Option<Delay>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Items<T> {
    items: Vec<T>,
}

impl Operations {
    pub(crate) fn start(serve: &[String]) -> Self {
        let server = Server::start(serve);
        let client = Client::new(server.url.clone()).expect("a client");
        Self { server: Some(server), client, events: None, states: None }
    }

    pub(crate) fn on_a_fake() -> Self {
        Self { server: None, client: Fake::new().client(), events: None, states: None }
    }

    /// Returns the address of the server.
    pub(crate) fn url(&self) -> &str {
        self.server.as_ref().map_or("http://fake", |server| &server.url)
    }

    pub(crate) async fn take(&mut self, operation: &str, with: Value) -> Answer {
        match operation {
            "restart" => {
                let server = self.server.as_mut().expect("a server");
                server.restart(with["kill"] == true);
                Ok(Value::Null)
            }
            "follow" if with["targets"] == true => {
                self.states = Some(self.client.target_events().await?);
                Ok(Value::Null)
            }
            "follow" => {
                let filter = event_filter(&with);
                let events = self.client.events_matching(with["queue"].as_str(), &filter);
                self.events = Some(events.await?);
                Ok(Value::Null)
            }
            "events" => self.read_events(with["count"].as_u64().expect("a count")).await,
            "verify_webhook" => Ok(json!({"valid": is_valid(&with)})),
            "work" => self.work(arguments(&with)).await,
            "put" | "put_many" | "put_together" => self.put(operation, with).await,
            "get" | "cancel" | "reschedule" => self.by_job(operation, with).await,
            "reserve" | "ack" | "fail" | "extend" | "release" | "kick" => {
                self.by_lease(operation, with).await
            }
            "errors" | "change_matching" | "change_all" | "overview" | "history" | "wheel" => {
                self.insight(operation, with).await
            }
            _ if operation.contains("target") => self.target(operation, with).await,
            _ if operation.ends_with("_many") => self.batch(operation, with).await,
            _ if operation.contains("schedule") || operation == "next_runs" => {
                self.schedule(operation, with).await
            }
            _ => self.administrate(operation, with).await,
        }
    }

    async fn put(&self, operation: &str, mut with: Value) -> Answer {
        let key = with.as_object_mut().and_then(|with| with.remove("idempotency_key"));
        if operation == "put" {
            let put = put_request(with)?;
            return match key {
                None => answer(self.client.put(put).await?),
                Some(key) => {
                    let key = key.as_str().expect("a text");
                    answer(self.client.put_once(key, put).await?)
                }
            };
        }
        let items = with["items"].as_array().expect("items").clone();
        if operation == "put_together" {
            // A put that cannot be written fails by itself, as it would in the caller's code.
            let puts =
                items.into_iter().map(async |item| self.client.put(put_request(item)?).await);
            return Ok(results(futures_in_order(puts).await));
        }
        let puts: Result<Vec<NewJob>, Error> = items.into_iter().map(put_request).collect();
        let puts = puts?;
        let all = match key.as_ref().and_then(Value::as_str) {
            Some(key) => self.client.put_all_once(key, puts).await?,
            None => self.client.put_all(puts).await?,
        };
        Ok(results(all))
    }

    async fn by_job(&self, operation: &str, with: Value) -> Answer {
        let job = job_of(&with);
        match operation {
            "get" => answer(self.client.get(job).await?),
            "cancel" => Ok(json!({"was": self.client.cancel(job).await?})),
            _ => {
                let when = arguments(&without(with, &["id", "queue", "key"]));
                answer(self.client.reschedule(job, when).await?)
            }
        }
    }

    async fn by_lease(&self, operation: &str, with: Value) -> Answer {
        if operation == "reserve" {
            let queue = text(&with, "queue");
            let request = arguments(&without(with, &["queue"]));
            return Ok(json!({"deliveries": self.client.reserve(&queue, request).await?}));
        }
        if operation == "kick" {
            let id = arguments(&with["id"]);
            return Ok(json!({"state": self.client.kick(id).await?}));
        }
        let with: LeaseArguments = arguments(&with);
        let lease = with.lease();
        match operation {
            "ack" => {
                let result = with.result.as_ref().map(serde_json::value::to_raw_value);
                let result = result.transpose().expect("JSON");
                Ok(json!({"state": self.client.ack(lease, result.as_deref()).await?}))
            }
            "fail" => {
                let state = self.client.fail(lease, &with.error, with.retry()).await?;
                Ok(json!({"state": state}))
            }
            "extend" => {
                let length = with.lease.expect("a lease").0;
                answer(self.client.extend(lease, length).await?)
            }
            _ => {
                self.client.release(lease, with.delay.map(|delay| delay.0)).await?;
                Ok(json!({"released": true}))
            }
        }
    }

    async fn batch(&self, operation: &str, with: Value) -> Answer {
        let client = &self.client;
        match operation {
            "import_many" => batched(client.import_all(items(&with)).await),
            "ack_many" => batched(client.ack_all(items(&with)).await),
            "fail_many" => batched(client.fail_all(items(&with)).await),
            "extend_many" => batched(client.extend_all(items(&with)).await),
            "release_many" => batched(client.release_all(items(&with)).await),
            "cancel_many" => batched(client.cancel_all(items(&with)).await),
            "reschedule_many" => batched(client.reschedule_all(items(&with)).await),
            "kick_many" => batched(client.kick_all(items(&with)).await),
            other => panic!("unknown operation {other:?}"),
        }
    }

    async fn target(&self, operation: &str, with: Value) -> Answer {
        let client = &self.client;
        if operation == "targets" {
            return Ok(json!({"targets": client.targets().await?}));
        }
        let name = text(&with, "name");
        match operation {
            "target" => answer(client.target(&name).await?),
            "put_target" => answer(client.put_target(&name, &arguments(&with["settings"])).await?),
            "patch_target" => {
                answer(client.patch_target(&name, &arguments(&with["settings"])).await?)
            }
            "remove_target" => answer(client.remove_target(&name).await?),
            "pause_target" => answer(client.pause_target(&name).await?),
            "resume_target" => answer(client.resume_target(&name).await?),
            "rotate_target" => {
                let keep_old: Option<Delay> = arguments(&with["keep_old"]);
                answer(client.rotate_target(&name, keep_old.map(|time| time.0)).await?)
            }
            "test_target" => answer(client.test_target(&name).await?),
            other => panic!("unknown operation {other:?}"),
        }
    }

    async fn schedule(&self, operation: &str, with: Value) -> Answer {
        let client = &self.client;
        if operation == "schedules" {
            return Ok(json!({"schedules": client.schedules().await?}));
        }
        let name = text(&with, "name");
        match operation {
            "put_schedule" => {
                let schedule = arguments(&without(with, &["name"]));
                answer(client.put_schedule(&name, &schedule).await?)
            }
            "schedule" => answer(client.schedule(&name).await?),
            "pause_schedule" => answer(client.pause_schedule(&name).await?),
            "resume_schedule" => answer(client.resume_schedule(&name).await?),
            "remove_schedule" => answer(client.remove_schedule(&name).await?),
            "next_runs" => {
                let count = with["n"].as_u64().unwrap_or(5) as u32;
                Ok(json!({"next": client.next_runs(&name, count).await?}))
            }
            other => panic!("unknown operation {other:?}"),
        }
    }

    async fn administrate(&self, operation: &str, with: Value) -> Answer {
        let client = &self.client;
        let queue = with["queue"].as_str().unwrap_or_default().to_owned();
        let count = |count: u64| Ok(json!({"count": count}));
        match operation {
            "list" => answer(client.list(&list_of(&with)).await?),
            "list_all" => Ok(json!({"jobs": client.list_all(list_of(&with)).await?})),
            "queues" => Ok(json!({"queues": client.queues().await?})),
            "queue" => answer(client.queue(&queue).await?),
            "put_settings" => {
                let settings = arguments(&with["settings"]);
                answer(client.put_settings(&queue, &settings).await?)
            }
            "patch_settings" => {
                let patch = arguments(&with["settings"]);
                answer(client.patch_settings(&queue, &patch).await?)
            }
            "pause_queue" => answer(client.pause_queue(&queue).await?),
            "resume_queue" => answer(client.resume_queue(&queue).await?),
            "kick_queue" => count(client.kick_queue(&queue, with["limit"].as_u64()).await?),
            "purge_queue" | "remove_finished" => {
                let state = arguments(&with["state"]);
                let older: Option<Delay> = arguments(&with["older_than"]);
                count(client.remove_finished(&queue, state, older.map(|age| age.0)).await?)
            }
            "drain_queue" | "cancel_waiting" => count(client.cancel_waiting(&queue).await?),
            "remove_queue" => count(client.remove_queue(&queue, with["force"] == true).await?),
            "groups" => {
                let (prefix, page) = (with["prefix"].as_str(), with["page"].as_str());
                let limit = arguments(&with["limit"]);
                answer(client.groups(&queue, prefix, limit, page).await?)
            }
            "patch_group" => {
                let group = text(&with, "group");
                let patch = arguments(&without(with, &["queue", "group"]));
                answer(client.patch_group(&queue, &group, &patch).await?)
            }
            "find_ids" => Ok(json!({"ids": client.find_ids(&text(&with, "short")).await?})),
            "ready" => answer(client.ready().await?),
            "stats" if with["since"].is_string() => {
                let window: Delay = arguments(&with["since"]);
                answer(client.stats_since(window.0).await?)
            }
            "stats" => answer(client.stats().await?),
            "health" => answer(client.health().await?),
            "clock" => answer(client.clock().await?),
            "advance" => {
                let by: Delay = arguments(&with["by"]);
                answer(client.advance(by.0).await?)
            }
            other => panic!("unknown operation {other:?}"),
        }
    }

    async fn insight(&self, operation: &str, with: Value) -> Answer {
        let client = &self.client;
        let queue = with["queue"].as_str().map(str::to_owned);
        match operation {
            "errors" => answer(client.errors(queue.as_deref(), arguments(&with["limit"])).await?),
            "overview" => answer(client.overview().await?),
            "history" => {
                let window: Option<HistoryWindow> = arguments(&with["window"]);
                answer(client.history(window.unwrap_or_default(), queue.as_deref()).await?)
            }
            "wheel" => answer(client.wheel().await?),
            _ => {
                let queue = text(&with, "queue");
                let change = arguments(&without(with, &["queue"]));
                match operation {
                    "change_matching" => answer(client.change_matching(&queue, &change).await?),
                    _ => answer(client.change_all_matching(&queue, change).await?),
                }
            }
        }
    }

    async fn read_events(&mut self, count: u64) -> Answer {
        let mut found = Vec::new();
        while let Some(states) = self.states.as_mut().filter(|_| (found.len() as u64) < count) {
            found.push(serde_json::to_value(states.next().await?).expect("JSON"));
        }
        while (found.len() as u64) < count {
            let events = self.events.as_mut().expect("a stream was opened");
            if let Told::Event(event) = events.next().await? {
                found.push(serde_json::to_value(event).expect("JSON"));
            }
        }
        Ok(json!({"events": found}))
    }

    async fn work(&self, with: WorkArguments) -> Answer {
        let (calls, counted) = watch::channel(0);
        let handler = {
            let calls = Arc::new(calls);
            move |work: Work| {
                calls.send_modify(|calls| *calls += 1);
                handle(work)
            }
        };
        let mut builder = self.client.worker().concurrency(with.concurrency.unwrap_or(1));
        builder = builder.prefetch(with.prefetch.unwrap_or(0));
        if let Some(lease) = with.lease {
            builder = builder.lease(lease.0);
        }
        if let Some(name) = with.name {
            builder = builder.name(name);
        }
        let mut waiting = counted.clone();
        let stop = async move {
            waiting.wait_for(|calls| *calls >= with.jobs).await.expect("the worker runs");
        };
        builder.handle(with.queue, handler).run(stop).await;
        let count = *counted.borrow();
        Ok(json!({"handled": count}))
    }
}

/// Handles a job as its payload says.
async fn handle(work: Work) -> Result<Outcome, String> {
    let payload: Value = work.job().json().map_err(|error| error.to_string())?;
    let error = || payload["error"].as_str().unwrap_or_default().to_owned();
    let delay = || -> Duration { arguments::<Delay>(&payload["delay"]).0 };
    match payload["do"].as_str().expect("what to do") {
        "return" => match payload.get("result") {
            None => Ok(Outcome::Done(None)),
            Some(result) => Outcome::result(result).map_err(|error| error.to_string()),
        },
        "throw" => Err(error()),
        "retry" => Ok(Outcome::retry_after(error(), delay())),
        "dead" => Ok(Outcome::dead(error())),
        "release" => Ok(Outcome::Released(Some(delay()))),
        "put" => {
            let child = NewJob::text(payload["queue"].as_str().expect("a queue"), "child");
            work.client().put(child).await.map_err(|error| error.to_string())?;
            Ok(Outcome::Done(None))
        }
        other => panic!("unknown work {other:?}"),
    }
}

fn put_request(mut with: Value) -> Result<NewJob, Error> {
    let traceparent = with.as_object_mut().and_then(|with| with.remove("traceparent"));
    let mut request: PutRequest = typed(&with)?;
    if let Some(traceparent) = traceparent {
        let value = traceparent.as_str().expect("a text").to_owned();
        request.headers.insert("traceparent".to_owned(), value);
    }
    Ok(NewJob::from(request))
}

/// Returns the arguments of a call. Arguments that the types refuse give the problem that the
/// server would return.
fn typed<T: DeserializeOwned>(with: &Value) -> Result<T, Error> {
    serde_json::from_value(with.clone()).map_err(|error| {
        let is_wrong = |(name, value): &(&String, &Value)| {
            let alone = json!({name.as_str(): value});
            let error = serde_json::from_value::<T>(alone).err().map(|error| error.to_string());
            error.is_some_and(|error| !error.contains("missing field"))
        };
        let field = with.as_object().and_then(|with| with.iter().find(is_wrong));
        let mut problem = Problem::new(Code::InvalidField, error.to_string());
        problem.field = field.map(|(name, _)| format!("/{name}"));
        Error::Refused(Box::new(problem))
    })
}

fn job_of(with: &Value) -> JobRef {
    match with.get("id") {
        Some(id) => JobRef::Id(arguments(id)),
        None => JobRef::Key(text(with, "queue"), text(with, "key")),
    }
}

fn list_of(with: &Value) -> List {
    let text = |name: &str| match &with[name] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    List {
        queue: text("queue").unwrap_or_default(),
        state: arguments(&with["state"]),
        due_from: text("due_from"),
        due_to: text("due_to"),
        key: text("key"),
        key_prefix: text("key_prefix"),
        error: text("error"),
        error_group: text("error_group"),
        limit: arguments(&with["limit"]),
        page: text("page"),
    }
}

fn event_filter(with: &Value) -> EventFilter {
    let text = |name: &str| with[name].as_str().map(str::to_owned);
    EventFilter {
        events: text("event").iter().flat_map(|it| it.split(',')).map(str::to_owned).collect(),
        state: arguments(&with["state"]),
        key: text("key"),
        key_prefix: text("key_prefix"),
        error: text("error"),
    }
}

fn is_valid(with: &Value) -> bool {
    let headers: HashMap<String, String> = arguments(&with["headers"]);
    let headers: HashMap<String, String> =
        headers.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
    let header = |name: &str| headers.get(name).map(String::as_str);
    let now = Duration::from_secs(with["now"].as_u64().expect("a time"));
    let body = text(with, "body");
    let secret = text(with, "secret");
    let now = SystemTime::UNIX_EPOCH + now;
    verify_webhook(&secret, header, body.as_bytes(), now).is_ok()
}

fn arguments<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}

fn items<T: DeserializeOwned>(with: &Value) -> Vec<T> {
    arguments::<Items<T>>(with).items
}

fn text(with: &Value, name: &str) -> String {
    with[name].as_str().unwrap_or_else(|| panic!("no {name} in {with}")).to_owned()
}

fn without(mut with: Value, names: &[&str]) -> Value {
    let members = with.as_object_mut().expect("arguments");
    for name in names {
        members.remove(*name);
    }
    with
}

#[allow(clippy::unnecessary_wraps, reason = "every operation ends with it")]
fn answer(value: impl Serialize) -> Answer {
    Ok(serde_json::to_value(value).expect("JSON"))
}

fn batched<T: Serialize>(batch: BatchResult<T>) -> Answer {
    batch.map(results)
}

fn results<T: Serialize>(all: Vec<Result<T, Error>>) -> Value {
    let result = |result: Result<T, Error>| match result {
        Ok(value) => json!({"ok": value}),
        Err(error) => json!({"error": error.problem().expect("a problem")}),
    };
    json!({"results": all.into_iter().map(result).collect::<Vec<_>>()})
}

/// Runs all futures at the same time; the outputs are in their order.
async fn futures_in_order<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(|future| Box::pin(future)).collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let std::task::Poll::Ready(done) = future.as_mut().poll(context)
            {
                *output = Some(done);
            }
        }
        if outputs.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
