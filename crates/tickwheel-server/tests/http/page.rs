//! The dashboard, as a browser without scripts uses it.

use serde_json::json;
use tickwheel_server::tokens::{Scope, TokenStore};

use crate::client::{Answer, PATIENCE, Request, Service, token};
use crate::events::Stream;
use crate::insight::next_live;

/// All views that exist on every server.
const VIEWS: [&str; 10] = [
    "/",
    "/wheel",
    "/queues",
    "/jobs",
    "/errors",
    "/schedules",
    "/targets",
    "/put",
    "/login",
    "/queues/mail",
];

fn form(path: &str, body: &str) -> Request {
    Request::new("POST", path)
        .header("origin", "http://localhost")
        .body("application/x-www-form-urlencoded", body.as_bytes())
}

fn with_cookie(request: Request, secret: &str) -> Request {
    request.header("cookie", &format!("tickwheel_token={secret}"))
}

/// Sends a form whose answer is a redirect, and returns the location.
async fn redirected(service: &Service, request: Request) -> String {
    let answer = service.send(request).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.header("location").unwrap().to_owned()
}

fn has(answer: &Answer, text: &str) {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains(text), "{text:?} is missing in {}", answer.body);
}

#[tokio::test]
async fn every_view_is_protected_html() {
    let service = Service::start().await;
    service.put_text("mail", "hello").await;
    for view in VIEWS {
        let answer = service.get(view).await;
        has(&answer, "<!doctype html>");
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{view}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        for inline in [" style=\"", " onclick=", "<style", "javascript:", "http-equiv"] {
            assert!(!answer.body.contains(inline), "{view} has {inline}");
        }
        let chinese =
            service.send(Request::new("GET", view).header("accept-language", "zh-CN")).await;
        has(&chinese, "lang=\"zh-CN\"");
    }
    service.stop().await;
}

#[tokio::test]
async fn assets_are_compressed_and_kept() {
    let service = Service::start().await;
    let page = service.get("/queues").await.body;
    let path = page.split("href=\"").find(|rest| rest.contains("page.css")).unwrap();
    let path = path.split('"').next().unwrap();
    let plain = service.get(path).await;
    has(&plain, ":root");
    assert!(plain.header("cache-control").unwrap().contains("immutable"));
    let mut client = service.connect().await;
    client.write(&Request::new("GET", path).header("accept-encoding", "br, gzip").bytes()).await;
    let (status, headers) = client.head().await.unwrap();
    assert_eq!(status, 200);
    assert!(headers.contains(&("content-encoding".to_owned(), "gzip".to_owned())), "{headers:?}");
    assert_eq!(service.get("/assets/other/nothing.css").await.status, 404);
    assert_eq!(service.get("/assets/x/..%2fCargo.toml").await.status, 404);
    service.stop().await;
}

#[tokio::test]
async fn a_token_opens_the_dashboard_and_only_that() {
    let folder = tempfile::tempdir().unwrap();
    let secret = token(&folder, "ops", &[Scope::Admin], &["*"]);
    let service = Service::on(folder, |_| {}).await;
    let sent = service.get("/queues/mail?x=1").await;
    assert_eq!(sent.header("location"), Some("/login?next=%2Fqueues%2Fmail%3Fx%3D1"));
    assert_eq!(service.get("/page/live").await.problem(401, "unauthorized"), None);
    let wrong = service.send(form("/login", "token=twk_a_b&next=/queues")).await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.body.contains("not valid") && wrong.header("set-cookie").is_none());
    let body = format!("token={secret}&next=%2Fqueues");
    let answer = service.send(form("/login", &body)).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/queues")));
    let cookie = answer.header("set-cookie").unwrap();
    assert_eq!(cookie, format!("tickwheel_token={secret}; Path=/; HttpOnly; SameSite=Strict"));
    let page = service.send(with_cookie(Request::new("GET", "/queues"), &secret)).await;
    has(&page, "Token ops");
    // The API accepts a token only in the header, which a browser does not add by itself.
    let api = service.send(with_cookie(Request::new("GET", "/v1/queues"), &secret)).await;
    api.problem(401, "unauthorized");
    let out = service.send(with_cookie(form("/logout", ""), &secret)).await;
    assert!(out.header("set-cookie").unwrap().contains("tickwheel_token=; "), "{out:?}");
    for elsewhere in ["//evil.example", "https://evil.example/", "/\\evil"] {
        let body = format!("token={secret}&next={elsewhere}");
        assert_eq!(redirected(&service, form("/login", &body)).await, "/");
    }
    service.stop().await;
}

