//! Messages between nodes over the subjects of NATS, without `JetStream`: they may be lost.
//!
//! A message is the length of a JSON document (four bytes, little-endian), the document, and the
//! bytes of a piece of a seed.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use async_nats::{Client, Subscriber};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::Stream;
use serde::{Deserialize, Serialize};
use tickwheel_queue::Time;

use super::message::{Message, Transport};
use crate::log::{LogError, Nats, Position};
use crate::peers::{Heartbeat, ReplicaBeat};

/// How long subscribing may take.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Messages between the nodes of a cluster over NATS.
///
/// ```
/// use tickwheel_cluster::NatsTransport;
/// use tickwheel_cluster::log::{LogError, Nats, NatsOptions};
///
/// fn join(node: &str) -> Result<NatsTransport, LogError> {
///     let nats = Nats::connect(NatsOptions::new(["nats://a", "nats://b", "nats://c"]))?;
///     NatsTransport::connect(&nats, "tickwheel", node)
/// }
/// ```
pub struct NatsTransport {
    client: Client,
    prefix: String,
    node: String,
    /// Messages to all nodes, and those to this one.
    subscribers: [Subscriber; 2],
}

impl fmt::Debug for NatsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsTransport").field("node", &self.node).finish_non_exhaustive()
    }
}

impl NatsTransport {
    /// Subscribes to the messages of a cluster. The names are parts of subjects.
    ///
    /// # Errors
    ///
    /// If the connection is closed.
    pub fn connect(nats: &Nats, cluster: &str, node: &str) -> Result<Self, LogError> {
        let client = nats.client().clone();
        let prefix = format!("tickwheel.{cluster}");
        let subscribe = |subject: String| {
            let client = client.clone();
            let mut subscribing = Box::pin(async move { client.subscribe(subject).await });
            let deadline = Instant::now() + SUBSCRIBE_TIMEOUT;
            let subscribed = poll_until(deadline, |context| subscribing.as_mut().poll(context));
            match subscribed {
                Some(Ok(messages)) => Ok(messages),
                Some(Err(error)) => Err(LogError::Unavailable(error.to_string())),
                None => Err(LogError::Unavailable("subscribing takes too long".into())),
            }
        };
        let all = subscribe(format!("{prefix}.all"))?;
        let own = subscribe(format!("{prefix}.node.{node}"))?;
        Ok(Self { client, prefix, node: node.to_owned(), subscribers: [all, own] })
    }
}

impl Transport for NatsTransport {
    fn send(&mut self, to: Option<&str>, message: Message) {
        let subject = match to {
            Some(node) => format!("{}.node.{node}", self.prefix),
            None => format!("{}.all", self.prefix),
        };
        let client = self.client.clone();
        let payload = encode(message);
        let mut publishing = Box::pin(async move { client.publish(subject, payload).await });
        // A full queue of outgoing messages, as while no server answers, drops the message.
        let mut context = Context::from_waker(Waker::noop());
        let _ = publishing.as_mut().poll(&mut context);
    }

