//! Reading and writing of a connection.

use std::future::poll_fn;
use std::io::{self, ErrorKind};

use bytes::BytesMut;
use tickwheel_queue::{Answer, Error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::pending::poll_first;
use super::session::{MAX_PENDING, Session};

/// Input that is read while answers are waited for.
const MAX_INPUT: usize = 64 << 10;
/// Room for the next read, and what an idle connection keeps.
const READ: usize = 4 << 10;

impl Session {
    /// Writes what is to be written.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        let output = std::mem::take(&mut self.output);
        self.stream.write_all(&output).await?;
        self.stream.flush().await?;
        if output.capacity() <= MAX_INPUT {
            self.output = output;
            self.output.clear();
        }
        Ok(())
    }

    /// Reads more input until the first answer is there.
    pub(super) async fn read_until_answered(&mut self) -> io::Result<()> {
        while !self.has_ended && self.input.len() < MAX_INPUT {
            let Self { pending, stream, input, .. } = self;
            let answered = poll_fn(|context| poll_first(pending, context));
            input.reserve(READ);
            tokio::select! {
                biased;
                () = answered => return Ok(()),
                read = stream.read_buf(input) => {
                    self.has_ended |= read? == 0;
                    // Requests that came meanwhile are sent before the answer is there.
                    if self.pending.len() < MAX_PENDING && !self.has_ended {
                        return Ok(());
                    }
                }
            }
        }
        self.answered().await;
        Ok(())
    }

    /// Waits for input; `false` if there will be none.
    pub(super) async fn read_request(&mut self) -> io::Result<bool> {
        let limits = self.app.config().limits;
        let is_in_request = self.decoder.is_in_request(&self.input);
        if self.held.is_empty() {
            self.busy = None;
        }
        if !is_in_request && self.input.capacity() > MAX_INPUT {
            self.input = BytesMut::new();
        }
        let limit = is_in_request.then(|| {
            let since = *self.request_since.get_or_insert_with(Instant::now);
            let in_body = self.decoder.is_in_body();
            since + if in_body { limits.body_timeout } else { limits.header_timeout }
        });
        let shutdown = self.app.shutdown().clone();
        self.input.reserve(READ);
        let read = self.stream.read_buf(&mut self.input);
        let read = async {
            match limit {
                Some(limit) => tokio::time::timeout_at(limit, read).await.unwrap_or_else(|_| {
                    Err(io::Error::new(ErrorKind::TimedOut, "the rest of a request did not come"))
                }),
                None => read.await,
            }
        };
        tokio::select! {
            biased;
            read = read => Ok(read? > 0),
            () = shutdown.begun() => Ok(false),
        }
    }

    /// Waits for an answer of the engine while the client waits as well. `None` if the client
    /// closes its side or the service stops.
    pub(super) async fn wait_with_client<T>(
        &mut self,
        answer: Answer<T>,
    ) -> io::Result<Option<Result<T, Error>>> {
        self.flush().await?;
        let shutdown = self.app.shutdown().clone();
        let mut answer = std::pin::pin!(answer);
        let mut begun = std::pin::pin!(shutdown.begun());
        loop {
            let can_read = !self.has_ended && self.input.len() < MAX_INPUT;
            self.input.reserve(READ);
            tokio::select! {
                biased;
                result = &mut answer => return Ok(Some(result)),
                () = &mut begun => return Ok(None),
                read = self.stream.read_buf(&mut self.input), if can_read => {
                    if read? == 0 {
                        self.has_ended = true;
                        return Ok(None);
                    }
                }
            }
        }
    }
}
