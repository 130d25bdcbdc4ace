//! One request to a target by hand, with everything about it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tickwheel_queue::{JobId, Time};

use super::permit::Starting;
use super::request::{Message, shown};
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
        let definition = deliverer.definition();
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
            attempt: None,
        };
        let began = tokio::time::Instant::now();
        let (address, outcome) =
            deliverer.send(&definition, began + definition.timeout, &mut start).await;
        let took = began.elapsed();
        let attempt = start.attempt;
        let verdict = Verdict::of(&outcome, wall_clock_ms());
        let path = definition.endpoint.path_for(&message).unwrap_or_default();
        let scheme = if definition.endpoint.is_tls { "https" } else { "http" };
        let answer = outcome.as_ref().ok();
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]).into_owned()
        };
        Ok(TargetTest {
            id: id.into_wire(),
            method: definition.method.to_string(),
            url: format!("{scheme}://{}{path}", definition.endpoint.authority),
            address: address.map(|address| address.to_string()),
            request_headers: attempt.as_ref().map(|it| shown(&it.headers)).unwrap_or_default(),
            request_body: attempt.as_ref().map(|it| text(&it.body)).unwrap_or_default(),
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            verdict: verdict.name().to_owned(),
            status: answer.map(|answer| answer.status.as_u16()),
            response_headers: answer.map(|answer| shown(&answer.headers)).unwrap_or_default(),
            response_body: answer.map(|answer| text(&answer.body)),
            error: match verdict {
                Verdict::Done(_) => None,
                Verdict::Failed { error, .. } => Some(error),
                Verdict::Hold { reason, .. } | Verdict::Stop { reason } => Some(reason),
            },
        })
    }
}