    fn receive(&mut self, timeout: Duration) -> Vec<Message> {
        let mut messages = Vec::new();
        poll_until(Instant::now() + timeout, |context| {
            for subscriber in &mut self.subscribers {
                while let Poll::Ready(Some(message)) = Pin::new(&mut *subscriber).poll_next(context)
                {
                    messages.extend(decode(message.payload));
                }
            }
            if messages.is_empty() { Poll::Pending } else { Poll::Ready(()) }
        });
        // A node hears itself.
        messages.retain(|message| match message {
            Message::SeedRequest { from, .. } => *from != self.node,
            _ => true,
        });
        messages
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls on this thread until something is ready or the time has come.
fn poll_until<T>(
    deadline: Instant,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = poll(&mut context) {
            return Some(value);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}

/// A message as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wire {
    Heartbeat {
        node: String,
        instance: u64,
        address: String,
        time: u64,
        replicas: BTreeMap<u32, WireReplica>,
    },
    SeedRequest {
        partition: u32,
        from: String,
        session: u64,
        piece: u64,
    },
    SeedPiece {
        partition: u32,
        session: u64,
        piece: u64,
        error: Option<String>,
        ends_chunk: bool,
        ends_seed: bool,
    },
}

#[derive(Serialize, Deserialize)]
struct WireReplica {
    owner: bool,
    epoch: u64,
    position: u64,
    synced: u64,
    candidate: bool,
}

fn encode(message: Message) -> Bytes {
    let mut content = Bytes::new();
    let wire = match message {
        Message::Heartbeat(Heartbeat { node, instance, address, time, replicas }) => {
            let replica = |(partition, beat): (u32, ReplicaBeat)| {
                let wire = WireReplica {
                    owner: beat.is_owner,
                    epoch: beat.epoch,
                    position: beat.position.0,
                    synced: beat.synced.0,
                    candidate: beat.is_candidate,
                };
                (partition, wire)
            };
            let replicas = replicas.into_iter().map(replica).collect();
            Wire::Heartbeat { node, instance, address, time: time.as_millis(), replicas }
        }
        Message::SeedRequest { partition, from, session, piece } => {
            Wire::SeedRequest { partition, from, session, piece }
        }
        Message::SeedPiece { partition, session, piece, content: found, ends_chunk, ends_seed } => {
            let error = match found {
                Ok(bytes) => {
                    content = bytes;
                    None
                }
                Err(why) => Some(why),
            };
            Wire::SeedPiece { partition, session, piece, error, ends_chunk, ends_seed }
        }
    };
    let json = serde_json::to_vec(&wire).unwrap_or_default();
    let mut bytes = BytesMut::with_capacity(4 + json.len() + content.len());
    bytes.put_u32_le(json.len() as u32);
    bytes.extend_from_slice(&json);
    bytes.extend_from_slice(&content);
    bytes.freeze()
}

/// Reads a message; `None` if it is of a version that this node does not know.
fn decode(mut bytes: Bytes) -> Option<Message> {
    let length = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let json = bytes.get(4..)?.get(..length)?;
    let wire = serde_json::from_slice(json).ok()?;
    let content = bytes.split_off(4 + length);
    Some(match wire {
        Wire::Heartbeat { node, instance, address, time, replicas } => {
            let replica = |(partition, wire): (u32, WireReplica)| {
                let beat = ReplicaBeat {
                    is_owner: wire.owner,
                    epoch: wire.epoch,
                    position: Position(wire.position),
                    synced: Position(wire.synced),
                    is_candidate: wire.candidate,
                };
                (partition, beat)
            };
            let replicas = replicas.into_iter().map(replica).collect();
            let time = Time::from_millis(time);
            Message::Heartbeat(Heartbeat { node, instance, address, time, replicas })
        }
        Wire::SeedRequest { partition, from, session, piece } => {
            Message::SeedRequest { partition, from, session, piece }
        }
        Wire::SeedPiece { partition, session, piece, error, ends_chunk, ends_seed } => {
            let content = error.map_or(Ok(content), Err);
            Message::SeedPiece { partition, session, piece, content, ends_chunk, ends_seed }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_survive_their_encoding() {
        let beat =
            ReplicaBeat { is_owner: true, epoch: 3, position: Position(9), ..Default::default() };
        let heartbeat = Heartbeat {
            node: "a".into(),
            instance: u64::MAX,
            address: "http://10.0.0.1:7300".into(),
            time: Time::from_millis(1_800_000_000_000),
            replicas: [(0, beat)].into(),
        };
        let piece = |content| Message::SeedPiece {
            partition: 1,
            session: 2,
            piece: 3,
            content,
            ends_chunk: true,
            ends_seed: false,
        };
        for message in [
            Message::Heartbeat(heartbeat),
            Message::SeedRequest { partition: 1, from: "b".into(), session: 7, piece: 0 },
            piece(Ok(Bytes::from_static(b"\x00\xff rows"))),
            piece(Err("closed".into())),
        ] {
            assert_eq!(decode(encode(message.clone())), Some(message));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..99)) {
            let _ = decode(bytes.into());
        }
    }
}
