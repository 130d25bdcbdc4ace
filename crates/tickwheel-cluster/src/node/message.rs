//! What nodes send each other, and how.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;

use super::lock;
use crate::peers::Heartbeat;

/// What nodes send each other. Any message may be lost, and may arrive twice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// A node is alive.
    Heartbeat(Heartbeat),
    /// A node asks the owner for a change of the rows that all nodes share.
    Share {
        /// The name of the row.
        name: String,
        /// The new value; `None` removes the row.
        value: Option<Bytes>,
    },
    /// A node asks for a piece of a seed.
    SeedRequest {
        /// The partition.
        partition: u32,
        /// The node that asks.
        from: String,
        /// A number that the node draws for each seeding.
        session: u64,
        /// Which piece, from 0.
        piece: u64,
    },
    /// A piece of a seed.
    SeedPiece {
        /// The partition.
        partition: u32,
        /// The session of the request.
        session: u64,
        /// Which piece, from 0.
        piece: u64,
        /// Bytes of a chunk, or why there are none.
        content: Result<Bytes, String>,
        /// Whether the chunk ends with this piece.
        ends_chunk: bool,
        /// Whether the seed ends with this piece.
        ends_seed: bool,
    },
}

/// How messages reach other nodes.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_cluster::{Heartbeat, LocalNetwork, Message, Transport};
///
/// let network = LocalNetwork::new();
/// let (mut a, mut b) = (network.connect("a"), network.connect("b"));
/// let beat = Heartbeat { node: "a".into(), ..Heartbeat::default() };
/// a.send(None, Message::Heartbeat(beat.clone()));
/// assert_eq!(b.receive(Duration::from_secs(1)), [Message::Heartbeat(beat)]);
/// ```
pub trait Transport: Send + fmt::Debug {
    /// Sends a message to a node, or to all other nodes, without waiting for anything.
    fn send(&mut self, to: Option<&str>, message: Message);

    /// Returns the messages that have arrived; waits for the first up to a timeout.
    fn receive(&mut self, timeout: Duration) -> Vec<Message>;
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn send(&mut self, to: Option<&str>, message: Message) {
        (**self).send(to, message);
    }

    fn receive(&mut self, timeout: Duration) -> Vec<Message> {
        (**self).receive(timeout)
    }
}

/// A network inside a process, for tests. Clones are the same network.
///
/// ```
/// use tickwheel_cluster::LocalNetwork;
///
/// let network = LocalNetwork::new();
/// let node = network.connect("a");
/// network.cut("a", true); // nothing reaches node a or comes from it
/// # drop(node);
/// ```
#[derive(Clone, Debug, Default)]
pub struct LocalNetwork(Arc<Mutex<BTreeMap<String, Member>>>);

#[derive(Debug)]
struct Member {
    inbox: mpsc::Sender<Message>,
    is_cut: bool,
}

impl LocalNetwork {
    /// Returns a network without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Connects a node, in place of an earlier one with its name.
    pub fn connect(&self, node: &str) -> impl Transport + use<> {
        let (inbox, arrived) = mpsc::channel();
        lock(&self.0).insert(node.to_owned(), Member { inbox, is_cut: false });
        LocalTransport { network: self.clone(), node: node.to_owned(), arrived }
    }

    /// Cuts a node off, or connects it again.
    pub fn cut(&self, node: &str, cut: bool) {
        if let Some(member) = lock(&self.0).get_mut(node) {
            member.is_cut = cut;
        }
    }
}

#[derive(Debug)]
struct LocalTransport {
    network: LocalNetwork,
    node: String,
    arrived: mpsc::Receiver<Message>,
}

impl Transport for LocalTransport {
    fn send(&mut self, to: Option<&str>, message: Message) {
        let members = lock(&self.network.0);
        if members.get(&self.node).is_none_or(|member| member.is_cut) {
            return;
        }
        for (name, member) in members.iter() {
            let is_meant = to.map_or(*name != self.node, |to| to == name);
            if is_meant && !member.is_cut {
                // A node that has stopped receives nothing.
                let _ = member.inbox.send(message.clone());
            }
        }
    }

    fn receive(&mut self, timeout: Duration) -> Vec<Message> {
        let first = self.arrived.recv_timeout(timeout).ok();
        first.into_iter().chain(self.arrived.try_iter()).collect()
    }
}
