//! The request of one attempt.

use axum::http::header::{CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use bytes::Bytes;
use tickwheel_queue::{Job, JobId, Time};

use super::definition::{Definition, HIDDEN, MAX_HEADERS, is_credential};
use super::exchange::Outgoing;
use super::response::NoAnswer;
use super::signature::Signer;
use super::why::Why;
use crate::api::HeaderLine;

/// A body up to this size is written together with the headers.
const MAX_COPIED_BYTES: usize = 16 << 10;
/// Bytes of a usual request before its body.
const HEAD_BYTES: usize = 1 << 10;
const TRACEPARENT: &str = "traceparent";

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

/// Builds the request for a job. `now_ms` is the time of the attempt.
pub(super) fn request(
    definition: &Definition,
    signer: &Signer,
    message: &Message<'_>,
    now_ms: u64,
    traceparent: &str,
) -> Result<Outgoing, NoAnswer> {
    let path = definition.endpoint.path_for(message);
    let path = path.map_err(|why| NoAnswer::Impossible(Why::other(why)))?;
    let is_get = definition.method == Method::GET;
    let body = if is_get { &Bytes::new() } else { message.payload };
    let mut lines = Lines(Vec::with_capacity(HEAD_BYTES + body.len().min(MAX_COPIED_BYTES)));
    for part in [definition.method.as_str(), " ", &path, " HTTP/1.1\r\n"] {
        lines.0.extend_from_slice(part.as_bytes());
    }
    lines.add("host", &definition.endpoint.authority)?;
    // A header of the target replaces one of the job, and either replaces a default.
    let is_fixed = |name: &str| definition.headers.iter().any(|(it, _)| it == name);
    let is_given = |name: &str| {
        let is_forwarded = definition.forward.iter().any(|it| it == name);
        is_fixed(name) || is_forwarded && message.header(name).is_some()
    };
    if !is_given(USER_AGENT.as_str()) {
        lines.add("user-agent", concat!("tickwheel/", env!("CARGO_PKG_VERSION")))?;
    }
    if !is_get && !is_given(CONTENT_TYPE.as_str()) {
        let kind = message.header("content-type").unwrap_or("application/octet-stream");
        lines.add("content-type", kind)?;
    }
    for (place, name) in definition.forward.iter().enumerate() {
        let is_first = !definition.forward[..place].contains(name);
        let is_wanted = is_first && !is_fixed(name.as_str()) && name != TRACEPARENT;
        if let Some(text) = message.header(name.as_str()).filter(|_| is_wanted) {
            lines.add(name.as_str(), text)?;
        }
    }
    for (name, value) in definition.headers.iter().filter(|(name, _)| name != TRACEPARENT) {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.0.extend_from_slice(part);
        }
    }
    let id = message.id.to_string();
    lines.add(TRACEPARENT, traceparent)?;
    lines.add("tickwheel-queue", message.queue)?;
    lines.add("tickwheel-attempt", &message.attempt.to_string())?;
    lines.add("tickwheel-due", &crate::api::rfc3339(message.due.as_millis()))?;
    lines.add("webhook-timestamp", &(now_ms / 1_000).to_string())?;
    lines.add("webhook-signature", &signer.sign(&id, now_ms, body))?;
    lines.add("webhook-id", &id)?;
    if !is_get {
        lines.add("content-length", &body.len().to_string())?;
    }
    Ok(lines.end(body))
}

/// The lines of a request before its body.
struct Lines(Vec<u8>);

impl Lines {
    fn add(&mut self, name: &str, value: &str) -> Result<(), NoAnswer> {
        if value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f) {
            let why = format!("header {name} of the job has control characters");
            return Err(NoAnswer::Impossible(Why::other(why)));
        }
        for part in [name, ": ", value, "\r\n"] {
            self.0.extend_from_slice(part.as_bytes());
        }
        Ok(())
    }

    fn end(mut self, body: &Bytes) -> Outgoing {
        self.0.extend_from_slice(b"\r\n");
        let (lines, mut head) = (self.0.len(), self.0);
        if body.len() > MAX_COPIED_BYTES {
            return Outgoing { head, lines, body: body.clone() };
        }
        head.extend_from_slice(body);
        Outgoing { head, lines, body: Bytes::new() }
    }
}

