//! The last answers of a target, for operators.
//!
//! They are in memory only. Every delivery adds one, so adding is cheap: it copies the first bytes of
//! the body, and only a request that shows the target turns them into text.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::response::{Answer, EXCERPT_BYTES, NoAnswer, Verdict, excerpt};
use super::why::Why;
use crate::api::TargetResponse;

/// Answers that are kept.
const MAX_RESPONSES: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Responses(Mutex<VecDeque<Response>>);

#[derive(Debug)]
struct Response {
    at_ms: u64,
    took: Duration,
    verdict: &'static str,
    /// The status and the beginning of the body, or why there is no answer.
    outcome: Result<(u16, Box<[u8]>), Why>,
}

impl Responses {
    /// Adds the outcome of a request that ended at `at_ms`.
    pub(super) fn add(
        &self,
        at_ms: u64,
        took: Duration,
        verdict: &Verdict,
        outcome: &Result<Answer, NoAnswer>,
    ) {
        let outcome = match outcome {
            Ok(answer) => {
                let body = &answer.body[..answer.body.len().min(EXCERPT_BYTES)];
                Ok((answer.status.as_u16(), body.into()))
            }
            Err(NoAnswer::Impossible(why) | NoAnswer::Unreachable(why)) => Err(why.clone()),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.truncate(MAX_RESPONSES - 1);
        all.push_front(Response { at_ms, took, verdict: verdict.name(), outcome });
    }

    /// Returns the answers, the newest first.
    pub(super) fn list(&self) -> Vec<TargetResponse> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(Response::shown).collect()
    }
}

impl Response {
    fn shown(&self) -> TargetResponse {
        let (status, body, why) = match &self.outcome {
            Ok((status, body)) => (Some(*status), excerpt(body, EXCERPT_BYTES), None),
            Err(why) => (None, String::new(), Some(why)),
        };
        TargetResponse {
            at: crate::api::rfc3339(self.at_ms),
            at_ms: self.at_ms,
            duration_ms: u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            verdict: self.verdict.to_owned(),
            status,
            excerpt: Some(body).filter(|text| !text.is_empty()),
            error: why.map(|why| why.text.clone()),
            cause: why.and_then(|why| why.cause.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, StatusCode};

    use super::*;

    #[test]
    fn the_newest_answers_are_kept_with_a_bounded_excerpt() {
        let responses = Responses::default();
        for number in 1..=7 {
            let body = format!("answer\t{number} {}", "é".repeat(1_000));
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            let outcome = Ok(Answer { status, headers: HeaderMap::new(), body: body.into() });
            let verdict = Verdict::of(&outcome, 0);
            responses.add(number, Duration::from_millis(3), &verdict, &outcome);
        }
        let shown = responses.list();
        assert_eq!(shown.iter().map(|it| it.at_ms).collect::<Vec<_>>(), [7, 6, 5, 4, 3]);
        let newest = &shown[0];
        assert_eq!((newest.status, &*newest.verdict, newest.duration_ms), (Some(500), "failed", 3));
        let excerpt = newest.excerpt.as_deref().unwrap();
        assert!(excerpt.starts_with("answer 7 éé") && excerpt.len() <= EXCERPT_BYTES, "{excerpt}");
    }

    #[test]
    fn a_request_without_an_answer_says_why() {
        let responses = Responses::default();
        let outcome = Err(NoAnswer::Unreachable(Why::other("connection refused")));
        responses.add(1, Duration::ZERO, &Verdict::of(&outcome, 0), &outcome);
        let [shown] = &responses.list()[..] else { panic!() };
        assert_eq!((shown.status, shown.excerpt.as_deref()), (None, None));
        assert_eq!(shown.error.as_deref(), Some("connection refused"));
    }
}
