//! Messages as bytes: the length of a JSON document (four bytes, little-endian), the document, and
//! the bytes of a piece of a seed or of a shared row.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use tickwheel_queue::Time;

use super::message::Message;
use crate::log::Position;
use crate::peers::{Condition, Heartbeat, ReplicaBeat};

/// A message as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wire {
    Heartbeat {
        node: String,
        instance: u64,
        address: String,
        time: u64,
        #[serde(default)]
        draining: bool,
        replicas: BTreeMap<u32, WireReplica>,
    },
    Share {
        name: String,
        is_removed: bool,
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
    // Nodes of an earlier version do not send these.
    #[serde(default)]
    generation: u64,
    #[serde(default)]
    commit: u64,
    /// 0 if it is sound, 1 while it is seeded, 2 if it has halted.
    #[serde(default)]
    condition: u8,
    #[serde(default)]
    trouble: Option<String>,
    #[serde(default)]
    version: u8,
}

/// Encodes a message.
pub(super) fn encode(message: Message) -> Bytes {
    let mut content = Bytes::new();
    let wire = match message {
        Message::Heartbeat(Heartbeat { node, instance, address, is_draining, time, replicas }) => {
            let replica = |(partition, beat): (u32, ReplicaBeat)| {
                let wire = WireReplica {
                    owner: beat.is_owner,
                    epoch: beat.epoch,
                    position: beat.position.0,
                    synced: beat.synced.0,
                    candidate: beat.is_candidate,
                    generation: beat.generation,
                    commit: beat.commit,
                    condition: match beat.condition {
                        Condition::Sound => 0,
                        Condition::Seeding => 1,
                        Condition::Halted => 2,
                    },
                    trouble: beat.trouble,
                    version: beat.version,
                };
                (partition, wire)
            };
            let replicas = replicas.into_iter().map(replica).collect();
            let (time, draining) = (time.as_millis(), is_draining);
            Wire::Heartbeat { node, instance, address, time, draining, replicas }
        }
        Message::Share { name, value } => {
            let is_removed = value.is_none();
            content = value.unwrap_or_default();
            Wire::Share { name, is_removed }
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
pub(super) fn decode(mut bytes: Bytes) -> Option<Message> {
    let length = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let json = bytes.get(4..)?.get(..length)?;
    let wire = serde_json::from_slice(json).ok()?;
    let content = bytes.split_off(4 + length);
    Some(match wire {
        Wire::Heartbeat { node, instance, address, time, draining: is_draining, replicas } => {
            let replica = |(partition, wire): (u32, WireReplica)| {
                let beat = ReplicaBeat {
                    is_owner: wire.owner,
                    epoch: wire.epoch,
                    position: Position(wire.position),
                    synced: Position(wire.synced),
                    is_candidate: wire.candidate,
                    generation: wire.generation,
                    commit: wire.commit,
                    condition: match wire.condition {
                        0 => Condition::Sound,
                        1 => Condition::Seeding,
                        _ => Condition::Halted,
                    },
                    trouble: wire.trouble,
                    version: wire.version,
                };
                (partition, beat)
            };
            let replicas = replicas.into_iter().map(replica).collect();
            let time = Time::from_millis(time);
            Message::Heartbeat(Heartbeat { node, instance, address, is_draining, time, replicas })
        }
        Wire::Share { name, is_removed } => {
            Message::Share { name, value: (!is_removed).then_some(content) }
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
        let beat = ReplicaBeat {
            is_owner: true,
            epoch: 3,
            position: Position(9),
            condition: Condition::Halted,
            trouble: Some("the log lost records".into()),
            version: 1,
            ..Default::default()
        };
        let heartbeat = Heartbeat {
            node: "a".into(),
            instance: u64::MAX,
            address: "http://10.0.0.1:7300".into(),
            time: Time::from_millis(1_800_000_000_000),
            is_draining: true,
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
            Message::Share { name: "token/7".into(), value: Some(Bytes::from_static(b"{}")) },
            Message::Share { name: "token/7".into(), value: None },
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
