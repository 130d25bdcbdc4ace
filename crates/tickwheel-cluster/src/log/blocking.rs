//! Running asynchronous clients behind the blocking trait.

use std::fmt;
use std::sync::mpsc;

use tokio::runtime::{Builder, Handle, Runtime};

use super::LogError;

/// A runtime of one thread for the connections to a log's servers.
///
/// Callers wait on a channel instead of entering the runtime, so they may be threads of another
/// runtime.
pub(super) struct BlockingRuntime {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl BlockingRuntime {
    pub(super) fn start(thread_name: &str) -> Result<Self, LogError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(thread_name)
            .enable_all()
            .build();
        let runtime = runtime
            .map_err(|error| LogError::Unavailable(format!("cannot start a thread: {error}")))?;
        Ok(Self { runtime: Some(runtime) })
    }

    pub(super) fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("the runtime is there until it is dropped").handle()
    }

    /// Runs a future on the runtime and blocks until it has finished. Returns `None` if it
    /// panicked.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.handle().spawn(async move {
            // The caller waits, so the channel is open.
            let _ = sender.send(work.await);
        });
        receiver.recv().ok()
    }
}

impl Drop for BlockingRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its thread is forbidden where the caller is a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for BlockingRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlockingRuntime")
    }
}
