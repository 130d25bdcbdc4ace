//! Traces as a collector receives them: protobuf over HTTP.

use std::fmt::Write as _;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use serde_json::json;
use tickwheel_server::config::{Config, Otlp, PushAllow};

use crate::client::{PATIENCE, Request, Service};
use crate::target::{HttpTarget, status, text};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn sending_to(endpoint: String, sample_percent: u64) -> impl FnOnce(&mut Config) {
    move |config: &mut Config| {
        let endpoint = endpoint.parse().unwrap();
        config.otlp = Some(Otlp { endpoint, service: "shop-jobs".into(), sample_percent });
        config.push.allow = "127.0.0.0/8".parse::<PushAllow>().unwrap();
    }
}

async fn service(collector: &HttpTarget) -> Service {
    Service::with(sending_to(collector.url(""), 100)).await
}

/// Returns all spans of the collector, in order of their start.
fn spans(collector: &HttpTarget) -> Vec<Span> {
    let mut spans = Vec::new();
    for request in collector.arrived() {
        assert_eq!(request.line, "POST /v1/traces HTTP/1.1");
        assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
        let decoded = ExportTraceServiceRequest::decode(&request.body[..]).expect("protobuf");
        for resource in decoded.resource_spans {
            let name = &resource.resource.expect("a resource").attributes[0];
            let value = name.value.clone().and_then(|value| value.value);
            assert_eq!(value, Some(AnyValue::StringValue("shop-jobs".to_owned())), "{name:?}");
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    spans.sort_by_key(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
    spans
}

/// Waits until the collector has a span that passes the check.
async fn span_with(collector: &HttpTarget, is_wanted: impl Fn(&Span) -> bool) -> Span {
    let reached = async {
        loop {
            if let Some(span) = spans(collector).into_iter().find(&is_wanted) {
                return span;
            }
            collector.wait_for(collector.arrived().len() + 1).await;
        }
    };
    let waited = tokio::time::timeout(2 * PATIENCE, reached).await;
    waited.unwrap_or_else(|_| panic!("it never came: {:#?}", spans(collector)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn event(span: &Span) -> &str {
    span.events.first().map_or("", |event| &event.name)
}

fn attribute(span: &Span, name: &str) -> Option<AnyValue> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    found.value.clone()?.value
}

async fn put(service: &Service, flags: &str) -> String {
    let request = Request::new("POST", "/v1/queues/orders/jobs")
        .header("traceparent", &format!("00-{TRACE}-{PARENT}-{flags}"))
        .json(&json!({"text": "x"}));
    let answer = service.send(request).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    text(&answer.json()["id"])
}

#[tokio::test]
async fn a_job_is_one_trace_from_put_to_ack_and_retries_are_linked() {
    let collector = HttpTarget::start().await;
    let service = service(&collector).await;
    let id = put(&service, "01").await;
    let (_, token) = service.reserve_one("orders").await;
    let fail = json!({"token": token, "error": "no stock", "delay": "1ms"});
    assert_eq!(service.post(&format!("/v1/jobs/{id}/fail"), fail).await.status, 200);
    let (_, token) = service.reserve_one("orders").await;
    let items = json!({"items": [{"id": id, "token": token}]});
    assert_eq!(service.post("/v1/jobs/batch/ack", items).await.status, 200);
    // Spans that were not sent yet are sent when the service stops.
    service.stop().await;

    let spans = spans(&collector);
    let names: Vec<_> = spans.iter().map(|span| (&*span.name, event(span))).collect();
    let wanted = [
        ("send orders", ""),
        ("wait orders", ""),
        ("process orders", "fail"),
        ("wait orders", ""),
        ("process orders", "ack"),
    ];
    let mut sorted = names.clone();
    sorted.sort_unstable();
    let mut wanted_sorted = wanted;
    wanted_sorted.sort_unstable();
    assert_eq!(sorted, wanted_sorted);
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:#?}");
    let find = |name: &str, event_name: &str| {
        let is_it = |span: &&Span| span.name == name && event(span) == event_name;
        spans.iter().find(is_it).expect("a span")
    };
    let send = find("send orders", "");
    assert_eq!((hex(&send.parent_span_id), send.kind), (PARENT.into(), SpanKind::Producer as i32));
    let (first, second) = (find("process orders", "fail"), find("process orders", "ack"));
    for span in spans.iter().filter(|span| span.name != "send orders") {
        assert_eq!(span.parent_span_id, send.span_id, "{span:#?}");
        assert_eq!(
            attribute(span, "messaging.message.id"),
            Some(AnyValue::StringValue(id.clone()))
        );
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    }
    let failure = first.status.as_ref().expect("a status");
    assert_eq!((failure.code, &*failure.message), (2, "no stock"));
    assert_eq!(second.status.as_ref().expect("a status").code, 1);
    assert!(first.links.is_empty());
    assert_eq!(second.links.len(), 1);
    assert_eq!(second.links[0].span_id, first.span_id);
    assert_eq!(attribute(second, "tickwheel.attempt"), Some(AnyValue::IntValue(2)));
    let mut ids: Vec<_> = spans.iter().map(|span| span.span_id.clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5, "every span has an id of its own");
}

#[tokio::test]
async fn a_job_without_a_trace_begins_one_with_its_id() {
    let collector = HttpTarget::start().await;
    let service = service(&collector).await;
    let id = service.put_text("mail", "x").await;
    let job = service.get(&format!("/v1/jobs/{id}")).await.json();
    assert!(job["headers"].get("traceparent").is_none(), "nothing is added to the job: {job}");
    let (_, token) = service.reserve_one("mail").await;
    let folder = service.stop().await;
    // The trace continues after a restart, although the delivery began before it.
    let service = Service::on(folder, sending_to(collector.url(""), 100)).await;
    service.post(&format!("/v1/jobs/{id}/release"), json!({"token": token})).await;
    let (_, token) = service.reserve_one("mail").await;
    service.post(&format!("/v1/jobs/{id}/ack"), json!({"token": token})).await;
    service.stop().await;
    let spans = spans(&collector);
    let trace = id.replace('-', "");
    assert!(spans.iter().all(|span| hex(&span.trace_id) == trace), "{spans:#?}");
    let send = spans.iter().find(|span| span.name == "send mail").expect("a span");
    assert!(send.parent_span_id.is_empty());
    let process = spans.iter().find(|span| event(span) == "ack").expect("a span");
    assert_eq!(process.parent_span_id, send.span_id);
}

#[tokio::test]
async fn pipelined_puts_keep_their_own_traces() {
    let collector = HttpTarget::start().await;
    let service = service(&collector).await;
    let trace = |number: u32| format!("{number:032x}");
    let put = |number| {
        let put = Request::new("POST", "/v1/queues/orders/jobs");
        let header = format!("00-{}-{PARENT}-01", trace(number));
        let put = if number > 0 { put.header("traceparent", &header) } else { put };
        put.json(&json!({"text": number.to_string()})).bytes()
    };
    let mut client = service.connect().await;
    client.write(&(0..4).flat_map(put).collect::<Vec<u8>>()).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(text(&client.answer(false).await.expect("an answer").json()["id"]));
    }
    service.stop().await;
    let spans = spans(&collector);
    for (number, id) in (0..).zip(&ids) {
        let is_it = |span: &&Span| {
            attribute(span, "messaging.message.id") == Some(AnyValue::StringValue(id.clone()))
        };
        let span = spans.iter().find(is_it).expect("a span");
        let wanted = if number > 0 { trace(number) } else { id.replace('-', "") };
        assert_eq!(hex(&span.trace_id), wanted);
    }
}

#[tokio::test]
async fn what_the_caller_does_not_record_is_not_sent() {
    let collector = HttpTarget::start().await;
    let service = Service::with(sending_to(collector.url(""), 0)).await;
    put(&service, "00").await;
    service.put_text("orders", "outside the sample").await;
    put(&service, "01").await;
    service.post("/v1/queues/orders/reserve", json!({"limit": 10})).await;
    service.stop().await;
    let spans = spans(&collector);
    let sent = spans.iter().filter(|span| span.name == "send orders").count();
    let waited = spans.iter().filter(|span| span.name == "wait orders").count();
    assert_eq!((sent, waited), (1, 1), "{spans:#?}");
}

#[tokio::test]
async fn a_lease_that_expires_ends_its_span() {
    let collector = HttpTarget::start().await;
    let service = service(&collector).await;
    put(&service, "01").await;
    let reserve = json!({"lease": "50ms", "worker": "w-1"});
    service.post("/v1/queues/orders/reserve", reserve).await;
    let span = span_with(&collector, |span| event(span) == "lease expired").await;
    assert_eq!(span.status.as_ref().expect("a status").code, 2);
    let worker = attribute(&span, "tickwheel.worker");
    assert_eq!(worker, Some(AnyValue::StringValue("w-1".to_owned())));
    service.stop().await;
}

#[tokio::test]
async fn a_target_continues_the_trace() {
    let (collector, target) = (HttpTarget::start().await, HttpTarget::start().await);
    let service = service(&collector).await;
    target.next([status(500), status(200)]);
    let settings = json!({"url": target.url("/hook")});
    assert_eq!(service.put("/v1/targets/partner", settings).await.status, 201);
    let settings = json!({"target": "partner", "retry": {"fixed": 1}});
    let patch = Request::new("PATCH", "/v1/queues/orders/settings").json(&settings);
    assert_eq!(service.send(patch).await.status, 200);
    put(&service, "01").await;
    let arrived = target.wait_for(2).await;
    let acked = span_with(&collector, |span| event(span) == "ack").await;
    assert_eq!((&*acked.name, acked.kind), ("deliver orders", SpanKind::Client as i32));
    let failed = span_with(&collector, |span| event(span) == "fail").await;
    assert_eq!(acked.links[0].span_id, failed.span_id);
    for (request, span) in arrived.iter().zip([failed, acked]) {
        let wanted = format!("00-{TRACE}-{}-01", hex(&span.span_id));
        assert_eq!(request.header("traceparent"), Some(&*wanted));
    }
    service.stop().await;
}

#[tokio::test]
async fn a_collector_that_is_gone_or_fails_holds_nothing_up() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let service = Service::with(sending_to(format!("http://{gone}"), 100)).await;
    let items = json!({"items": vec![json!({"queue": "q", "text": "x"}); 10_000]});
    // Creates more spans than the buffer holds.
    let answer = service.post("/v1/jobs/batch", items).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["results"].as_array().map(Vec::len), Some(10_000));
    service.stop().await;

    // A batch that is refused temporarily is sent again.
    let collector = HttpTarget::start().await;
    collector.next([status(503)]);
    let service = Service::with(sending_to(collector.url(""), 100)).await;
    put(&service, "01").await;
    let arrived = collector.wait_for(2).await;
    assert_eq!(arrived[0].body, arrived[1].body);
    service.stop().await;
}

#[test]
fn an_endpoint_has_to_be_an_address() {
    let load = |value: &str| {
        let flags = [("otlp.endpoint".to_owned(), value.to_owned())];
        tickwheel_server::config::load(&flags, [], None)
    };
    for wrong in ["collector:4318", "grpc://collector", "http://", "http://c/?x=1"] {
        let why = load(wrong).unwrap_err().to_string();
        assert!(why.contains("otlp-endpoint") && why.contains("http://127.0.0.1:4318"), "{why}");
    }
    let settings = load("https://collector.example/otlp").unwrap();
    assert_eq!(settings.config().otlp.as_ref().unwrap().sample_percent, 100);
}