#[tokio::test]
async fn behind_tls_the_cookie_is_for_tls_alone() {
    let folder = tempfile::tempdir().unwrap();
    let secret = token(&folder, "ops", &[Scope::Admin], &["*"]);
    let service = Service::on(folder, |_| {}).await;
    let request = form("/login", &format!("token={secret}")).header("x-forwarded-proto", "https");
    let answer = service.send(request).await;
    assert!(answer.header("set-cookie").unwrap().ends_with("; Secure"), "{answer:?}");
    service.stop().await;
}

#[tokio::test]
async fn a_removed_token_loses_access_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let secret = token(&folder, "gone", &[Scope::Admin], &["*"]);
    let service = Service::on(folder, |_| {}).await;
    let visit = || with_cookie(Request::new("GET", "/queues"), &secret);
    assert_eq!(service.send(visit()).await.status, 200);
    TokenStore::new(service.folder.path()).remove("gone").unwrap();
    let removed = async { while service.send(visit()).await.status != 303 {} };
    tokio::time::timeout(PATIENCE, removed).await.expect("the tokens are read again");
    let put = with_cookie(form("/put", "queue=mail&payload=x"), &secret);
    assert!(redirected(&service, put).await.starts_with("/login"));
    service.stop().await;
}

#[tokio::test]
async fn a_reader_sees_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let admin = token(&folder, "admin", &[Scope::Admin], &["*"]);
    let reader = token(&folder, "reader", &[Scope::Read], &["a-*"]);
    let service = Service::on(folder, |_| {}).await;
    for queue in ["a-own", "b-foreign"] {
        let body = format!("queue={queue}&payload=secret-of-{queue}&delay=1h&do=put");
        has(&service.send(with_cookie(form("/put", &body), &admin)).await, "/jobs/");
    }
    let get = |path: &str| with_cookie(Request::new("GET", path), &reader);
    for view in ["/", "/queues", "/jobs", "/wheel", "/schedules", "/errors"] {
        let page = service.send(get(view)).await;
        has(&page, "read only");
        assert!(!page.body.contains("b-foreign"), "{view}");
        assert!(!page.body.contains("href=\"/put\""), "{view}");
    }
    let own = service.send(get("/queues/a-own")).await;
    has(&own, "<fieldset disabled>");
    assert!(!own.body.contains("/queues/a-own/pause"));
    assert_eq!(service.send(get("/queues/b-foreign")).await.status, 403);
    assert_eq!(service.send(get("/jobs?queue=b-foreign")).await.status, 403);
    assert_eq!(service.send(get("/targets")).await.status, 403);
    assert_eq!(service.send(get("/put")).await.status, 403);
    for (path, body) in [
        ("/queues/a-own/pause", ""),
        ("/queues/a-own/remove", "expected=1"),
        (
            "/queues/a-own/settings",
            "lease=1s&max_attempts=1&retry=1s&keep_done=1&keep_dead=1&keep_cancelled=1",
        ),
        ("/queues/a-own/groups", "group=x&paused=true"),
        ("/put", "queue=a-own&payload=x"),
        ("/schedules", "name=x&queue=a-own&every=1h&payload=x"),
        ("/jobs/0190163d-8694-739b-aea5-966c26f8ad91/cancel", ""),
        ("/jobs/bulk/run", "action=cancel&job=0190163d-8694-739b-aea5-966c26f8ad91"),
    ] {
        let refused = service.send(with_cookie(form(path, body), &reader)).await;
        assert_eq!(refused.status, 403, "{path}: {refused:?}");
    }
    service.stop().await;
}

