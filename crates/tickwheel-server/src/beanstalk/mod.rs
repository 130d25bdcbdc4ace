//! The beanstalkd protocol, on a port of its own and on the same queues.
//!
//! - `command` and `decoder` turn bytes into requests, without I/O.
//! - `session` is one connection: it reads and writes (`transfer`), and keeps answers in order
//!   (`pending`).
//! - `worker` has the commands that reserve jobs and say what became of them.
//! - `inspection` has the commands that look at jobs and tubes, and `stats` their documents.
//! - `job`, `number` and `priority` translate between the two worlds.
//! - `tubes` counts what connections refer to.
//!
//! Ground rules:
//! * Answers have the order of the requests. Puts and deletes that arrive together are one command
//!   to the engine, and those that arrive while it is committed are sent without waiting, so they
//!   share commits. Every other command waits until all before it are answered.
//! * What a connection has reserved is released when the connection ends.
//! * Connections count with those of HTTP: the same limits, memory and timeouts.
//!
//! `docs/BEANSTALK.md` describes what differs from beanstalkd.

mod command;
mod decoder;
mod inspection;
mod job;
mod number;
mod pending;
mod priority;
mod session;
mod stats;
mod transfer;
mod tubes;
mod worker;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub use command::{Command, MAX_LINE_BYTES, MAX_TUBE_BYTES, Put, Refusal, parse_line};
pub use decoder::{Decoder, Request};

use crate::app::App;
use crate::http::connections::{Connections, Place};
use crate::http::listener::serve_until_asked;
use session::Session;
use tubes::Tubes;

/// How long a client that is not let in may take to read that.
const REFUSAL: Duration = Duration::from_secs(1);

/// Where connections come in.
pub(crate) struct Port {
    app: App,
    connections: Arc<Connections>,
    tubes: Arc<Tubes>,
}

impl Port {
    pub(crate) fn new(app: App, connections: Arc<Connections>) -> Self {
        Self { app, connections, tubes: Arc::new(Tubes::new()) }
    }

    /// Accepts connections until the service is told to stop.
    pub(crate) async fn accept(&self, listener: TcpListener, tasks: &mut JoinSet<()>) {
        let shutdown = self.app.shutdown().clone();
        let mut begun = pin!(shutdown.begun());
        loop {
            let accepted = async {
                self.connections.settled().await;
                listener.accept().await
            };
            let accepted = tokio::select! {
                () = &mut begun => return,
                accepted = accepted => accepted,
                Some(_) = tasks.join_next() => continue,
            };
            match accepted {
                Ok((stream, address)) => self.admit(stream, address, tasks),
                Err(error) => {
                    tracing::warn!(%error, "a beanstalk connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn admit(&self, mut stream: TcpStream, address: SocketAddr, tasks: &mut JoinSet<()>) {
        let _ = stream.set_nodelay(true);
        let Some(place) = self.connections.enter(address) else {
            self.app.counts().refuse();
            tracing::warn!(%address, "too many connections are busy");
            tasks.spawn(async move {
                let refuse = stream.write_all(Refusal::OutOfMemory.line().as_bytes());
                let _ = tokio::time::timeout(REFUSAL, refuse).await;
            });
            return;
        };
        tasks.spawn(serve(self.app.clone(), Arc::clone(&self.tubes), Arc::new(place), stream));
    }
}

/// Serves one connection until its end, and then releases what it has reserved.
async fn serve(app: App, tubes: Arc<Tubes>, place: Arc<Place>, stream: TcpStream) {
    let _counted = app.counts().connect();
    let counts = &tubes.counts;
    counts.connections.fetch_add(1, Ordering::Relaxed);
    counts.total_connections.fetch_add(1, Ordering::Relaxed);
    let mut session = Session::new(app.clone(), Arc::clone(&tubes), Arc::clone(&place), stream);
    {
        let serving = pin!(async {
            if let Err(error) = session.serve().await {
                tracing::debug!(address = %place.address(), %error, "a connection ended early");
            }
        });
        serve_until_asked(&place, serving).await;
    }
    session.end().await;
    counts.connections.fetch_sub(1, Ordering::Relaxed);
}
