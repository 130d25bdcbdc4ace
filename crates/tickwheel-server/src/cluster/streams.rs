//! Streams of events of all partitions, as one stream.
//!
//! The stream of each partition is read block by block. The id of a merged event consists of the
//! positions in all partitions, with dots between them, so a client resumes in each of them. If the
//! stream of a partition ends, for example because its owner changes, the merged stream ends too,
//! and the client reconnects.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, HeaderName};
use axum::http::{HeaderValue, StatusCode};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::dispatch::{Dispatcher, Whole};
use super::gather::{Answer, with_query};
use super::merge;
use super::route::{self, Stream};
use crate::api::{Code, Live};
use crate::problem::Failure;
use crate::push::watch::WatchBody;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The maximum numbers of blocks that were read, and of chunks for the client, that wait to be
/// sent.
const MAX_BLOCKS: usize = 64;
const MAX_CHUNKS: usize = 16;
/// The maximum size of a block. The stream ends at a larger one.
const MAX_BLOCK_BYTES: usize = 16 << 20;
/// The time between two events of the live view.
const LIVE_PERIOD: Duration = Duration::from_millis(500);

/// One event of a stream, or a position without one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Block {
    id: Option<String>,
    data: Option<String>,
    /// All lines but the id.
    others: String,
}

impl Block {
    fn read(text: &str) -> Self {
        let mut block = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(id) = line.strip_prefix("id:") {
                block.id = Some(id.trim().to_owned());
                continue;
            }
            if let Some(data) = line.strip_prefix("data:") {
                block.data = Some(data.trim_start().to_owned());
            }
            block.others.push_str(line);
            block.others.push('\n');
        }
        block
    }
}

