//! One request to a target by hand, with everything about it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tickwheel_queue::{JobId, Time};

use super::connection::Kept;
use super::permit::Starting;
use super::request::{Message, headers_of, shown};
use super::response::Verdict;
use super::{Push, wall_clock_ms};
use crate::api::{Code, TargetTest};
use crate::problem::Failure;
use crate::wire::IntoWire;

/// Bytes of an answer that are shown.
const SHOWN_BYTES: usize = 4 << 10;
/// The payload of the request.
const PAYLOAD: &str = r#"{"type":"tickwheel.test"}"#;

impl Push {
    /// Sends one signed request that counts in the target's rate. No job and no health changes.
    pub(crate) async fn test(&self, name: &str) -> Result<TargetTest, Failure> {
        let deliverer = self.with(name, |target| Arc::clone(&target.deliverer))?;
        let mut permit = deliverer.permit_for_test().await.map_err(|wait| match wait {
            Ok(wait_ms) => {
                let why = format!("the target has no request left in its window for {wait_ms} ms");
                let seconds = Duration::from_millis(wait_ms).as_secs() + 1;
                Failure::new(Code::RateLimited, why).retry_after(seconds)
            }
            Err(error) => error.into(),
        })?;
        let mut kept = Kept::default();
        let definition = deliverer.prepare(&mut kept);
        let now = Time::from_millis(wall_clock_ms());
        let id = JobId::new(now);
        let headers: Vec<(String, String)> = ["content-type"]
            .into_iter()
            .map(|name| (name.to_owned(), "application/json".to_owned()))
            .chain(definition.endpoint.header_names().map(|it| (it.to_owned(), "test".to_owned())))
            .collect();
        let payload = Bytes::from_static(PAYLOAD.as_bytes());
        let message = Message {
            id,
            queue: "tickwheel-test",
            key: Some("test"),
            headers: &headers,
            payload: &payload,
            attempt: 1,
            due: now,
        };
        let mut start = Starting {
            permit: &mut permit,
            definition: &definition,
            message,
            traceparent: None,
            is_kept: true,
            sent: None,
        };
        let began = tokio::time::Instant::now();
        let deadline = began + definition.timeout;
        let (address, outcome) = deliverer.send(&definition, deadline, &mut start, &mut kept).await;
        let took = began.elapsed();
        let sent = start.sent;
        let verdict = Verdict::of(&outcome, wall_clock_ms());
        let path = definition.endpoint.path_for(&message).unwrap_or_default();
        let scheme = if definition.endpoint.is_tls { "https" } else { "http" };
        let answer = outcome.as_ref().ok();
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]).into_owned()
        };
        let name = verdict.name();
        let why = match verdict {
            Verdict::Done(_) => None,
            Verdict::Failed { why, .. } | Verdict::Hold { why, .. } | Verdict::Stop { why } => {
                Some(why)
            }
        };
        Ok(TargetTest {
            id: id.into_wire(),
            method: definition.method.to_string(),
            url: format!("{scheme}://{}{path}", definition.endpoint.authority),
            address: address.map(|address| address.to_string()),
            request_headers: sent.as_ref().map(|it| shown(&headers_of(it))).unwrap_or_default(),
            request_body: sent.as_ref().map(|it| text(it.content())).unwrap_or_default(),
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            verdict: name.to_owned(),
            status: answer.map(|answer| answer.status.as_u16()),
            response_headers: answer.map(|answer| shown(&answer.headers)).unwrap_or_default(),
            response_body: answer.map(|answer| text(&answer.body)),
            error: why.as_ref().map(|why| why.text.clone()),
            cause: why.and_then(|why| why.cause),
        })
    }
}