#[tokio::test]
async fn other_sites_change_nothing() {
    let service = Service::start().await;
    service.put_text("mail", "hello").await;
    let pause = |headers: &[(&str, &str)]| {
        let request = Request::new("POST", "/queues/mail/pause").header("content-length", "0");
        headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    };
    let same = ("sec-fetch-site", "same-origin");
    for headers in [
        &[][..],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site"), ("origin", "http://localhost")],
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
        &[same, ("origin", "http://evil.example")],
    ] {
        let refused = service.send(pause(headers)).await;
        assert_eq!(refused.status, 403, "{headers:?}: {refused:?}");
    }
    assert_eq!(service.get("/v1/queues/mail").await.json()["paused"], false);
    assert_eq!(service.send(pause(&[same])).await.status, 303);
    assert_eq!(service.get("/v1/queues/mail").await.json()["paused"], true);
    let embedded = Request::new("GET", "/queues")
        .header("sec-fetch-site", "cross-site")
        .header("sec-fetch-mode", "no-cors");
    assert_eq!(service.send(embedded).await.status, 403);
    service.stop().await;
}

#[tokio::test]
async fn without_the_page_there_is_a_list_of_links() {
    let service = Service::with(|config| config.page = false).await;
    has(&service.get("/").await, "href=\"/docs\"");
    for path in ["/queues", "/jobs", "/wheel", "/login", "/assets/x/page.css", "/page/live"] {
        service.get(path).await.problem(404, "not-found");
    }
    service.stop().await;
}

#[tokio::test]
async fn queues_are_paused_changed_and_emptied() {
    let service = Service::start().await;
    for text in ["one", "two"] {
        service.put_text("mail", text).await;
    }
    let to = redirected(&service, form("/queues/mail/pause", "")).await;
    assert_eq!(to, "/queues/mail?done=paused&n=1");
    has(&service.get(&to).await, "Paused.");
    redirected(&service, form("/queues/mail/resume", "")).await;
    let settings = "lease=2m&max_attempts=5&retry=1s..1m&rate=100%2F1s&concurrency=8&group_rate=\
                    &group_concurrency=2&keep_done=3d%2C1000&keep_dead=forever\
                    &keep_cancelled=nothing&target=&order=priority&fair_groups=true";
    redirected(&service, form("/queues/mail/settings", settings)).await;
    let queue = service.get("/v1/queues/mail").await.json();
    let settings_now = &queue["settings"];
    assert_eq!(settings_now["lease"], "2m");
    assert_eq!(settings_now["pacing"], json!({"starts": 100, "window": "1s", "concurrency": 8}));
    assert_eq!(settings_now["group_pacing"], json!({"concurrency": 2}));
    assert_eq!(settings_now["retention"]["done"], json!({"age": "3d", "count": 1000}));
    assert_eq!(
        (&settings_now["order"], &settings_now["fair_groups"]),
        (&json!("priority"), &json!(true))
    );
    let wrong = service.send(form("/queues/mail/settings", &settings.replace("2m", "soon"))).await;
    assert_eq!(wrong.status, 422);
    assert!(
        wrong.body.contains("value=\"soon\"") && wrong.body.contains("lease: "),
        "{}",
        wrong.body
    );
    let asked = service.get("/queues/mail/confirm?action=cancel-waiting").await;
    has(&asked, "Cancel 2 waiting jobs of mail?");
    let to = redirected(&service, form("/queues/mail/cancel-waiting", "expected=2")).await;
    assert_eq!(to, "/queues/mail?done=cancelled&n=2");
    let to = redirected(&service, form("/queues/mail/remove", "")).await;
    assert!(to.starts_with("/queues?done=removed-queue"), "{to}");
    assert_eq!(service.get("/queues/mail").await.status, 404);
    assert_eq!(service.send(form("/queues/mail/explode", "")).await.status, 404);
    service.stop().await;
}

