//! The request of one attempt.

use std::io::Write;

use axum::http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use bytes::Bytes;
use tickwheel_queue::{Job, JobId, Time};

use super::definition::{Definition, HIDDEN, is_credential};
use super::exchange::Outgoing;
use super::response::NoAnswer;
use crate::api::HeaderLine;

/// A body up to this size is written together with the headers.
const MAX_COPIED_BYTES: usize = 16 << 10;
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The parts of a job that a request carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) id: JobId,
    pub(super) queue: &'a str,
    pub(super) key: Option<&'a str>,
    pub(super) headers: &'a [(String, String)],
    pub(super) payload: &'a Bytes,
    pub(super) attempt: u32,
    pub(super) due: Time,
}

impl<'a> Message<'a> {
    pub(super) fn of(job: &'a Job) -> Self {
        Self {
            id: job.id,
            queue: &job.queue,
            key: job.key.as_deref(),
            headers: &job.headers,
            payload: &job.payload,
            attempt: job.attempts,
            due: job.due,
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<&'a str> {
        let header = self.headers.iter().find(|(it, _)| it.eq_ignore_ascii_case(name));
        header.map(|(_, value)| &value[..])
    }
}

/// A request as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Attempt {
    /// Builds the request for a job. `now_ms` is the time of the attempt.
    pub(super) fn new(
        definition: &Definition,
        message: &Message<'_>,
        now_ms: u64,
        traceparent: &str,
    ) -> Result<Self, NoAnswer> {
        let path = definition.endpoint.path_for(message).map_err(NoAnswer::Impossible)?;
        let body =
            if definition.method == Method::GET { Bytes::new() } else { message.payload.clone() };
        let mut headers = HeaderMap::with_capacity(16 + definition.headers.len());
        headers.insert(HOST, value("host", &definition.endpoint.authority)?);
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("tickwheel/", env!("CARGO_PKG_VERSION"))),
        );
        if definition.method != Method::GET {
            let kind = message.header("content-type").unwrap_or("application/octet-stream");
            headers.insert(CONTENT_TYPE, value("content-type", kind)?);
        }
        for name in &definition.forward {
            if let Some(text) = message.header(name.as_str()) {
                headers.insert(name.clone(), value(name.as_str(), text)?);
            }
        }
        for (name, text) in &definition.headers {
            headers.insert(name.clone(), text.clone());
        }
        headers.insert(TRACEPARENT, value("traceparent", traceparent)?);
        let id = message.id.to_string();
        let own = [
            ("tickwheel-queue", message.queue.to_owned()),
            ("tickwheel-attempt", message.attempt.to_string()),
            ("tickwheel-due", crate::api::rfc3339(message.due.as_millis())),
            ("webhook-timestamp", (now_ms / 1_000).to_string()),
            ("webhook-signature", definition.signer.sign(&id, now_ms, &body)),
            ("webhook-id", id),
        ];
        for (name, text) in own {
            headers.insert(HeaderName::from_static(name), value(name, &text)?);
        }
        Ok(Self { method: definition.method.clone(), path, headers, body })
    }

    pub(super) fn outgoing(&self) -> Outgoing {
        let mut head = Vec::with_capacity(1 << 10);
        for part in [self.method.as_str(), " ", &self.path, " HTTP/1.1\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
        for (name, value) in &self.headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        if self.method != Method::GET {
            let _ = write!(head, "content-length: {}\r\n", self.body.len());
        }
        head.extend_from_slice(b"\r\n");
        if self.body.len() > MAX_COPIED_BYTES {
            return Outgoing { head, body: self.body.clone() };
        }
        head.extend_from_slice(&self.body);
        Outgoing { head, body: Bytes::new() }
    }
}

fn value(name: &str, text: &str) -> Result<HeaderValue, NoAnswer> {
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| {
        NoAnswer::Impossible(format!("header {name} of the job has control characters"))
    })
}

/// The trace of the job, with a span of its own for the attempt. A job without a trace gets one
/// that its id names.
pub(super) fn traceparent(message: &Message<'_>, span: u64) -> String {
    let span = span.max(1);
    let given = message.header("traceparent").filter(|text| is_traceparent(text));
    if let Some(text) = given {
        return format!("{}{span:016x}{}", &text[..36], &text[52..]);
    }
    let trace = u128::from_be_bytes(*message.id.as_bytes());
    format!("00-{trace:032x}-{span:016x}-00")
}

