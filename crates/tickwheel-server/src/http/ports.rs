//! Accepting connections on the ports of the service.
//!
//! Ground rules: the connections of all ports count together, and each is a task of its own. A client
//! for which there is no place is told so, if the port can say it before the client's first request.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::connections::{Connections, Place};
use crate::app::Common;

/// Clients that are told at the same time that there is no place. Others are not told.
const MAX_REFUSALS: usize = 32;
/// How long a client may take to read a refusal.
const REFUSAL: Duration = Duration::from_secs(1);
/// The pause after a connection could not be accepted. Most likely no file descriptor was left, and
/// some will be closed.
const PAUSE: Duration = Duration::from_millis(100);

/// What a port does with its connections.
pub(crate) trait Port {
    /// Serves a connection until its end.
    fn serve(
        &self,
        stream: TcpStream,
        place: Arc<Place>,
    ) -> impl Future<Output = ()> + Send + 'static;

    /// Returns what a client receives that gets no place; `None` if it cannot be told.
    fn refusal(&self) -> Option<Vec<u8>>;
}

/// The places for connections of all ports.
pub(crate) struct Ports {
    connections: Arc<Connections>,
    refusals: Arc<Semaphore>,
    common: Arc<Common>,
}

impl Ports {
    /// Returns places for up to `limit` connections.
    pub(crate) fn new(limit: usize, common: Arc<Common>) -> Self {
        let refusals = Arc::new(Semaphore::new(MAX_REFUSALS));
        Self { connections: Connections::new(limit), refusals, common }
    }

    /// Accepts connections to a port until the service stops.
    pub(crate) async fn accept(
        &self,
        listener: TcpListener,
        port: &impl Port,
        tasks: &mut JoinSet<()>,
    ) {
        let shutdown = self.common.shutdown().clone();
        let mut begun = pin!(shutdown.begun());
        loop {
            let accepted = async {
                self.connections.settled().await;
                listener.accept().await
            };
            let accepted = tokio::select! {
                () = &mut begun => return,
                accepted = accepted => accepted,
                // The results of ended connections must not pile up.
                Some(_) = tasks.join_next() => continue,
            };
            match accepted {
                Ok((stream, address)) => self.admit(stream, address, port, tasks),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn admit(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        port: &impl Port,
        tasks: &mut JoinSet<()>,
    ) {
        // Answers are small and complete: waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        if let Some(place) = self.connections.enter(address) {
            tasks.spawn(port.serve(stream, Arc::new(place)));
            return;
        }
        self.common.counts().refuse();
        tracing::warn!(%address, "too many connections are busy");
        if let Some(refusal) = port.refusal()
            && let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned()
        {
            tasks.spawn(refuse(stream, refusal, permit));
        }
    }
}

/// Tells a client that there is no place, without waiting for its request.
async fn refuse(mut stream: TcpStream, refusal: Vec<u8>, _permit: OwnedSemaphorePermit) {
    let write = async {
        stream.write_all(&refusal).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(REFUSAL, write).await;
}
