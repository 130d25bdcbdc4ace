//! Many at once: one commit, and an answer for each item in the order of the request.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::{Delay, JobId, LeaseToken, Problem, PutRequest, Timestamp};

/// Items of a batch.
const MAX_ITEMS: usize = 10_000;
/// How the error of a list with more begins.
pub(crate) const TOO_MANY_ITEMS: &str = "more than 10000 items";

/// Reads a list of a batch. An item takes many times more memory than `{}` in the request, so
/// reading stops at the largest batch there can be.
fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct Bounded<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = list.next_element()? {
                if items.len() == MAX_ITEMS {
                    return Err(A::Error::custom(format!(
                        "{TOO_MANY_ITEMS}: send several batches"
                    )));
                }
                items.push(item);
            }
            Ok(items)
        }
    }

    deserializer.deserialize_seq(Bounded(PhantomData))
}

/// Jobs to put, each with its queue.
///
/// ```
/// use tickwheel_server::api::BatchPut;
/// let batch: BatchPut = serde_json::from_str(r#"{"jobs": [{"queue": "mail", "text": "a"}]}"#)?;
/// assert_eq!(batch.jobs.len(), 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchPut {
    /// The jobs.
    #[serde(deserialize_with = "bounded")]
    #[schema(max_items = 10_000)]
    pub jobs: Vec<PutRequest>,
}

/// What became of one item: `{"ok": …}` or `{"error": …}`.
///
/// ```
/// use tickwheel_server::api::{Cancelled, Verdict};
/// let verdict: Verdict<Cancelled> = serde_json::from_str(r#"{"ok": {"was": "ready"}}"#)?;
/// assert!(matches!(verdict, Verdict::Ok(_)));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict<T> {
    /// It was done.
    Ok(T),
    /// It was refused, and changed nothing.
    Error(Problem),
}

/// What became of each item, in the order of the request.
///
/// ```
/// use tickwheel_server::api::{Acked, Results};
/// let results: Results<Acked> = serde_json::from_str(r#"{"results": [{"ok": {"state": "done"}}]}"#)?;
/// assert_eq!(results.results.len(), 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Results<T> {
    /// One for each item.
    pub results: Vec<Verdict<T>>,
}

/// Jobs that are done.
///
/// ```
/// use tickwheel_server::api::BatchLease;
/// let batch: BatchLease = serde_json::from_str(r#"{"items": []}"#)?;
/// assert!(batch.items.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchLease {
    /// The items.
    #[serde(deserialize_with = "bounded")]
    #[schema(max_items = 10_000)]
    pub items: Vec<LeaseItem>,
}

/// Jobs that failed.
///
/// ```
/// use tickwheel_server::api::BatchFail;
/// let batch: BatchFail = serde_json::from_str(r#"{"items": []}"#)?;
/// assert!(batch.items.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchFail {
    /// The items.
    #[serde(deserialize_with = "bounded")]
    #[schema(max_items = 10_000)]
    pub items: Vec<FailItem>,
}

/// Leases that shall last longer.
///
/// ```
/// use tickwheel_server::api::BatchExtend;
/// let batch: BatchExtend = serde_json::from_str(r#"{"items": []}"#)?;
/// assert!(batch.items.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchExtend {
    /// The items.
    #[serde(deserialize_with = "bounded")]
    #[schema(max_items = 10_000)]
    pub items: Vec<ExtendItem>,
}

/// Jobs that are given back.
///
/// ```
/// use tickwheel_server::api::BatchRelease;
/// let batch: BatchRelease = serde_json::from_str(r#"{"items": []}"#)?;
/// assert!(batch.items.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRelease {
    /// The items.
    #[serde(deserialize_with = "bounded")]
    #[schema(max_items = 10_000)]
    pub items: Vec<ReleaseItem>,
}

/// Jobs to cancel.
///
/// ```
/// use tickwheel_server::api::BatchCancel;
/// let batch: BatchCancel = serde_json::from_str(r#"{"items": []}"#)?;
/// assert!(batch.items.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchCancel {
    /// The items.
    #[serde(deserialize_with = "bounded")]
    #[schema(max_items = 10_000)]
    pub items: Vec<CancelItem>,
}

/// Jobs to reschedule.
///
/// ```
/// use tickwheel_server::api::BatchReschedule;
/// let batch: BatchReschedule = serde_json::from_str(r#"{"items": []}"#)?;
/// assert!(batch.items.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchReschedule {
    /// The items.
    #[serde(deserialize_with = "bounded")]
    #[schema(max_items = 10_000)]
    pub items: Vec<RescheduleItem>,
}

/// Dead jobs to bring back.
///
/// ```
/// use tickwheel_server::api::BatchKick;
/// let batch: BatchKick = serde_json::from_str(r#"{"items": []}"#)?;
/// assert!(batch.items.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchKick {
    /// The items.
    #[serde(deserialize_with = "bounded")]
    #[schema(max_items = 10_000)]
    pub items: Vec<CancelItem>,
}

/// A job and the token of its delivery.
///
/// ```
/// use tickwheel_server::api::LeaseItem;
/// let item: LeaseItem = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "token": "00000000000000ff"}"#,
/// )?;
/// assert_eq!(item.token.0, 255);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseItem {
    /// The job.
    pub id: JobId,
    /// The token of the delivery.
    pub token: LeaseToken,
}

/// A job that failed; as in [`FailRequest`](super::FailRequest).
///
/// ```
/// use tickwheel_server::api::FailItem;
/// let item: FailItem = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "token": "00000000000000ff",
///         "error": "timeout", "dead": true}"#,
/// )?;
/// assert!(item.dead);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailItem {
    /// The job.
    pub id: JobId,
    /// The token of the delivery.
    pub token: LeaseToken,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 4096)]
    pub error: String,
    /// Try again after this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// Do not try again.
    #[serde(default)]
    pub dead: bool,
}

/// A lease that shall last longer.
///
/// ```
/// use tickwheel_server::api::ExtendItem;
/// let item: ExtendItem = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "token": "00000000000000ff",
///         "lease": "1m"}"#,
/// )?;
/// assert_eq!(item.lease.as_millis(), 60_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendItem {
    /// The job.
    pub id: JobId,
    /// The token of the delivery.
    pub token: LeaseToken,
    /// How long from now the lease shall last.
    pub lease: Delay,
}

/// A job that is given back.
///
/// ```
/// use tickwheel_server::api::ReleaseItem;
/// let item: ReleaseItem = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "token": "00000000000000ff"}"#,
/// )?;
/// assert!(item.delay.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseItem {
    /// The job.
    pub id: JobId,
    /// The token of the delivery.
    pub token: LeaseToken,
    /// How long it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
}

/// A job, by its id alone.
///
/// ```
/// use tickwheel_server::api::CancelItem;
/// let item: CancelItem =
///     serde_json::from_str(r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91"}"#)?;
/// assert!(item.id.to_string().starts_with("0190163d"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelItem {
    /// The job.
    pub id: JobId,
}

/// A job and when it shall be due instead: exactly one of `delay` and `due`.
///
/// ```
/// use tickwheel_server::api::RescheduleItem;
/// let item: RescheduleItem = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "delay": "5m"}"#,
/// )?;
/// assert!(item.due.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RescheduleItem {
    /// The job.
    pub id: JobId,
    /// How long from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// At this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
}