/// The headers of a request, as it goes over the wire.
pub(super) fn headers_of(request: &Outgoing) -> HeaderMap {
    let mut lines = [httparse::EMPTY_HEADER; 2 * MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut lines);
    let _ = parsed.parse(&request.head[..request.lines]);
    let header = |line: &httparse::Header<'_>| {
        let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(line.value).ok()?))
    };
    parsed.headers.iter().filter_map(header).collect()
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

    fn attempt(settings: TargetSettings, job: NewJob) -> Result<Outgoing, NoAnswer> {
        let queues = Queues::in_memory();
        let queue = job.queue.clone();
        queues.put(job).wait().unwrap();
        let job = queues.reserve(queue, 1, None).wait().unwrap().remove(0).job;
        let stored = StoredDefinition::new(settings, Secret::random(0).unwrap());
        let web: Arc<_> = tls_client_for_the_web().unwrap();
        let definition = Definition::new(&stored, &web).unwrap();
        let message = Message::of(&job);
        request(
            &definition,
            &definition.signer,
            &message,
            1_700_000_000_999,
            &traceparent(&message, 7),
        )
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
        let request = attempt(settings, job).unwrap();
        assert_eq!(request.content(), b"{}");
        let headers = headers_of(&request);
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
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
        let shown = shown(&headers);
        let hidden = HeaderLine { name: "authorization".into(), value: HIDDEN.into() };
        assert!(shown.contains(&hidden));
        let sent = String::from_utf8(request.head).unwrap();
        assert!(sent.starts_with("POST /hook/order%2042 HTTP/1.1\r\nhost: partner.example\r\n"));
        assert!(sent.ends_with("\r\ncontent-length: 2\r\n\r\n{}"), "{sent}");
    }

    /// Each header is sent once: the target's own before the job's, and the job's before a default.
    #[test]
    fn a_header_of_the_target_replaces_others() {
        let mut settings = TargetSettings::new("http://partner.example/");
        for (name, value) in [("User-Agent", "robot"), ("x-tenant", "red"), ("X-Tenant", "green")] {
            settings.headers.insert(name.into(), value.into());
        }
        settings.forward =
            ["X-Tenant", "content-type", "Content-Type", "traceparent"].map(str::to_owned).to_vec();
        let job = NewJob::new("orders", "{}")
            .header("content-type", "text/plain")
            .header("x-tenant", "blue")
            .header("traceparent", "nonsense");
        let headers = headers_of(&attempt(settings, job).unwrap());
        for (name, value) in
            [("user-agent", "robot"), ("x-tenant", "red"), ("content-type", "text/plain")]
        {
            let values: Vec<_> = headers.get_all(name).iter().collect();
            assert_eq!(values, [value], "{name}");
        }
        let traces: Vec<_> = headers.get_all("traceparent").iter().collect();
        assert!(matches!(traces[..], [trace] if trace.as_bytes().starts_with(b"00-")));
    }

    #[test]
    fn a_job_that_cannot_be_sent_says_why() {
        let settings = TargetSettings::new("http://partner.example/{key}");
        let refused = attempt(settings, NewJob::new("orders", "")).unwrap_err();
        assert!(matches!(refused, NoAnswer::Impossible(why) if why.text.contains("{key}")));
        let mut settings = TargetSettings::new("http://partner.example/");
        settings.forward = vec!["x-note".into()];
        let job = NewJob::new("orders", "").header("x-note", "a\nb");
        assert!(matches!(attempt(settings, job), Err(NoAnswer::Impossible(_))));
    }
}
