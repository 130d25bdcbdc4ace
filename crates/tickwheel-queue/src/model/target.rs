//! Push targets, as the queue stores them.

use bytes::Bytes;

/// A push target: its name, and the bytes that the delivering service has stored for it.
///
/// The queue does not read definition and state. It keeps them with the jobs, in the same commits,
/// and makes sure that a queue names only a target that exists.
///
/// ```
/// use tickwheel_queue::{Queues, SettingsPatch};
///
/// let queues = Queues::in_memory();
/// queues.put_target("partner", "https://partner.example").wait()?;
/// let target = Some(Some("partner".to_owned()));
/// queues.patch_settings("orders", SettingsPatch { target, ..SettingsPatch::default() }).wait()?;
///
/// let stored = queues.target("partner").wait()?.unwrap();
/// assert_eq!(&stored.definition[..], b"https://partner.example");
/// assert!(queues.remove_target("partner").wait().is_err()); // the queue names it
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredTarget {
    /// The name.
    pub name: String,
    /// The definition.
    pub definition: Bytes,
    /// The state of its deliveries; empty before the first one is stored.
    pub state: Bytes,
}

impl StoredTarget {
    /// The largest definition or state, in bytes.
    pub const MAX_BYTES: usize = 256 << 10;

    pub(crate) fn new(name: String, definition: Bytes, state: Bytes) -> Self {
        Self { name, definition, state }
    }
}
