//! The authorization matrix: every route, with every scope, on own, foreign and unknown objects.
//!
//! Two tenants share a server: tokens for `a-*` attack the objects of `b-*`. Each route is called
//! with a token of each scope: on the tenant's own objects, on foreign ones in every state, and on
//! foreign ones that do not exist. The rules:
//!
//! - without the scope the answer is 403, the same for all targets;
//! - with the scope, requests for own objects succeed;
//! - the answer for a foreign object is exactly that for a missing one, and the object is
//!   unchanged;
//! - no answer names a foreign queue, schedule or job that the caller did not name.

use serde_json::{Value, json};

use crate::http::{Answer, Client};
use crate::report::{Report, Scale};
use crate::rig::Server;
use crate::tokens::Token;

const SCOPES: [&str; 4] = ["read", "produce", "consume", "admin"];
const FAR: &str = "30d";

/// A route with placeholders in its path and body, and the scope that it needs.
struct Route {
    method: &'static str,
    path: &'static str,
    body: &'static str,
    scope: &'static str,
}

const fn route(
    method: &'static str,
    path: &'static str,
    body: &'static str,
    scope: &'static str,
) -> Route {
    Route { method, path, body, scope }
}

/// Routes that name a job by its id; they are tested on jobs in every state.
const BY_ID: [Route; 15] = [
    route("GET", "/v1/jobs/{id}", "", "read"),
    route("DELETE", "/v1/jobs/{id}", "", "produce"),
    route("POST", "/v1/jobs/{id}/reschedule", r#"{"delay":"1h"}"#, "produce"),
    route("POST", "/v1/jobs/{id}/ack", r#"{"token":"{lease}"}"#, "consume"),
    route("POST", "/v1/jobs/{id}/fail", r#"{"token":"{lease}","dead":true}"#, "consume"),
    route("POST", "/v1/jobs/{id}/extend", r#"{"token":"{lease}","lease":"2h"}"#, "consume"),
    route("POST", "/v1/jobs/{id}/release", r#"{"token":"{lease}"}"#, "consume"),
    route("POST", "/v1/jobs/{id}/kick", "", "admin"),
    route("POST", "/v1/jobs/batch/cancel", r#"{"items":[{"id":"{id}"}]}"#, "produce"),
    route("POST", "/v1/jobs/batch/reschedule", r#"{"items":[{"id":"{id}","delay":1}]}"#, "produce"),
    route(
        "POST",
        "/v1/jobs/batch/ack",
        r#"{"items":[{"id":"{id}","token":"{lease}"}]}"#,
        "consume",
    ),
    route(
        "POST",
        "/v1/jobs/batch/fail",
        r#"{"items":[{"id":"{id}","token":"{lease}","dead":true}]}"#,
        "consume",
    ),
    route(
        "POST",
        "/v1/jobs/batch/extend",
        r#"{"items":[{"id":"{id}","token":"{lease}","lease":"2h"}]}"#,
        "consume",
    ),
    route(
        "POST",
        "/v1/jobs/batch/release",
        r#"{"items":[{"id":"{id}","token":"{lease}"}]}"#,
        "consume",
    ),
    route("POST", "/v1/jobs/batch/kick", r#"{"items":[{"id":"{id}"}]}"#, "admin"),
];

/// Imports a job into a queue.
const IMPORT: &str = r#"{"items":[{"created":1,"attempts":0,
    "put":{"id":"0190163d-8694-739b-aea5-966c26f8adff","queue":"{queue}","text":"x","delay":"1h"}}]}"#;

/// Routes that name a queue, a key in it, or a schedule.
const BY_NAME: [Route; 33] = [
    route("POST", "/v1/queues/{queue}/jobs", r#"{"text":"x","delay":"1h"}"#, "produce"),
    route(
        "POST",
        "/v1/jobs/batch",
        r#"{"jobs":[{"queue":"{queue}","text":"x","delay":"1h"}]}"#,
        "produce",
    ),
    route("GET", "/v1/queues/{queue}/jobs", "", "read"),
    route("GET", "/v1/queues/{queue}/jobs?state=dead&key_prefix=k", "", "read"),
    route("GET", "/v1/queues/{queue}/keys/{key}", "", "read"),
    route("DELETE", "/v1/queues/{queue}/keys/{key}", "", "produce"),
    route("POST", "/v1/queues/{queue}/keys/{key}/reschedule", r#"{"delay":"1h"}"#, "produce"),
    route("POST", "/v1/queues/{queue}/reserve", r#"{"limit":10}"#, "consume"),
    route("GET", "/v1/queues/{queue}", "", "read"),
    route("GET", "/v1/history?queue={queue}", "", "read"),
    route("GET", "/v1/queues/{queue}/errors", "", "read"),
    route("GET", "/v1/queues/{queue}/jobs?key={key}&error=x", "", "read"),
    route("POST", "/v1/queues/{queue}/bulk", r#"{"action":"retry","dry_run":true}"#, "admin"),
    route("POST", "/v1/queues/{queue}/bulk", r#"{"action":"cancel"}"#, "admin"),
    route("PUT", "/v1/queues/{queue}/settings", "{}", "admin"),
    route("PATCH", "/v1/queues/{queue}/settings", "{}", "admin"),
    route("GET", "/v1/queues/{queue}/groups", "", "read"),
    route("PATCH", "/v1/queues/{queue}/groups/acme", r#"{"paused":true}"#, "admin"),
    route("POST", "/v1/queues/{queue}/pause", "", "admin"),
    route("POST", "/v1/queues/{queue}/resume", "", "admin"),
    route("POST", "/v1/queues/{queue}/kick", "{}", "admin"),
    route("POST", "/v1/queues/{queue}/remove-finished", r#"{"state":"dead"}"#, "admin"),
    route("POST", "/v1/queues/{queue}/cancel-waiting", "", "admin"),
    route("POST", "/v1/queues/{queue}/purge", r#"{"state":"dead"}"#, "admin"),
    route("POST", "/v1/queues/{queue}/drain", "", "admin"),
    route(
        "PUT",
        "/v1/schedules/{schedule}",
        r#"{"queue":"{queue}","cron":"0 3 1 1 *","text":"x"}"#,
        "admin",
    ),
    route("GET", "/v1/schedules/{schedule}", "", "read"),
    route("GET", "/v1/schedules/{schedule}/next?n=2", "", "read"),
    route("POST", "/v1/schedules/{schedule}/pause", "", "admin"),
    route("POST", "/v1/schedules/{schedule}/resume", "", "admin"),
    route("DELETE", "/v1/schedules/{schedule}", "", "admin"),
    route("POST", "/v1/jobs/batch/import", IMPORT, "admin"),
    route("DELETE", "/v1/queues/{queue}?force=true", "", "admin"),
];

/// Routes that concern all queues: a token for some queues is refused, whatever its scope.
const FOR_ALL_QUEUES: [Route; 13] = [
    route("GET", "/v1/backup", "", "admin"),
    route("GET", "/v1/targets", "", "read"),
    route("GET", "/v1/target-events", "", "read"),
    route("GET", "/v1/targets/{target}", "", "read"),
    route("PUT", "/v1/targets/{target}", r#"{"url":"https://attacker.example"}"#, "admin"),
    route("PUT", "/v1/targets/a-new", r#"{"url":"https://attacker.example"}"#, "admin"),
    route("PATCH", "/v1/targets/{target}", r#"{"url":"https://attacker.example"}"#, "admin"),
    route("POST", "/v1/targets/{target}/pause", "", "admin"),
    route("POST", "/v1/targets/{target}/resume", "", "admin"),
    route("POST", "/v1/targets/{target}/rotate", "{}", "admin"),
    route("POST", "/v1/targets/{target}/test", "{}", "admin"),
    route("DELETE", "/v1/targets/{target}", "", "admin"),
    route("PATCH", "/v1/queues/a-own/settings", r#"{"target":"{target}"}"#, "admin"),
];
/// The target that belongs to the operator.
const TARGET: &str = "b-partner";

/// Routes that list everything: their answers must be filtered.
const LISTS: [&str; 8] = [
    "/v1/queues",
    "/v1/schedules",
    "/v1/stats",
    "/v1/overview",
    "/v1/history",
    "/v1/wheel",
    "/v1/errors",
    "/metrics",
];

/// The objects that a request can name. A route uses those that it has placeholders for.
#[derive(Clone, Debug)]
struct Target {
    queue: String,
    key: String,
    schedule: String,
    /// Ids of jobs: scheduled, leased, dead.
    ids: Vec<String>,
    lease: String,
}

impl Target {
    /// Creates a queue with a job in every state, and a schedule.
    fn make(root: &Client, queue: &str) -> Self {
        let (key, schedule) = (format!("key-of-{queue}"), format!("nightly-{queue}"));
        let jobs = json!({ "jobs": [
            { "queue": queue, "text": "secret", "delay": FAR, "key": key },
            { "queue": queue, "text": "secret" },
            { "queue": queue, "text": "secret" },
        ]});
        root.must("POST", "/v1/jobs/batch", &jobs);
        let reserve = json!({ "limit": 2, "lease": "1d", "wait": "30s" });
        let mut leased = Vec::new();
        while leased.len() < 2 {
            let answer = root.must("POST", &format!("/v1/queues/{queue}/reserve"), &reserve);
            leased.extend(answer["deliveries"].as_array().cloned().unwrap_or_default());
        }
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let dead = text(&leased[1]["job"]["id"]);
        let fail = json!({ "token": leased[1]["token"], "dead": true });
        root.must("POST", &format!("/v1/jobs/{dead}/fail"), &fail);
        let plan = json!({ "queue": queue, "cron": "0 3 1 1 *", "text": "secret" });
        root.must("PUT", &format!("/v1/schedules/{schedule}"), &plan);
        let scheduled = root.must("GET", &format!("/v1/queues/{queue}/keys/{key}"), &Value::Null);
        Self {
            queue: queue.to_owned(),
            key,
            schedule,
            ids: vec![text(&scheduled["id"]), text(&leased[0]["job"]["id"]), dead],
            lease: text(&leased[0]["token"]),
        }
    }

    /// Returns names that are not in use.
    fn unknown(queue: &str) -> Self {
        Self {
            queue: queue.to_owned(),
            key: "key-of-nothing".to_owned(),
            schedule: format!("nightly-{queue}"),
            ids: vec!["0190163d-8694-739b-aea5-966c26f8ad91".to_owned()],
            lease: "0123456789abcdef".to_owned(),
        }
    }

    fn fill(&self, text: &str, id: &str) -> String {
        text.replace("{queue}", &self.queue)
            .replace("{key}", &self.key)
            .replace("{schedule}", &self.schedule)
            .replace("{lease}", &self.lease)
            .replace("{id}", id)
    }

    fn names<'a>(&'a self, id: &'a str) -> [&'a str; 5] {
        // Longer names are replaced first, because key and schedule contain the name of the queue.
        [&self.key, &self.schedule, &self.lease, id, &self.queue]
    }

    fn call(&self, caller: &Client, route: &Route, id: &str) -> Answer {
        caller.send(route.method, &self.fill(route.path, id), &self.fill(route.body, id))
    }
}

pub(crate) fn run(_: &Scale, report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Token::new(folder.path(), &["admin"], "*");
    let tokens = SCOPES.map(|scope| (scope, Token::new(folder.path(), &[scope], "a-*")));
    let server = Server::start_on(folder.path());
    let client = Client::new(&server);
    let root = client.with_token(&root.secret);
    let matrix = Matrix {
        foreign: Target::make(&root, "b-secret"),
        unknown: Target::unknown("b-nothing"),
        root,
    };
    let target = format!("/v1/targets/{TARGET}");
    matrix.root.must("PUT", &target, &json!({"url": "https://partner.example/hook"}));
    let before = matrix.what_is_there();
    let mut count = 0;
    for (scope, token) in &tokens {
        let caller = client.with_token(&token.secret);
        for route in BY_ID.iter().chain(&BY_NAME) {
            count += matrix.try_route(report, &caller, scope, route);
        }
        for path in LISTS {
            let answer = caller.get(path);
            let expected = if matches!(*scope, "read" | "admin") { 200 } else { 403 };
            report.check(answer.status == expected, || {
                format!("{scope}: GET {path} gave {}, expected {expected}", answer.status)
            });
            matrix.check_silence(report, scope, path, &answer, "");
            count += 1;
        }
        matrix.claim_foreign_names(report, &caller, scope);
        count += matrix.try_all_queues(report, &caller, scope);
        count += matrix.find_foreign_ids(report, &caller, scope);
    }
    let after = matrix.what_is_there();
    report.check(before == after, || {
        format!("the foreign queue has changed:\nbefore {before}\nafter  {after}")
    });
    report.fact(format!("{count} combinations of route, scope and target"));
}

struct Matrix {
    root: Client,
    foreign: Target,
    unknown: Target,
}

impl Matrix {
    /// Calls a route on all targets, and returns the number of calls.
    fn try_route(&self, report: &mut Report, caller: &Client, scope: &str, route: &Route) -> u64 {
        let may = scope == route.scope || scope == "admin";
        let what = |target: &str| format!("{scope}: {} {} on {target}", route.method, route.path);
        let unknown = self.unknown.call(caller, route, &self.unknown.ids[0]);
        let expected = without_names(&unknown, &self.unknown, &self.unknown.ids[0]);
        report.check(matches!(first_status(&unknown), 403 | 404), || {
            format!("{} gave {}", what("something unknown"), unknown.brief())
        });
        let states = if route.path.contains("{id}") || route.body.contains("{id}") { 3 } else { 1 };
        for id in &self.foreign.ids[..states] {
            let answer = self.foreign.call(caller, route, id);
            let got = without_names(&answer, &self.foreign, id);
            report.check(got == expected, || {
                format!(
                    "{} differs from the unknown:\n{got}\n{expected}",
                    what("something foreign")
                )
            });
            self.check_silence(report, scope, route.path, &answer, id);
        }
        let own = Target::make(&self.root, &format!("a-{}", id_part(&self.root)));
        let mut served = 0;
        for id in &own.ids[..states] {
            let code = first_status(&own.call(caller, route, id));
            report.check(may == !matches!(code, 401 | 403 | 404), || {
                format!("{} gave {code}", what("its own"))
            });
            served += u64::from(code < 300);
        }
        report.check(!may || served > 0, || format!("{} was never served", what("its own")));
        1 + 2 * states as u64
    }

    /// Calls the routes that no tenant may call, and returns the number of calls.
    fn try_all_queues(&self, report: &mut Report, caller: &Client, scope: &str) -> u64 {
        for Route { method, path, body, .. } in &FOR_ALL_QUEUES {
            let (path, body) = (path.replace("{target}", TARGET), body.replace("{target}", TARGET));
            let answer = caller.send(method, &path, &body);
            report.check(answer.status == 403, || {
                format!("{scope}: {method} {path} gave {}", answer.brief())
            });
            self.check_silence(report, scope, &path, &answer, "");
        }
        FOR_ALL_QUEUES.len() as u64
    }

    /// Looks for foreign jobs by prefixes of their ids, and returns the number of calls.
    fn find_foreign_ids(&self, report: &mut Report, caller: &Client, scope: &str) -> u64 {
        let may = matches!(scope, "read" | "admin");
        for id in &self.foreign.ids {
            for length in [4, 13, 35, 36] {
                let answer = caller.get(&format!("/v1/ids/{}", &id[..length]));
                report.check(answer.status == if may { 200 } else { 403 }, || {
                    format!("{scope}: a search of ids gave {}", answer.brief())
                });
                // A refusal contains the path, and so the id of the request.
                report.check(!may || !answer.text().contains(id), || {
                    format!("{scope}: a search of ids finds a foreign job: {}", answer.brief())
                });
            }
        }
        4 * self.foreign.ids.len() as u64
    }

    /// Checks that an answer contains no foreign name except those of the request.
    fn check_silence(
        &self,
        report: &mut Report,
        scope: &str,
        path: &str,
        answer: &Answer,
        id: &str,
    ) {
        let text = answer.text();
        for secret in self.foreign.ids.iter().filter(|known| **known != id) {
            report.check(!text.contains(secret), || {
                format!("{scope}: {path} tells the id of a foreign job: {}", answer.brief())
            });
        }
        for name in [&self.foreign.queue, &self.foreign.schedule, &self.foreign.lease] {
            let asked = path.contains("{queue}") || path.contains("{schedule}") || !id.is_empty();
            let is_told = text.contains(name.as_str());
            // A request by id names nothing but the id. An import names its queue.
            let by_id =
                path.contains("{id}") || (path.contains("/batch/") && !path.ends_with("/import"));
            report.check(!is_told || (asked && !by_id), || {
                format!("{scope}: {path} tells a foreign name: {}", answer.brief())
            });
        }
    }

    /// Puts jobs and schedules of the tenant's own under foreign ids, keys and names.
    fn claim_foreign_names(&self, report: &mut Report, caller: &Client, scope: &str) {
        if !matches!(scope, "produce" | "admin") {
            return;
        }
        for id in &self.foreign.ids {
            let job = json!({ "text": "x", "delay": FAR, "id": id });
            let answer = caller.post("/v1/queues/a-claims/jobs", &job);
            self.check_silence(report, scope, "put with the id of a foreign job", &answer, id);
        }
        let job = json!({ "text": "x", "delay": FAR, "key": self.foreign.key });
        let answer = caller.post("/v1/queues/a-claims/jobs", &job);
        report.check(answer.status < 300, || {
            format!("{scope}: a key of a foreign queue is taken here: {}", answer.brief())
        });
        if scope == "admin" {
            let plan = json!({ "queue": "a-claims", "cron": "0 3 1 1 *", "text": "x" });
            let path = format!("/v1/schedules/{}", self.foreign.schedule);
            let answer = caller.send("PUT", &path, &plan.to_string());
            report.check(!answer.text().contains(&format!("\"{}\"", self.foreign.queue)), || {
                format!("{scope}: PUT {path} tells a foreign queue: {}", answer.brief())
            });
        }
    }

    /// Returns everything about the foreign tenant, as its own admin sees it.
    fn what_is_there(&self) -> String {
        let Target { queue, schedule, .. } = &self.foreign;
        let paths = [
            format!("/v1/queues/{queue}/jobs"),
            format!("/v1/schedules/{schedule}"),
            "/v1/targets".to_owned(),
        ];
        let mut all: Vec<String> = paths.iter().map(|path| self.root.get(path).text()).collect();
        let queue = self.root.get(&format!("/v1/queues/{queue}")).json();
        all.push(format!("{} {}", queue["jobs"], queue["paused"]));
        all.join("\n")
    }
}

/// Returns the status of an answer, or of the first item in the answer to a batch.
fn first_status(answer: &Answer) -> u16 {
    let item = answer.json()["results"][0]["error"]["status"].as_u64();
    item.map_or(answer.status, |status| status as u16)
}

/// Returns the answer with every name of the target replaced by the same word.
fn without_names(answer: &Answer, target: &Target, id: &str) -> String {
    let mut json = answer.json();
    for place in ["/request_id", "/results/0/error/request_id"] {
        if let Some(id) = json.pointer_mut(place) {
            *id = Value::Null;
        }
    }
    let mut text = format!("{} {json}", answer.status);
    for name in target.names(id) {
        text = text.replace(name, "NAME");
    }
    text
}

/// Returns a number that is unique to the queue: the number of jobs put so far.
fn id_part(root: &Client) -> u64 {
    root.must("GET", "/v1/stats", &Value::Null)["put"].as_u64().expect("a number")
}
