//! What the answer of a target means.

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;

use super::why::Why;
use crate::api::TargetCauseCode;

/// The response header that ends the retries of a job: `tickwheel-retry: never`.
pub(super) const RETRY_HEADER: &str = "tickwheel-retry";
/// Bytes of an answer that an error text shows.
pub(super) const EXCERPT_BYTES: usize = 256;
/// Bytes of an answer that the history of a job shows.
const DETAIL_BYTES: usize = tickwheel_queue::Attempt::MAX_TEXT_BYTES;

/// An answer, with as much of its body as is kept.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The request cannot be made of this job, now or later.
    Impossible(Why),
    /// The target cannot be reached, or did not answer in time.
    Unreachable(Why),
}

/// What becomes of the job, and what the answer says about the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The job is done, with this result.
    Done(Option<Bytes>),
    /// The attempt failed.
    Failed {
        why: Why,
        /// An excerpt of the answer, for the history of the job.
        detail: Option<String>,
        /// The job dies without further attempts.
        is_final: bool,
        /// The target is in trouble, not the job alone.
        is_trouble: bool,
    },
    /// The job goes back unused, and the target is held for this many milliseconds.
    Hold { wait_ms: u64, why: Why },
    /// The job goes back unused, and the target gets nothing until it is resumed.
    Stop { why: Why },
}

impl Verdict {
    /// Returns what an outcome means. `now_ms` is the time of the answer, for a `Retry-After` with a
    /// date.
    pub(super) fn of(outcome: &Result<Answer, NoAnswer>, now_ms: u64) -> Self {
        let answer = match outcome {
            Ok(answer) => answer,
            Err(NoAnswer::Impossible(why)) => {
                let why = why.clone();
                return Self::Failed { why, detail: None, is_final: true, is_trouble: false };
            }
            Err(NoAnswer::Unreachable(why)) => {
                let why = why.clone();
                return Self::Failed { why, detail: None, is_final: false, is_trouble: true };
            }
        };
        let status = answer.status;
        if status.is_success() {
            return Self::Done(result_of(&answer.body));
        }
        let why = describe(answer);
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
            && let Some(wait_ms) = retry_after(&answer.headers, now_ms)
        {
            return Self::Hold { wait_ms, why };
        }
        if status == StatusCode::GONE {
            return Self::Stop { why };
        }
        let asks = answer.headers.get(RETRY_HEADER).and_then(|value| value.to_str().ok());
        let is_final = asks.is_some_and(|asks| asks.trim().eq_ignore_ascii_case("never"));
        let is_trouble = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        let detail = Some(excerpt(&answer.body, DETAIL_BYTES)).filter(|text| !text.is_empty());
        Self::Failed { why, detail, is_final, is_trouble: is_trouble && !is_final }
    }

    /// Its name in the report of a test request.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Done(_) => "delivered",
            Self::Failed { is_final: true, .. } => "dead",
            Self::Failed { .. } => "failed",
            Self::Hold { .. } => "held",
            Self::Stop { .. } => "stopped",
        }
    }
}

/// The result of a job: the body if it is JSON, else the body as a JSON text; none if it is empty.
fn result_of(body: &Bytes) -> Option<Bytes> {
    if body.is_empty() {
        return None;
    }
    let is_json = std::str::from_utf8(body).is_ok_and(|text| crate::api::check_json(text).is_ok());
    if is_json && serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok() {
        return Some(body.clone());
    }
    let text = String::from_utf8_lossy(body);
    let limit = tickwheel_queue::Job::MAX_RESULT_BYTES;
    let mut end = text.len();
    loop {
        let json = serde_json::to_vec(&text[..end]).unwrap_or_default();
        if json.len() <= limit {
            return Some(json.into());
        }
        // Each byte too many is at most one character of the text.
        end = end.saturating_sub((json.len() - limit).div_ceil(6).max(1));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
    }
}

