//! The dashboard: every view and form, with every scope, on own, foreign and unknown objects; and
//! requests that a page of another site makes.
//!
//! A browser with a token for `a-*` in its cookie attacks the objects of `b-*`. The rules are those
//! of the API: without the scope the answer is 403; the answer for a foreign object is that for a
//! missing one, and the object is unchanged; no page names it. In addition, the API does not accept
//! the cookie, and no request of another site is served.

use serde_json::{Value, json};

use crate::http::{Answer, Client, read_answer};
use crate::report::{Report, Scale};
use crate::rig::Server;
use crate::tokens::Token;

const SCOPES: [&str; 4] = ["read", "produce", "consume", "admin"];
const UNKNOWN_ID: &str = "0190163d-8694-739b-aea5-966c26f8ad91";
const SETTINGS: &str = "lease=1s&max_attempts=1&retry=1s&keep_done=1&keep_dead=1&keep_cancelled=1";

/// A view or a form with placeholders, and the scope that it needs.
type Route = (&'static str, &'static str, &'static str);

const VIEWS: [(&str, &str); 6] = [
    ("/queues/{queue}", "read"),
    ("/jobs?queue={queue}", "read"),
    ("/errors?queue={queue}", "read"),
    ("/jobs/{id}", "read"),
    ("/jobs/{id}/payload", "read"),
    ("/page/history?queue={queue}", "read"),
];

const FORMS: [Route; 15] = [
    ("/queues/{queue}/pause", "", "admin"),
    ("/queues/{queue}/resume", "", "admin"),
    ("/queues/{queue}/kick", "", "admin"),
    ("/queues/{queue}/cancel-waiting", "", "admin"),
    ("/queues/{queue}/remove-dead", "", "admin"),
    ("/queues/{queue}/settings", SETTINGS, "admin"),
    ("/queues/{queue}/groups", "group=x&paused=true", "admin"),
    ("/schedules/{schedule}/pause", "", "admin"),
    ("/schedules/{schedule}/remove", "", "admin"),
    ("/put", "queue={queue}&payload=x&delay=30d&do=put", "produce"),
    ("/jobs/{id}/run", "", "produce"),
    ("/jobs/{id}/reschedule", "delay=60d", "produce"),
    ("/jobs/{id}/retry", "", "admin"),
    ("/jobs/{id}/cancel", "", "produce"),
    ("/queues/{queue}/remove", "", "admin"),
];

/// Views of everything that a visitor may see.
const LISTS: [&str; 7] =
    ["/", "/queues", "/jobs", "/errors", "/schedules", "/wheel", "/jobs?state=scheduled"];

/// A browser with a cookie.
struct Visitor<'a> {
    client: &'a Client,
    cookie: &'a str,
}

impl Visitor<'_> {
    fn send(&self, method: &str, path: &str, form: &str, origin: &str) -> Answer {
        let mut request = self.client.head(method, path);
        request.extend([
            "cookie: tickwheel_token=",
            self.cookie,
            "\r\nconnection: close\r\n",
            origin,
        ]);
        if method == "POST" {
            let length = form.len().to_string();
            request += "content-type: application/x-www-form-urlencoded\r\n";
            request.extend(["content-length: ", &length, "\r\n"]);
        }
        request += "\r\n";
        let mut stream = self.client.connect().expect("a connection");
        std::io::Write::write_all(&mut stream, (request + form).as_bytes()).expect("it is sent");
        read_answer(&mut stream).expect("an answer")
    }

    fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "", "")
    }

    fn post(&self, path: &str, form: &str) -> Answer {
        self.send("POST", path, form, "origin: http://localhost\r\n")
    }
}

/// The objects of one tenant.
struct Things {
    queue: String,
    schedule: String,
    id: String,
}

impl Things {
    fn make(root: &Client, queue: &str) -> Self {
        let put = json!({ "text": "secret", "delay": "30d" });
        let put = root.must("POST", &format!("/v1/queues/{queue}/jobs"), &put);
        let schedule = format!("nightly-{queue}");
        let plan = json!({ "queue": queue, "cron": "0 3 1 1 *", "text": "secret" });
        root.must("PUT", &format!("/v1/schedules/{schedule}"), &plan);
        Self { queue: queue.to_owned(), schedule, id: put["id"].as_str().unwrap().to_owned() }
    }

    fn unknown(queue: &str) -> Self {
        let schedule = format!("nightly-{queue}");
        Self { queue: queue.to_owned(), schedule, id: UNKNOWN_ID.to_owned() }
    }

    fn fill(&self, text: &str) -> String {
        text.replace("{queue}", &self.queue)
            .replace("{schedule}", &self.schedule)
            .replace("{id}", &self.id)
    }