#[tokio::test]
async fn jobs_are_found_shown_and_moved() {
    let service = Service::start().await;
    let put = json!({"payload": {"n": 1}, "delay": "1h", "key": "order-42"});
    let id =
        service.post("/v1/queues/orders/jobs", put).await.json()["id"].as_str().unwrap().to_owned();
    service.put_text("mail", "hello").await;
    for found in [
        "/jobs",
        "/jobs?queue=orders",
        "/jobs?key_prefix=order-",
        "/jobs?queue=orders&key=order-42",
        "/jobs?state=scheduled",
        "/jobs?due_from=2026-01-01T00:00:00Z&due_to=9000-01-01T00:00:00Z",
    ] {
        has(&service.get(found).await, &format!("/jobs/{id}"));
    }
    for not_found in
        ["/jobs?queue=mail", "/jobs?state=dead", "/jobs?key=order-41", "/jobs?due_to=1"]
    {
        let page = service.get(not_found).await;
        assert!(!page.body.contains(&id), "{not_found}");
    }
    has(&service.get("/jobs?state=strange").await, "role=\"alert\"");
    has(&service.get("/jobs?id=zzz").await, "role=\"alert\"");
    let short = format!("{}..{}", id.replace('-', "").split_at(12).0, &id[30..]);
    let answer = service.get(&format!("/jobs?id={short}")).await;
    assert_eq!(answer.header("location"), Some(&format!("/jobs/{id}")[..]));
    has(&service.get(&format!("/jobs/{id}")).await, "&#34;n&#34;: 1");
    let payload = service.get(&format!("/jobs/{id}/payload")).await;
    assert_eq!(payload.body, r#"{"n":1}"#);
    assert_eq!(payload.header("content-type"), Some("application/octet-stream"));
    assert!(payload.header("content-disposition").unwrap().starts_with("attachment"));
    let due =
        async || service.get(&format!("/v1/jobs/{id}")).await.json()["due_ms"].as_u64().unwrap();
    let before = due().await;
    redirected(&service, form(&format!("/jobs/{id}/reschedule"), "delay=2h")).await;
    assert!(due().await > before);
    assert_eq!(service.send(form(&format!("/jobs/{id}/reschedule"), "delay=x")).await.status, 400);
    redirected(&service, form(&format!("/jobs/{id}/run"), "")).await;
    assert!(due().await < before);
    let to = redirected(&service, form(&format!("/jobs/{id}/cancel"), "")).await;
    assert_eq!(to, "/jobs?done=cancelled&n=1");
    assert_eq!(service.send(form(&format!("/jobs/{id}/cancel"), "")).await.status, 404);
    service.stop().await;
}

#[tokio::test]
async fn a_form_puts_a_job_and_shows_commands() {
    let service = Service::start().await;
    let body = "queue=mail&payload=%7B%22a%22%3A+12345678901234567890123%7D&kind=auto&delay=30m\
                &key=k%27s&on_conflict=reject&headers=trace%3A+4711%0D%0A&priority=7&do=put";
    has(&service.send(form("/put", body)).await, "The job is put:");
    let again = service.send(form("/put", body)).await;
    assert_eq!(again.status, 409, "{again:?}");
    let job = service.get("/v1/queues/mail/keys/k's").await;
    assert!(job.body.contains("12345678901234567890123"), "{}", job.body);
    assert_eq!(job.json()["headers"]["trace"], "4711");
    assert_eq!(job.json()["priority"], 7);
    let preview = service.send(form("/put/preview", body)).await;
    has(&preview, "tickwheel put mail ");
    has(&preview, "--on-conflict reject");
    has(&preview, "curl http://localhost/v1/queues/mail/jobs");
    let wrong = service.send(form("/put", "queue=mail&payload=x&delay=soon")).await;
    assert_eq!(wrong.status, 422, "{wrong:?}");
    service.stop().await;
}

#[tokio::test]
async fn schedules_are_checked_put_and_removed() {
    let service = Service::start().await;
    let check = service.get("/schedules/check?cron=0+9+*+*+MON-FRI&timezone=Europe/Berlin").await;
    has(&check, "09:00:00 CE");
    has(&service.get("/schedules/check?cron=61+*+*+*+*").await, "minute");
    has(&service.get("/schedules/check?cron=").await, "");
    let body = "name=report&queue=mail&cron=0+9+*+*+MON-FRI&timezone=Europe%2FBerlin&every=&payload=hi&do=save";
    redirected(&service, form("/schedules", body)).await;
    let list = service.get("/schedules").await;
    has(&list, "Europe/Berlin");
    has(&list, "09:00:00 CE");
    let both = service.send(form("/schedules", &body.replace("every=", "every=1h"))).await;
    assert_eq!(both.status, 422, "{both:?}");
    redirected(&service, form("/schedules/report/pause", "")).await;
    assert_eq!(service.get("/v1/schedules/report").await.json()["paused"], true);
    redirected(&service, form("/schedules/report/resume", "")).await;
    has(&service.get("/schedules/report/confirm").await, "Remove the schedule report?");
    redirected(&service, form("/schedules/report/remove", "")).await;
    assert_eq!(service.get("/v1/schedules/report").await.status, 404);
    service.stop().await;
}

/// Returns a text as it is escaped in an attribute.
fn escaped(text: &str) -> String {
    let marks = [('&', "&#38;"), ('"', "&#34;"), ('\'', "&#39;"), ('<', "&#60;"), ('>', "&#62;")];
    marks.iter().fold(text.to_owned(), |text, (mark, code)| text.replace(*mark, code))
}

#[tokio::test]
async fn hostile_content_stays_text() {
    let service = Service::start().await;
    let script = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{202e}\u{0}";
    let headers = json!({"x-evil": "<b>bold</b>"});
    let put =
        json!({"text": script, "key": script, "group": script, "headers": headers, "delay": "1h"});
    let id =
        service.post("/v1/queues/evil/jobs", put).await.json()["id"].as_str().unwrap().to_owned();
    let bytes = json!({"base64": "//4APGI+", "delay": "1h"});
    let raw =
        service.post("/v1/queues/evil/jobs", bytes).await.json()["id"].as_str().unwrap().to_owned();
    for view in
        ["/jobs".to_owned(), format!("/jobs/{id}"), "/queues/evil".to_owned(), "/".to_owned()]
    {
        let page = service.get(&view).await;
        assert_eq!(page.status, 200, "{view}");
        // A hidden field contains the exact name of a group, so it is left out.
        let shown = page.body.replace(&format!("value=\"{}\"", escaped(script)), "");
        for harm in ["<script>alert", "<img src=x", "<b>bold", "\u{202e}", "\u{0}"] {
            assert!(!shown.contains(harm), "{view} contains {harm:?}");
        }
    }
    has(&service.get(&format!("/jobs/{raw}")).await, "ff fe 00 3c 62 3e");
    let reflected =
        service.get("/jobs?key=%3Cscript%3Ealert(2)%3C/script%3E&page=%22%3E%3Cb%3E").await;
    assert!(!reflected.body.contains("<script>alert(2)"), "{}", reflected.body);
    let noticed = service.get("/queues?done=%3Cb%3Ehi%3C/b%3E&n=%3Cb%3E").await;
    assert!(!noticed.body.contains("<b>hi"));
    assert_eq!(service.get("/queues/%3Cscript%3E").await.status, 400);
    service.stop().await;
}

#[tokio::test]
async fn health_and_schedules_are_told_in_the_language_of_the_visitor() {
    let service = Service::with(|config| config.manual_clock = true).await;
    service.put_text("mail", "x").await;
    let cron = json!({"queue": "mail", "cron": "0 9 * * MON-FRI", "text": "x"});
    assert_eq!(service.put("/v1/schedules/report", cron).await.status, 201);
    let every = json!({"queue": "mail", "every": "1h", "text": "x"});
    assert_eq!(service.put("/v1/schedules/beat", every).await.status, 201);
    service.post("/v1/clock/advance", json!({"by": "4m"})).await;
    for (language, health, report, beat, monday) in [
        ("en", "has waited for 4 min", "At 09:00 on Monday through Friday", "Every 1h", "Mon "),
        ("zh-CN", "已等待 4 min", "每周一至周五 09:00", "每隔 1h", " 周一 "),
    ] {
        let get = |path: &str| Request::new("GET", path).header("accept-language", language);
        has(&service.send(get("/")).await, health);
        let schedules = service.send(get("/schedules")).await;
        has(&schedules, report);
        has(&schedules, beat);
        let check = service.send(get("/schedules/check?cron=0+9+*+*+MON")).await;
        has(&check, monday);
        let mut live = Stream::open(&service, get("/page/live")).await;
        let event = next_live(&mut live).await;
        let told = event["overview"]["health"][0]["message"].as_str().unwrap();
        assert!(told.contains(health), "{told}");
    }
    service.stop().await;
}
