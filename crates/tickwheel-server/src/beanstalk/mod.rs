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

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::TcpStream;

pub use command::{Command, MAX_LINE_BYTES, MAX_TUBE_BYTES, Put, Refusal, parse_line};
pub use decoder::{Decoder, Request};

use crate::app::App;
use crate::http::connections::Place;
use crate::http::listener::serve_until_asked;
use crate::http::ports::Port;
use session::Session;
use tubes::Tubes;

/// The port for the beanstalkd protocol.
pub(crate) struct BeanstalkPort {
    app: App,
    tubes: Arc<Tubes>,
}

impl BeanstalkPort {
    pub(crate) fn new(app: App) -> Self {
        Self { app, tubes: Arc::new(Tubes::new()) }
    }
}

impl Port for BeanstalkPort {
    fn serve(
        &self,
        stream: TcpStream,
        place: Arc<Place>,
    ) -> impl Future<Output = ()> + Send + 'static {
        serve(self.app.clone(), Arc::clone(&self.tubes), place, stream)
    }

    fn refusal(&self) -> Option<Vec<u8>> {
        Some(Refusal::OutOfMemory.line().into())
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