    /// Returns an answer without the names of these objects and of the request.
    fn blank(&self, answer: &Answer) -> String {
        let id = answer.head.lines().find_map(|line| line.strip_prefix("x-request-id: "));
        let mut text = format!("{} {}", answer.status, answer.text());
        // Every page shows the time of the server.
        if let Some((before, rest)) = text.split_once("data-now=\"") {
            text = format!("{before}{}", rest.split_once('"').map_or("", |(_, after)| after));
        }
        for name in [&self.schedule[..], &self.queue, &self.id, id.unwrap_or("none")] {
            text = text.replace(name, "NAME");
        }
        text
    }
}

/// Returns everything about a tenant, as the operator sees it.
fn state_of(root: &Client, things: &Things) -> String {
    let Things { queue, schedule, .. } = things;
    let jobs = root.get(&format!("/v1/queues/{queue}/jobs")).text();
    let plan = root.get(&format!("/v1/schedules/{schedule}")).text();
    let queue = root.get(&format!("/v1/queues/{queue}")).json();
    format!("{jobs}\n{plan}\n{} {} {}", queue["jobs"], queue["paused"], queue["settings"])
}

pub(crate) fn run(_: &Scale, report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Token::new(folder.path(), &["admin"], "*");
    // Every scope includes reading.
    let tokens = SCOPES.map(|scope| {
        let scopes = if scope == "produce" { vec!["read", scope] } else { vec![scope] };
        (scope, Token::new(folder.path(), &scopes, "a-*"))
    });
    let server = Server::start_on(folder.path());
    let client = Client::new(&server);
    let operator = client.with_token(&root.secret);
    let foreign = Things::make(&operator, "b-secret");
    let unknown = Things::unknown("b-nothing");
    let before = state_of(&operator, &foreign);
    let mut count = 0;
    for (scope, token) in &tokens {
        let visitor = Visitor { client: &client, cookie: &token.secret };
        let views = VIEWS.map(|(path, needed)| ("GET", path, "", needed));
        let forms = FORMS.map(|(path, form, needed)| ("POST", path, form, needed));
        for (method, path, form, needed) in views.into_iter().chain(forms) {
            let may =
                *scope == "admin" || *scope == needed || (needed == "read" && *scope == "produce");
            let call = |things: &Things| match method {
                "GET" => visitor.get(&things.fill(path)),
                _ => visitor.post(&things.fill(path), &things.fill(form)),
            };
            let (of_unknown, of_foreign) = (call(&unknown), call(&foreign));
            let (wanted, got) = (unknown.blank(&of_unknown), foreign.blank(&of_foreign));
            report.check(matches!(of_unknown.status, 403 | 404), || {
                format!("{scope}: {method} {path} on something unknown gave {}", of_unknown.status)
            });
            report.check(wanted == got, || {
                format!("{scope}: {method} {path} differs for the foreign:\n{got}\n{wanted}")
            });
            let own = Things::make(&operator, &format!("a-{count}"));
            let status = call(&own).status;
            // A retry of a job that is not dead gets 409, which also shows that the job exists.
            let is_served = matches!(status, 200 | 303 | 409);
            report.check(may == is_served, || format!("{scope}: {method} {path} gave {status}"));
            count += 3;
        }
        for path in LISTS {
            let answer = visitor.get(path);
            let is_read = *scope != "consume";
            report.check((answer.status == 200) == is_read, || {
                format!("{scope}: GET {path} gave {}", answer.status)
            });
            for name in [&foreign.queue, &foreign.schedule, &foreign.id] {
                report.check(!answer.text().contains(&name[..]), || {
                    format!("{scope}: GET {path} tells {name}")
                });
            }
            count += 1;
        }
        for path in ["/targets", "/targets/x/pause"] {
            let answer =
                if path == "/targets" { visitor.get(path) } else { visitor.post(path, "") };
            report
                .check(answer.status == 403, || format!("{scope}: {path} gave {}", answer.status));
        }
        let api = visitor.get("/v1/queues");
        report.check(api.status == 401, || {
            format!("{scope}: the API takes the cookie: {}", api.brief())
        });
    }
    report.check(before == state_of(&operator, &foreign), || {
        "the foreign queue has changed".to_owned()
    });
    other_sites(report, &client, &operator, &root.secret);
    report.fact(format!("{count} combinations of view or form, scope and target"));
}

/// Sends the requests that a page of another site can trigger, even with the cookie.
fn other_sites(report: &mut Report, client: &Client, operator: &Client, cookie: &str) {
    let things = Things::make(operator, "a-sites");
    let before = state_of(operator, &things);
    let visitor = Visitor { client, cookie };
    for origin in [
        "",
        "origin: http://evil.example\r\n",
        "origin: null\r\n",
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\norigin: http://localhost\r\n",
        "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\norigin: http://evil.example\r\n",
    ] {
        for (path, form, _) in FORMS {
            let answer = visitor.send("POST", &things.fill(path), &things.fill(form), origin);
            report.check(answer.status == 403, || {
                format!("{path} of another site ({origin:?}) gave {}", answer.status)
            });
        }
    }
    report
        .check(before == state_of(operator, &things), || "another site changed things".to_owned());
    let _: Value = operator.must("GET", "/v1/queues/a-sites", &Value::Null);
}