/// The status, and the beginning of the body.
fn describe(answer: &Answer) -> Why {
    let status = answer.status;
    let mut detail = status.to_string();
    let (code, mut text) = if status.is_redirection() {
        let location = answer.headers.get("location").and_then(|it| it.to_str().ok());
        let location: String = location.unwrap_or("nowhere").chars().take(200).collect();
        let text = format!("redirects are not followed: {status} to {location:?}");
        (TargetCauseCode::Redirected, text)
    } else {
        (TargetCauseCode::Answered, format!("answered {status}"))
    };
    let excerpt = excerpt(&answer.body, EXCERPT_BYTES);
    if !excerpt.is_empty() {
        for line in [&mut detail, &mut text] {
            line.push_str(": ");
            line.push_str(&excerpt);
        }
    }
    Why::new(code, detail, text)
}

pub(super) fn excerpt(body: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(most)]);
    let text = text.trim_end_matches('\u{fffd}');
    text.chars()
        .map(|it| if it.is_control() { ' ' } else { it })
        .collect::<String>()
        .trim()
        .to_owned()
}

/// How long to wait, by a number of seconds or an HTTP date.
fn retry_after(headers: &HeaderMap, now_ms: u64) -> Option<u64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(text.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1_000));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let since = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(u64::try_from(since.as_millis()).ok()?.saturating_sub(now_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Verdict {
        let headers = headers.iter().map(|(name, value)| {
            (name.parse().unwrap(), axum::http::HeaderValue::from_str(value).unwrap())
        });
        let answer = Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers.collect(),
            body: body.to_owned().into(),
        };
        Verdict::of(&Ok(answer), 784_111_777_000 - 5_000)
    }

    #[test]
    fn success_acknowledges_with_the_body_as_result() {
        assert_eq!(answer(200, &[], r#"{"a":1}"#), Verdict::Done(Some(r#"{"a":1}"#.into())));
        assert_eq!(answer(204, &[], ""), Verdict::Done(None));
        assert_eq!(answer(201, &[], "thanks"), Verdict::Done(Some(r#""thanks""#.into())));
        let limit = tickwheel_queue::Job::MAX_RESULT_BYTES;
        for text in ["x".repeat(limit), "\u{1}\"é".repeat(limit / 4)] {
            let Verdict::Done(Some(result)) = answer(200, &[], &text) else { panic!() };
            assert!(result.len() <= limit && result.len() > limit / 4, "{}", result.len());
            let text: String = serde_json::from_slice(&result).unwrap();
            assert!(!text.is_empty());
        }
    }

    #[test]
    fn a_wait_is_read_in_both_forms() {
        let wait = |status, value: &str| match answer(status, &[("retry-after", value)], "") {
            Verdict::Hold { wait_ms, .. } => Some(wait_ms),
            _ => None,
        };
        assert_eq!(wait(429, "7"), Some(7_000));
        assert_eq!(wait(503, "Sun, 06 Nov 1994 08:49:37 GMT"), Some(5_000));
        assert_eq!(wait(503, "Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        assert_eq!(wait(429, "99999999999999999999"), Some(u64::MAX));
        assert_eq!((wait(429, "soon"), wait(429, "-1"), wait(502, "7")), (None, None, None));
    }

    #[test]
    fn statuses_decide_about_job_and_target() {
        let failed = |verdict| match verdict {
            Verdict::Failed { is_final, is_trouble, .. } => Some((is_final, is_trouble)),
            _ => None,
        };
        assert_eq!(failed(answer(400, &[], "bad")), Some((false, false)));
        assert_eq!(failed(answer(429, &[], "")), Some((false, true)));
        for status in [500, 502, 503, 504] {
            assert_eq!(failed(answer(status, &[], "")), Some((false, true)), "{status}");
        }
        let never = [("tickwheel-retry", "Never")];
        assert_eq!(failed(answer(422, &never, "")), Some((true, false)));
        assert_eq!(
            failed(answer(302, &[("location", "http://127.0.0.1/")], "")),
            Some((false, false))
        );
        assert!(
            matches!(answer(410, &[], "moved"), Verdict::Stop { why } if why.text.contains("moved"))
        );
    }

    #[test]
    fn an_error_shows_a_bounded_excerpt_in_one_line() {
        let Verdict::Failed { why: Why { text: error, .. }, .. } =
            answer(500, &[], &"é\n".repeat(1_000))
        else {
            panic!()
        };
        assert!(error.starts_with("answered 500 Internal Server Error: é é"), "{error}");
        assert!(error.len() < 400 && !error.contains('\n'), "{error}");
    }
}
