//! Puts that can be repeated safely.

use std::time::Duration;

use crate::engine::Put;
use crate::model::error::Error;

/// A key that makes a put repeatable; see [`Queues::put_once`](crate::Queues::put_once).
///
/// Keys belong to the whole store. A program with several tenants puts the tenant into the key.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{Error, IdempotencyKey, NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// let key = |body| IdempotencyKey::new("order-42").fingerprint(body);
/// let first = queues.put_once(key("a"), [NewJob::new("mail", "a")]).wait()?;
/// let again = queues.put_once(key("a"), [NewJob::new("mail", "a")]).wait()?;
/// assert_eq!((again.is_replay, &again.puts), (true, &first.puts));
/// let other = queues.put_once(key("b"), [NewJob::new("mail", "b")]).wait();
/// assert_eq!(other, Err(Error::IdempotencyConflict { key: "order-42".into() }));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub(crate) key: String,
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) lifetime: Duration,
}

impl IdempotencyKey {
    /// The longest key, in bytes.
    pub const MAX_KEY: usize = 255;
    /// The longest fingerprint, in bytes.
    pub const MAX_FINGERPRINT: usize = 64;

    /// Creates a key of 1 to 255 bytes without a fingerprint, remembered for 24 hours.
    pub fn new(key: impl Into<String>) -> Self {
        let lifetime = Duration::from_secs(24 * 3_600);
        Self { key: key.into(), fingerprint: Vec::new(), lifetime }
    }

    /// Sets the fingerprint, which distinguishes this request from another one with the same key,
    /// for example a hash of it: at most 64 bytes.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: impl Into<Vec<u8>>) -> Self {
        self.fingerprint = fingerprint.into();
        self
    }

    /// Sets how long the key is remembered.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }
}

/// The outcome of a put with an [`IdempotencyKey`].
///
/// ```
/// use tickwheel_queue::{IdempotencyKey, NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// let jobs = || ["a", "b"].map(|name| NewJob::new("mail", name));
/// queues.put_once(IdempotencyKey::new("k"), jobs()).wait()?;
/// let put = queues.put_once(IdempotencyKey::new("k"), jobs()).wait()?;
/// assert!(put.is_replay && put.puts.len() == 2);
/// assert_eq!(queues.stats().wait()?.pending, 2);
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PutOnce {
    /// The result of each job, in order. A replay has the results of the first put.
    pub puts: Vec<Result<Put, Error>>,
    /// Whether the key was used before, so that nothing was put now.
    pub is_replay: bool,
}