/// `00-<32 digits>-<16 digits>-<2 digits>`
fn is_traceparent(text: &str) -> bool {
    let is_hex = |part: &str, length| {
        part.len() == length && part.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
    };
    let parts: Vec<_> = text.split('-').collect();
    matches!(parts[..], [version, trace, span, flags] if version == "00"
        && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2))
}

/// Headers as texts, without credentials.
pub(super) fn shown(headers: &HeaderMap) -> Vec<HeaderLine> {
    let show = |(name, value): (&HeaderName, &HeaderValue)| {
        let is_hidden = is_credential(name.as_str()) && name.as_str() != "webhook-signature";
        let value =
            if is_hidden { HIDDEN.into() } else { String::from_utf8_lossy(value.as_bytes()) };
        HeaderLine { name: name.to_string(), value: value.into_owned() }
    };
    headers.iter().map(show).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tickwheel_queue::{NewJob, Queues};

    use super::super::connection::tls_client_for_the_web;
    use super::super::definition::StoredDefinition;
    use super::super::signature::Secret;
    use super::*;
    use crate::api::TargetSettings;

    fn attempt(settings: TargetSettings, job: NewJob) -> Result<Attempt, NoAnswer> {
        let queues = Queues::in_memory();
        let queue = job.queue.clone();
        queues.put(job).wait().unwrap();
        let job = queues.reserve(queue, 1, None).wait().unwrap().remove(0).job;
        let stored = StoredDefinition::new(settings, Secret::random(0).unwrap());
        let web: Arc<_> = tls_client_for_the_web().unwrap();
        let definition = Definition::new(&stored, &web).unwrap();
        let message = Message::of(&job);
        Attempt::new(&definition, &message, 1_700_000_000_999, &traceparent(&message, 7))
    }

    #[test]
    fn a_request_carries_the_job_and_what_is_selected() {
        let mut settings = TargetSettings::new("http://partner.example/hook/{key}");
        settings.headers.insert("authorization".into(), "Bearer abc".into());
        settings.forward = vec!["X-Tenant".into(), "x-absent".into()];
        let job = NewJob::new("orders", "{}")
            .key("order 42")
            .header("content-type", "application/json")
            .header("x-tenant", "blue")
            .header("x-private", "no")
            .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let attempt = attempt(settings, job).unwrap();
        assert_eq!(attempt.path, "/hook/order%2042");
        assert_eq!(&attempt.body[..], b"{}");
        let header = |name: &str| attempt.headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(header("host"), Some("partner.example"));
        assert_eq!(header("content-type"), Some("application/json"));
        assert_eq!(header("authorization"), Some("Bearer abc"));
        assert_eq!(header("x-tenant"), Some("blue"));
        assert_eq!((header("x-private"), header("x-absent")), (None, None));
        assert_eq!(header("tickwheel-queue"), Some("orders"));
        assert_eq!(header("tickwheel-attempt"), Some("1"));
        assert_eq!(header("webhook-timestamp"), Some("1700000000"));
        assert!(header("webhook-signature").unwrap().starts_with("v1,"));
        assert_eq!(
            header("traceparent"),
            Some("00-0af7651916cd43dd8448eb211c80319c-0000000000000007-01")
        );
        let shown = shown(&attempt.headers);
        let hidden = HeaderLine { name: "authorization".into(), value: HIDDEN.into() };
        assert!(shown.contains(&hidden));
        let sent = String::from_utf8(attempt.outgoing().head).unwrap();
        assert!(sent.starts_with(&format!("{} {} HTTP/1.1\r\n", attempt.method, attempt.path)));
        let length = attempt.body.len();
        assert!(sent.contains(&format!("\r\ncontent-length: {length}\r\n\r\n")), "{sent}");
        assert!(sent.as_bytes().ends_with(&attempt.body));
    }

    #[test]
    fn a_job_that_cannot_be_sent_says_why() {
        let settings = TargetSettings::new("http://partner.example/{key}");
        let refused = attempt(settings, NewJob::new("orders", "")).unwrap_err();
        assert!(matches!(refused, NoAnswer::Impossible(why) if why.contains("{key}")));
        let mut settings = TargetSettings::new("http://partner.example/");
        settings.forward = vec!["x-note".into()];
        let job = NewJob::new("orders", "").header("x-note", "a\nb");
        assert!(matches!(attempt(settings, job), Err(NoAnswer::Impossible(_))));
    }
}
