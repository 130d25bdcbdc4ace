//! A time limit for clients that do not read.
//!
//! A client that never reads its answer would hold its connection and the memory of the answer for
//! ever. So a write that makes no progress for the time limit is an error.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::connections::StallFlag;

/// A stream whose writes may stall for a limited time only.
pub(crate) struct Impatient<S> {
    stream: S,
    /// Bytes that are read before those of the stream.
    unread: BytesMut,
    patience: Duration,
    /// Runs while a write is stalled.
    timer: Pin<Box<Sleep>>,
    is_stalled: bool,
    /// The flag of the connection.
    flag: StallFlag,
}

impl<S> Impatient<S> {
    pub(crate) fn new(stream: S, patience: Duration, flag: StallFlag) -> Self {
        let timer = Box::pin(tokio::time::sleep(patience));
        Self { stream, unread: BytesMut::new(), patience, timer, is_stalled: false, flag }
    }

    /// Puts bytes back that were read from the stream.
    pub(crate) fn unread(&mut self, bytes: BytesMut) {
        self.unread = bytes;
    }

    fn set_stalled(&mut self, is_stalled: bool) {
        if self.is_stalled != is_stalled {
            self.is_stalled = is_stalled;
            self.flag.set(is_stalled);
        }
    }

    /// Returns the progress of a write. Without progress, starts or checks the timer.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        progress: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.set_stalled(false);
            return progress;
        }
        if !self.is_stalled {
            self.set_stalled(true);
            self.timer.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let bytes = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread.split_to(bytes));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, progress)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, progress)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut stream = Impatient::new(ours, Duration::from_secs(30), StallFlag::default());
        stream.write_all(b"12345678").await.unwrap();
        let reader = async {
            tokio::time::sleep(Duration::from_secs(29)).await;
            theirs.read_exact(&mut [0; 4]).await.unwrap();
        };
        let (written, ()) = tokio::join!(stream.write_all(b"abcd"), reader);
        written.unwrap();
        let started = Instant::now();
        let error = stream.write_all(b"x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(started.elapsed().as_secs(), 30);
    }
}
