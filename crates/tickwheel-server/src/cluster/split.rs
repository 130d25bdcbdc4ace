//! Batches whose items belong to several partitions.
//!
//! The whole batch is parsed first, so that a malformed one changes nothing. Then each partition
//! gets its items as a batch of its own, with the same headers. So a batch is as atomic in each
//! partition as on one server, and each partition remembers the idempotency key for its items. The
//! results are returned in the order of the items. A job that its partition does not know, because
//! a caller chose the id, is then looked for in all others.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tickwheel_cluster::Layout;

use super::dispatch::{Dispatcher, Pending, Whole};
use super::gather::{Answer, Answered};
use super::route::{Items, of_job, of_queue};
use crate::api::{
    Batch, Code, ExtendItem, FailItem, ImportRequest, JobId, JobItem, LeaseItem, Problem,
    PutRequest, ReleaseItem, RescheduleItem, Results, Verdict,
};
use crate::extract;
use crate::problem::Failure;
use crate::wire::IntoQueue;

/// The size above which a body is parsed on another thread, in bytes.
const LARGE_BODY: usize = 64 << 10;
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The result of an item, whose JSON is passed through unchanged.
type RawVerdict = Verdict<Box<RawValue>>;

/// Returns the queue of a job that names a target.
pub(super) fn aimed(queue: &str, target: &str) -> String {
    format!("{queue}.{target}")
}

/// A batch, with the partition of each item.
struct Parted {
    /// The name of the field with the items.
    field: &'static str,
    items: Vec<Box<RawValue>>,
    partitions: Vec<u32>,
}

impl Parted {
    /// Parses a batch. Returns `None` if it is malformed: any partition refuses it then.
    fn read(layout: &Layout, items: Items, path: &str, body: &[u8]) -> Option<Self> {
        let partitions = match (items, path.rsplit('/').next()) {
            (Items::Puts, _) => each(body, |item: &PutRequest| of_put(layout, item))?,
            (Items::Imports, _) => each(body, |item: &ImportRequest| of_put(layout, &item.put))?,
            (Items::Ids, Some("ack")) => each(body, |it: &LeaseItem| of_id(layout, &it.id))?,
            (Items::Ids, Some("fail")) => each(body, |it: &FailItem| of_id(layout, &it.id))?,
            (Items::Ids, Some("extend")) => each(body, |it: &ExtendItem| of_id(layout, &it.id))?,
            (Items::Ids, Some("release")) => each(body, |it: &ReleaseItem| of_id(layout, &it.id))?,
            (Items::Ids, Some("reschedule")) => {
                each(body, |it: &RescheduleItem| of_id(layout, &it.id))?
            }
            (Items::Ids, _) => each(body, |it: &JobItem| of_id(layout, &it.id))?,
        };
        let batch: Batch<Box<RawValue>> = serde_json::from_slice(body).ok()?;
        let is_old = body.split(|&byte| byte == b'"').nth(1) == Some(b"jobs");
        let field = if is_old { "jobs" } else { "items" };
        Some(Self { field, items: batch.items, partitions })
    }

    /// Returns the batch of some of the items.
    fn part(&self, indices: &[usize]) -> Bytes {
        let items: Vec<_> = indices.iter().map(|index| self.items[*index].get()).collect();
        format!("{{\"{}\":[{}]}}", self.field, items.join(",")).into()
    }
}

/// Reads all items, and returns the partition of each.
fn each<T: DeserializeOwned>(body: &[u8], of: impl Fn(&T) -> u32) -> Option<Vec<u32>> {
    let batch: Batch<T> = serde_json::from_slice(body).ok()?;
    Some(batch.items.iter().map(of).collect())
}

/// Returns the partition of a job that is put. Any partition refuses a job without a queue.
fn of_put(layout: &Layout, put: &PutRequest) -> u32 {
    let Some(queue) = &put.queue else { return 0 };
    match &put.target {
        Some(target) => of_queue(layout, &aimed(queue, target)),
        None => of_queue(layout, queue),
    }
}

fn of_id(layout: &Layout, id: &JobId) -> u32 {
    of_job(layout, (*id).into_queue())
}

/// The answers so far, by item.
struct Collected {
    verdicts: Vec<Option<RawVerdict>>,
    /// The first answer to a part that succeeded, for its headers.
    head: Option<Answered>,
    /// The first answer to a part that did not succeed, or why there was none.
    failed: Option<Answer>,
    are_replayed: bool,
}

