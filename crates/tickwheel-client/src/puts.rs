//! Puts of concurrent callers, sent together.
//!
//! A put that comes alone is sent at once. While requests are under way, further puts gather and
//! leave as one request, so a busy producer needs few requests and an idle one waits for nothing.
//!
//! Ground rules:
//! * Each batch has an idempotency key of its own, so repeating it puts nothing twice.
//! * Each caller gets the result of its own put. If the server refuses a batch as a whole, its
//!   puts are sent one by one, so that one bad put harms no other.
//! * The task ends with the last handle of the client.

use std::sync::Arc;

use hyper::Method;
use serde::Serialize;
use tickwheel_api::{PutRequest, PutResponse, Results, Verdict};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::client::queue_path;
use crate::error::Error;
use crate::transport::{Call, Transport};

/// Puts in one request.
const LARGEST_BATCH: usize = 500;
/// Requests under way. A second one keeps the server busy while the first one's answer travels.
const UNDER_WAY: usize = 2;
/// About how many bytes of payload are in one request.
const LARGEST_BODY: usize = 1 << 20;

/// A put, and who waits for its result.
pub(crate) type Waiting = (PutRequest, oneshot::Sender<Result<PutResponse, Error>>);

#[derive(Serialize)]
struct Items<'a> {
    items: &'a [PutRequest],
}

/// Starts the task that gathers puts.
pub(crate) fn start(transport: Arc<Transport>) -> mpsc::Sender<Waiting> {
    let (sender, receiver) = mpsc::channel(2 * LARGEST_BATCH);
    tokio::spawn(gather(transport, receiver));
    sender
}

async fn gather(transport: Arc<Transport>, mut receiver: mpsc::Receiver<Waiting>) {
    let slots = Arc::new(Semaphore::new(UNDER_WAY));
    while let Some(first) = receiver.recv().await {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        // Callers that are ready to put now come along.
        tokio::task::yield_now().await;
        let mut bytes = size(&first.0);
        let mut batch = vec![first];
        while batch.len() < LARGEST_BATCH && bytes < LARGEST_BODY {
            let Ok(next) = receiver.try_recv() else { break };
            bytes += size(&next.0);
            batch.push(next);
        }
        let transport = Arc::clone(&transport);
        tokio::spawn(async move {
            send(&transport, batch).await;
            drop(slot);
        });
    }
}

fn size(put: &PutRequest) -> usize {
    let payload = put.payload.as_ref().map(|payload| payload.get().len());
    let others = [&put.text, &put.base64].into_iter().flatten().map(String::len);
    payload.into_iter().chain(others).sum()
}

async fn send(transport: &Transport, mut batch: Vec<Waiting>) {
    if batch.len() > 1 {
        let (puts, callers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        match put_all(transport, &puts, None).await {
            Ok(results) => {
                for (caller, result) in callers.into_iter().zip(results) {
                    // A caller that has gone does not want its result.
                    caller.send(result).ok();
                }
                return;
            }
            // One of the puts, or their size, is at fault.
            Err(Error::Refused(problem)) if matches!(problem.status, 400 | 413 | 422) => {
                batch = puts.into_iter().zip(callers).collect();
            }
            Err(error) => {
                for caller in callers {
                    caller.send(Err(error.clone())).ok();
                }
                return;
            }
        }
    }
    for (put, caller) in batch {
        caller.send(put_one(transport, &put, None).await).ok();
    }
}

/// Puts one job, under a key of the caller's or a new one.
pub(crate) async fn put_one(
    transport: &Transport,
    put: &PutRequest,
    key: Option<&str>,
) -> Result<PutResponse, Error> {
    let queue = put.queue.as_deref().unwrap_or_default();
    let call = Call::new(Method::POST, queue_path(queue, "/jobs")).json(put)?;
    transport.call(call.idempotent(key.unwrap_or(&new_key()))?).await
}

/// Puts jobs in one request; the results are in the order of the puts.
pub(crate) async fn put_all(
    transport: &Transport,
    puts: &[PutRequest],
    key: Option<&str>,
) -> Result<Vec<Result<PutResponse, Error>>, Error> {
    let call = Call::new(Method::POST, "/v1/jobs/batch").json(&Items { items: puts })?;
    let call = call.idempotent(key.unwrap_or(&new_key()))?;
    let results: Results<PutResponse> = transport.call(call).await?;
    if results.results.len() != puts.len() {
        return Err(too_few());
    }
    Ok(results.results.into_iter().map(result).collect())
}

fn new_key() -> String {
    format!("{:032x}", fastrand::u128(..))
}

pub(crate) fn result<T>(verdict: Verdict<T>) -> Result<T, Error> {
    match verdict {
        Verdict::Ok(value) => Ok(value),
        Verdict::Error(problem) => Err(Error::Refused(Box::new(problem))),
    }
}

fn too_few() -> Error {
    Error::Answer("it has fewer results than the request has items".to_owned())
}
