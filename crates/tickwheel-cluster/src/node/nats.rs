//! Messages between nodes over the subjects of NATS, without `JetStream`: they may be lost.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use async_nats::{Client, Subscriber};
use futures_util::Stream;
use tokio::runtime::Handle;

use super::message::{Message, Transport};
use super::wire::{decode, encode};
use crate::log::{LogError, Nats};

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
    subscribers: Vec<Subscriber>,
    runtime: Handle,
}

impl Drop for NatsTransport {
    fn drop(&mut self) {
        // A subscriber unsubscribes by a task, which needs a runtime.
        let _entered = self.runtime.enter();
        self.subscribers.clear();
    }
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
        let (node, runtime) = (node.to_owned(), nats.runtime().clone());
        Ok(Self { client, prefix, node, subscribers: vec![all, own], runtime })
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