/// Answers a batch.
pub(super) async fn answer(dispatcher: &Arc<Dispatcher>, items: Items, whole: Whole) -> Answer {
    let any = |whole| dispatcher.ask(dispatcher.nearest(), Pending::Whole(whole));
    // A caller without access is refused before the batch is parsed.
    if dispatcher.common.gate().admit(&whole.parts.headers).is_err() {
        return any(whole).await;
    }
    let (layout, path) = (dispatcher.layout.clone(), whole.parts.uri.path().to_owned());
    let body = whole.body.clone();
    let reading = move || Ok(Parted::read(&layout, items, &path, &body));
    let parted = extract::off_thread(whole.body.len() > LARGE_BODY, reading).await?;
    let limit = dispatcher.common.config().queue_limits.batch;
    let Some(parted) = parted.filter(|it| (1..=limit).contains(&(it.items.len() as u64))) else {
        return any(whole).await;
    };
    let mut collected = Collected {
        verdicts: (0..parted.items.len()).map(|_| None).collect(),
        head: None,
        failed: None,
        are_replayed: true,
    };
    let mut parts: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, partition) in parted.partitions.iter().enumerate() {
        parts.entry(*partition).or_default().push(index);
    }
    if let (1, Some(partition)) = (parts.len(), parts.keys().next()) {
        // The body is sent unchanged, so that its repetition is recognised by its bytes.
        let answer = dispatcher.ask(*partition, Pending::Whole(whole.clone())).await;
        let indices: Vec<_> = (0..parted.items.len()).collect();
        collected.take(dispatcher, &parted, &indices, answer).await;
    } else {
        collected.ask(dispatcher, &whole, &parted, parts).await;
    }
    if items == Items::Ids {
        collected.look_elsewhere(dispatcher, &whole, &parted).await;
    }
    collected.finish()
}

impl Collected {
    /// Asks partitions for their items, at the same time.
    async fn ask(
        &mut self,
        dispatcher: &Arc<Dispatcher>,
        whole: &Whole,
        parted: &Parted,
        parts: BTreeMap<u32, Vec<usize>>,
    ) {
        let request = |indices: &Vec<usize>| {
            let mut part = whole.clone();
            part.body = parted.part(indices);
            part
        };
        let requests = parts.iter().map(|(partition, it)| (*partition, request(it))).collect();
        let answers = dispatcher.ask_some(requests).await;
        for (indices, answer) in parts.values().zip(answers) {
            self.take(dispatcher, parted, indices, answer).await;
        }
    }

    /// Takes the answer to some items.
    async fn take(
        &mut self,
        dispatcher: &Dispatcher,
        parted: &Parted,
        indices: &[usize],
        answer: Answer,
    ) {
        let answered = match answer {
            Ok(response) => dispatcher.collect(response).await,
            Err(failure) => Err(failure),
        };
        let problem = match answered {
            Ok(answered) if answered.status == StatusCode::OK => {
                match serde_json::from_slice::<Results<Box<RawValue>>>(&answered.body) {
                    Ok(Results { results }) if results.len() == indices.len() => {
                        self.note(parted, indices, results);
                        self.are_replayed &= answered.headers.contains_key(REPLAYED);
                        self.head.get_or_insert(answered);
                        return;
                    }
                    _ => {
                        let why = "a partition answered something else than one result an item";
                        let problem = Problem::new(Code::Internal, why);
                        self.failed.get_or_insert(Err(problem.clone().into()));
                        problem
                    }
                }
            }
            Ok(answered) => {
                let problem = answered.problem();
                self.failed.get_or_insert_with(|| Ok(answered.into_response()));
                problem
            }
            Err(failure) => {
                let problem = (*failure.problem).clone();
                self.failed.get_or_insert(Err(failure));
                problem
            }
        };
        for index in indices {
            let field = format!("/{}/{index}", parted.field);
            let verdict = Verdict::Error(Problem { field: Some(field), ..problem.clone() });
            self.verdicts[*index] = Some(verdict);
        }
    }

    /// Notes the results of some items. A problem that names an item by its index in the part names
    /// it by its index in the batch afterwards.
    fn note(&mut self, parted: &Parted, indices: &[usize], results: Vec<RawVerdict>) {
        for ((place, index), mut verdict) in indices.iter().enumerate().zip(results) {
            if let Verdict::Error(problem) = &mut verdict
                && let Some(field) = &mut problem.field
                && let Some(rest) = field.strip_prefix(&format!("/{}/{place}", parted.field))
            {
                *field = format!("/{}/{index}{rest}", parted.field);
            }
            self.verdicts[*index] = Some(verdict);
        }
    }