/// Opens the streams of all partitions.
pub(super) async fn open(dispatcher: &Arc<Dispatcher>, stream: Stream, mut whole: Whole) -> Answer {
    let count = dispatcher.layout.partitions() as usize;
    let positions = match stream {
        Stream::Events => positions(&whole, count)?,
        Stream::TargetEvents | Stream::Live => None,
    };
    let query = route::without(whole.parts.uri.query().unwrap_or_default(), "last_event_id");
    whole.parts.uri = with_query(&whole.parts.uri, &query);
    whole.parts.headers.remove(LAST_EVENT_ID);
    let request = |number: usize| {
        let mut request = whole.clone();
        let position = positions.as_ref().map(|it| HeaderValue::from_str(&it[number]));
        if let Some(Ok(position)) = position {
            request.parts.headers.insert(LAST_EVENT_ID, position);
        }
        (number as u32, request)
    };
    let mut bodies = Vec::new();
    let mut head = None;
    for answer in dispatcher.ask_some((0..count).map(request).collect()).await {
        let answer = answer?;
        if answer.status() != StatusCode::OK {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        head.get_or_insert(parts);
        bodies.push(body);
    }
    let Some(mut head) = head else {
        return Err(Failure::new(Code::Internal, "there is no partition"));
    };
    head.headers.remove(CONTENT_LENGTH);
    let (chunks, body) = WatchBody::new(MAX_CHUNKS);
    let shutdown = dispatcher.common.shutdown().clone();
    tokio::spawn(async move {
        let closed = chunks.clone();
        tokio::select! {
            () = forward(stream, bodies, chunks) => {}
            () = closed.closed() => {}
            () = shutdown.begun() => {}
        }
    });
    Ok(axum::response::Response::from_parts(head, Body::new(body)))
}

/// Returns the positions that the client resumes from.
fn positions(whole: &Whole, count: usize) -> Result<Option<Vec<String>>, Failure> {
    let query = whole.parts.uri.query().unwrap_or_default();
    let header = whole.parts.headers.get(LAST_EVENT_ID);
    let (given, is_header) = match (route::parameter(query, "last_event_id"), header) {
        (Some(given), _) => (given, false),
        (None, Some(header)) => (header.to_str().unwrap_or_default().to_owned(), true),
        (None, None) => return Ok(None),
    };
    let positions: Vec<_> = given.split('.').map(str::to_owned).collect();
    let is_id = |it: &String| it.parse::<tickwheel_queue::EventId>().is_ok();
    if positions.len() == count && positions.iter().all(is_id) {
        return Ok(Some(positions));
    }
    let shown: String = given.chars().take(64).collect();
    let why = format!(
        "{shown:?} is not the id of an event of all {count} partitions: use the id of an event that \
         was received here"
    );
    Err(if is_header {
        Failure::new(Code::InvalidHeader, why).at("last-event-id")
    } else {
        Failure::new(Code::InvalidParameter, why).at("last_event_id")
    })
}

/// Sends the events of all partitions, until one of the streams ends.
async fn forward(stream: Stream, bodies: Vec<Body>, chunks: mpsc::Sender<Bytes>) {
    let count = bodies.len();
    let (sender, mut blocks) = mpsc::channel(MAX_BLOCKS);
    // The readers end with the set.
    let mut readers = JoinSet::new();
    for (number, body) in bodies.into_iter().enumerate() {
        readers.spawn(read(number, body, sender.clone()));
    }
    drop(sender);
    match stream {
        Stream::Events => forward_events(count, &mut blocks, &mut readers, &chunks).await,
        Stream::TargetEvents => {
            while let Some((_, block)) = next(&mut blocks, &mut readers).await {
                if send(&chunks, format!("{}\n", block.others)).await.is_none() {
                    return;
                }
            }
        }
        Stream::Live => forward_live(count, &mut blocks, &mut readers, &chunks).await,
    }
}

type Blocks = mpsc::Receiver<(usize, Block)>;

/// Returns the next block; `None` once a stream has ended.
async fn next(blocks: &mut Blocks, readers: &mut JoinSet<()>) -> Option<(usize, Block)> {
    tokio::select! {
        biased;
        block = blocks.recv() => block,
        _ = readers.join_next() => None,
    }
}

async fn send(chunks: &mpsc::Sender<Bytes>, text: String) -> Option<()> {
    chunks.send(text.into()).await.ok()
}

/// Sends events, each with the positions of all partitions after it.
async fn forward_events(
    count: usize,
    blocks: &mut Blocks,
    readers: &mut JoinSet<()>,
    chunks: &mpsc::Sender<Bytes>,
) {
    let mut positions: Vec<Option<String>> = vec![None; count];
    let mut early = Vec::new();
    while let Some((number, block)) = next(blocks, readers).await {
        early.push((number, block));
        for (number, position) in positions.iter_mut().enumerate().filter(|it| it.1.is_none()) {
            let first = early.iter().find(|(it, block)| *it == number && block.id.is_some());
            *position = first.and_then(|(_, block)| block.id.clone());
        }
        // Events wait until the position of every partition is known.
        if positions.iter().any(Option::is_none) {
            continue;
        }
        for (number, block) in early.drain(..) {
            if block.id.is_some() {
                positions[number] = block.id;
            }
            let id: Vec<_> = positions.iter().flatten().map(String::as_str).collect();
            let text = format!("{}id: {}\n\n", block.others, id.join("."));
            if send(chunks, text).await.is_none() {
                return;
            }
        }
    }
}

/// Sends the live views of all partitions as one.
async fn forward_live(
    count: usize,
    blocks: &mut Blocks,
    readers: &mut JoinSet<()>,
    chunks: &mpsc::Sender<Bytes>,
) {
    let mut newest: Vec<Option<Live>> = (0..count).map(|_| None).collect();
    let mut period = tokio::time::interval(LIVE_PERIOD);
    let mut is_new = false;
    if send(chunks, "retry: 1000\n\n".to_owned()).await.is_none() {
        return;
    }
    loop {
        tokio::select! {
            block = next(blocks, readers) => {
                let Some((number, block)) = block else { return };
                let live = block.data.and_then(|data| serde_json::from_str(&data).ok());
                if live.is_some() {
                    newest[number] = live;
                    is_new = true;
                }
            }
            _ = period.tick() => {
                let known: Vec<_> = newest.iter().flatten().cloned().collect();
                if !is_new || known.len() < count {
                    continue;
                }
                is_new = false;
                let Some(live) = merge::live(known) else { continue };
                let data = serde_json::to_string(&live).unwrap_or_default();
                if send(chunks, format!("event: live\ndata: {data}\n\n")).await.is_none() {
                    return;
                }
            }
        }
    }
}

/// Reads the stream of a partition to its end.
async fn read(number: usize, mut body: Body, blocks: mpsc::Sender<(usize, Block)>) {
    let mut rest: Vec<u8> = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(piece) = frame.into_data() else { continue };
        rest.extend_from_slice(&piece);
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = rest.drain(..end + 2).collect();
            let block = Block::read(&String::from_utf8_lossy(&block));
            if blocks.send((number, block)).await.is_err() {
                return;
            }
        }
        if rest.len() > MAX_BLOCK_BYTES {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the client of a merged stream gets, from bodies that end.
    async fn merged(stream: Stream, bodies: &[&'static str]) -> String {
        let (chunks, body) = WatchBody::new(1_000);
        let bodies = bodies.iter().map(|text| Body::from(*text)).collect();
        forward(stream, bodies, chunks).await;
        let collected = Body::new(body).collect().await.unwrap();
        String::from_utf8(collected.to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn events_have_the_positions_of_all_partitions() {
        let one = "retry: 1000\nid: 4-1-aaaaaaaa\n\nevent: put\nid: 5-1-aaaaaaaa\ndata: {}\n\n";
        let text = merged(Stream::Events, &[one, "retry: 1000\nid: 7-1-bbbbbbbb\n\n"]).await;
        let ids: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
        // Which stream is read first is not determined.
        assert_eq!(ids.last(), Some(&"5-1-aaaaaaaa.7-1-bbbbbbbb"), "{text}");
        assert_eq!(ids.len(), 3);
        assert!(text.contains("event: put\ndata: {}\nid: 5-1-aaaaaaaa.7-1-bbbbbbbb\n\n"), "{text}");
    }

    #[tokio::test]
    async fn states_of_targets_are_passed_on() {
        let text =
            merged(Stream::TargetEvents, &["event: open\ndata: 1\n\n", ":\n\nevent: held\n\n"]);
        let text = text.await;
        assert!(text.contains("event: open\ndata: 1\n\n"), "{text}");
    }

    #[test]
    fn a_block_is_read_line_by_line() {
        let block = Block::read("event: put\nid: 1-1-00000000\ndata: {\"a\": 1}\n\n");
        assert_eq!(block.id.as_deref(), Some("1-1-00000000"));
        assert_eq!(block.data.as_deref(), Some("{\"a\": 1}"));
        assert_eq!(block.others, "event: put\ndata: {\"a\": 1}\n");
    }
}
