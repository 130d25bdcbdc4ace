//! Rows for a replica that is too far behind, asked for piece by piece.
//!
//! The node that needs the rows asks for one piece after the other, and repeats a request whose
//! answer is lost. The node that has the rows keeps the last piece of a session, so that it can
//! answer a repeated request.

use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;

use super::message::Message;
use crate::seed::SeedChunks;
use crate::store::SharedReplica;

/// Bytes of a piece: a message of a NATS server has up to 1 MiB by default.
const PIECE_BYTES: usize = 512 << 10;
/// How long to wait for a piece, and how often to ask for it.
const PIECE_TIMEOUT: Duration = Duration::from_secs(2);
const ATTEMPTS: u32 = 5;
/// Seedings that a node serves at a time. The oldest gives way.
const MAX_SESSIONS: usize = 4;

/// The seedings that a node serves.
#[derive(Debug, Default)]
pub(super) struct SeedServer {
    sessions: Vec<Session>,
}

#[derive(Debug)]
struct Session {
    number: u64,
    chunks: SeedChunks,
    /// What is left of the current chunk.
    rest: Bytes,
    last: Message,
    last_piece: u64,
}

impl SeedServer {
    /// Answers a request for a piece.
    pub(super) fn answer(
        &mut self,
        partition: u32,
        replica: Option<&SharedReplica>,
        session: u64,
        piece: u64,
    ) -> Message {
        let refused = |why: &str| Message::SeedPiece {
            partition,
            session,
            piece,
            content: Err(why.to_owned()),
            ends_chunk: true,
            ends_seed: true,
        };
        let known = self.sessions.iter().position(|known| known.number == session);
        let index = match known {
            Some(index) => index,
            None if piece == 0 => {
                // Not while the replica is busy: this thread must not wait for an append.
                let store = replica.and_then(|replica| replica.try_lock()?.store());
                let Some(store) = store else { return refused("the replica is busy or closed") };
                if self.sessions.len() == MAX_SESSIONS {
                    self.sessions.remove(0);
                }
                let chunks = SeedChunks::new(store.view());
                let (last, rest) = (refused("nothing was asked for"), Bytes::new());
                let new = Session { number: session, chunks, rest, last, last_piece: u64::MAX };
                self.sessions.push(new);
                self.sessions.len() - 1
            }
            None => return refused("the session has ended: start another"),
        };
        let known = &mut self.sessions[index];
        if known.last_piece == piece {
            return known.last.clone();
        }
        if known.last_piece.wrapping_add(1) != piece {
            return refused("pieces are asked for in order");
        }
        known.advance(partition, piece);
        known.last.clone()
    }
}

impl Session {
    fn advance(&mut self, partition: u32, piece: u64) {
        let (content, ends_seed) = if self.rest.is_empty() {
            match self.chunks.next() {
                Some(Ok(chunk)) => {
                    self.rest = chunk.into();
                    (Ok(()), false)
                }
                Some(Err(error)) => (Err(error.to_string()), true),
                None => (Ok(()), true),
            }
        } else {
            (Ok(()), false)
        };
        let bytes = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        self.last_piece = piece;
        self.last = Message::SeedPiece {
            partition,
            session: self.number,
            piece,
            content: content.map(|()| bytes),
            ends_chunk: self.rest.is_empty(),
            ends_seed,
        };
    }
}

/// How a partition asks another node for pieces.
pub(super) struct Pieces {
    outgoing: mpsc::Sender<(String, Message)>,
    arrived: mpsc::Receiver<Message>,
}

impl Pieces {
    pub(super) fn new(
        outgoing: mpsc::Sender<(String, Message)>,
        arrived: mpsc::Receiver<Message>,
    ) -> Self {
        Self { outgoing, arrived }
    }

    /// Sends another message to a node.
    pub(super) fn send(&self, node: &str, message: Message) {
        // The other end is dropped when the node stops.
        let _ = self.outgoing.send((node.to_owned(), message));
    }

    /// Fetches all chunks of a partition from a node.
    pub(super) fn fetch<'a>(
        &'a self,
        partition: u32,
        me: &'a str,
        node: &'a str,
    ) -> impl Iterator<Item = Result<Vec<u8>, String>> + 'a {
        let session = fastrand::u64(..);
        let (mut next, mut is_over) = (0, false);
        std::iter::from_fn(move || {
            let mut chunk = Vec::new();
            while !is_over {
                let request =
                    Message::SeedRequest { partition, from: me.to_owned(), session, piece: next };
                let piece = self.ask(node, &request, session, next);
                let (content, ends_chunk, ends_seed) = match piece {
                    Ok(piece) => piece,
                    Err(why) => {
                        is_over = true;
                        return Some(Err(why));
                    }
                };
                next += 1;
                is_over = ends_seed;
                chunk.extend_from_slice(&content);
                if ends_chunk && !chunk.is_empty() {
                    return Some(Ok(chunk));
                }
            }
            None
        })
    }

    fn ask(
        &self,
        node: &str,
        request: &Message,
        session: u64,
        piece: u64,
    ) -> Result<(Bytes, bool, bool), String> {
        for _ in 0..ATTEMPTS {
            if self.outgoing.send((node.to_owned(), request.clone())).is_err() {
                return Err("the node is stopping".to_owned());
            }
            while let Ok(message) = self.arrived.recv_timeout(PIECE_TIMEOUT) {
                match message {
                    Message::SeedPiece {
                        session: of,
                        piece: number,
                        content,
                        ends_chunk,
                        ends_seed,
                        ..
                    } if (of, number) == (session, piece) => {
                        return content.map(|bytes| (bytes, ends_chunk, ends_seed));
                    }
                    // An answer to an earlier request.
                    _ => {}
                }
            }
        }
        Err(format!("{node} does not send piece {piece} of the seed"))
    }
}