    /// Asks all other partitions for items that are unknown in their own.
    async fn look_elsewhere(
        &mut self,
        dispatcher: &Arc<Dispatcher>,
        whole: &Whole,
        parted: &Parted,
    ) {
        let is_missing = |verdict: &Option<RawVerdict>| matches!(verdict, Some(Verdict::Error(it)) if it.code == Code::NotFound);
        let missing: Vec<_> =
            (0..parted.items.len()).filter(|index| is_missing(&self.verdicts[*index])).collect();
        if missing.is_empty() {
            return;
        }
        for partition in 0..dispatcher.layout.partitions() {
            let is_there = |index: &usize| {
                parted.partitions[*index] != partition && is_missing(&self.verdicts[*index])
            };
            let indices: Vec<_> = missing.iter().copied().filter(is_there).collect();
            if !indices.is_empty() {
                let parts = [(partition, indices)].into();
                self.ask(dispatcher, whole, parted, parts).await;
            }
        }
    }

    /// Returns the answer to the batch. If no part succeeded, that is the first failure.
    fn finish(self) -> Answer {
        let Some(head) = self.head else {
            let none = || Err(Failure::new(Code::Internal, "the batch has no answer"));
            return self.failed.unwrap_or_else(none);
        };
        let lost = || Verdict::Error(Problem::new(Code::Internal, "the item has no answer"));
        let results = self.verdicts.into_iter().map(|it| it.unwrap_or_else(lost)).collect();
        let failure = |error| Failure::new(Code::Internal, format!("no answer: {error}"));
        let json = serde_json::to_vec(&Results { results }).map_err(failure)?;
        let mut response = head.with_json(json)?.into_response();
        response.headers_mut().remove(REPLAYED);
        if self.are_replayed {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::even(4).unwrap()
    }

    #[test]
    fn items_are_parted_by_their_queues() {
        let body = br#"{"jobs": [{"queue": "mail", "payload": {"b": 1, "a": 2}}, {"queue": "a"},
            {"queue": "orders"}, {"queue": "mail"}, {}]}"#;
        let parted = Parted::read(&layout(), Items::Puts, "/v1/jobs/batch", body).unwrap();
        assert_eq!(parted.partitions, [0, 3, 2, 0, 0]);
        let part = parted.part(&[0, 3]);
        let wanted =
            r#"{"jobs":[{"queue": "mail", "payload": {"b": 1, "a": 2}},{"queue": "mail"}]}"#;
        assert_eq!(&part[..], wanted.as_bytes());
    }

    #[test]
    fn a_job_for_a_target_belongs_to_the_queue_that_it_goes_to() {
        let put = PutRequest {
            queue: Some("mail".into()),
            target: Some("shop".into()),
            ..PutRequest::default()
        };
        assert_eq!(of_put(&layout(), &put), of_queue(&layout(), "mail.shop"));
    }

    #[test]
    fn a_batch_with_a_wrong_item_is_not_parted() {
        let ids = |path, body: &str| Parted::read(&layout(), Items::Ids, path, body.as_bytes());
        let id = "0190163d-8694-739b-aaa8-966c26f8ad91";
        let cancel = format!(r#"{{"items": [{{"id": "{id}"}}]}}"#);
        assert_eq!(ids("/v1/jobs/batch/cancel", &cancel).unwrap().partitions.len(), 1);
        assert!(ids("/v1/jobs/batch/ack", &cancel).is_none());
        assert!(ids("/v1/jobs/batch/cancel", r#"{"items": [{"id": 7}]}"#).is_none());
        assert!(ids("/v1/jobs/batch/cancel", "{").is_none());
    }

    #[test]
    fn problems_name_the_place_in_the_whole_batch() {
        let body = br#"{"items": [{"queue": "a"}, {"queue": "mail"}, {"queue": "a"}]}"#;
        let parted = Parted::read(&layout(), Items::Puts, "/v1/jobs/batch", body).unwrap();
        let mut collected = Collected {
            verdicts: (0..3).map(|_| None).collect(),
            head: None,
            failed: None,
            are_replayed: true,
        };
        let problem = Problem::new(Code::KeyExists, "x").at("/items/1/key");
        let ok = RawValue::from_string("{}".into()).unwrap();
        collected.note(&parted, &[0, 2], vec![Verdict::Ok(ok), Verdict::Error(problem)]);
        assert!(matches!(collected.verdicts[0], Some(Verdict::Ok(_))));
        assert!(collected.verdicts[1].is_none());
        let Some(Verdict::Error(problem)) = &collected.verdicts[2] else { panic!() };
        assert_eq!(problem.field.as_deref(), Some("/items/2/key"));
    }
}
