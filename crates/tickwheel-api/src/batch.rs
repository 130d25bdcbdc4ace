//! Batches: many items in one request and one commit, with an answer for each.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::payload::some_json;
use super::{Delay, JobId, LeaseToken, Problem, Timestamp};

/// The largest number of items in a batch.
pub const MAX_BATCH_ITEMS: usize = 10_000;

/// The items of a request. The server answers with [`Results`], one for each item in their order.
///
/// Reading stops at [`MAX_BATCH_ITEMS`], because an item takes far more memory than the two bytes
/// that `{}` takes in a request.
///
/// ```
/// use tickwheel_api::{Batch, PutRequest};
///
/// let jobs: Batch<PutRequest> =
///     serde_json::from_str(r#"{"items": [{"queue": "mail", "text": "hello"}]}"#)?;
/// assert_eq!(jobs.items.len(), 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "T: Deserialize<'de>"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Batch<T> {
    /// The items, at most 10,000.
    // Batches of puts used to call them `jobs`.
    #[serde(alias = "jobs", deserialize_with = "at_most_max_items")]
    #[cfg_attr(feature = "openapi", schema(max_items = 10_000))]
    pub items: Vec<T>,
}

fn at_most_max_items<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct Items<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = list.next_element()? {
                if items.len() == MAX_BATCH_ITEMS {
                    return Err(A::Error::custom(format!(
                        "more than {MAX_BATCH_ITEMS} items: send several batches"
                    )));
                }
                items.push(item);
            }
            Ok(items)
        }
    }

    deserializer.deserialize_seq(Items(PhantomData))
}

/// The result of one item: `{"ok": …}` or `{"error": …}`.
///
/// ```
/// use tickwheel_api::{Cancelled, Verdict};
/// let verdict: Verdict<Cancelled> = serde_json::from_str(r#"{"ok": {"was": "ready"}}"#)?;
/// assert!(matches!(verdict, Verdict::Ok(_)));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Verdict<T> {
    /// The item was applied.
    Ok(T),
    /// The item was refused and changed nothing.
    Error(Problem),
}

/// The answer to a batch: a result for each item, in the order of the request.
///
/// ```
/// use tickwheel_api::{Acked, Results};
/// let results: Results<Acked> =
///     serde_json::from_str(r#"{"results": [{"ok": {"state": "done"}}]}"#)?;
/// assert_eq!(results.results.len(), 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Results<T> {
    /// The results.
    pub results: Vec<Verdict<T>>,
}

/// A job to cancel or to kick, by its id.
///
/// ```
/// use tickwheel_api::JobItem;
/// let item: JobItem =
///     serde_json::from_str(r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91"}"#)?;
/// assert!(item.id.to_string().starts_with("0190163d"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobItem {
    /// The job.
    pub id: JobId,
}

/// A job to acknowledge, with the lease token of its delivery.
///
/// ```
/// use tickwheel_api::LeaseItem;
/// let item: LeaseItem = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "token": "00000000000000ff"}"#,
/// )?;
/// assert_eq!(item.token.0, 255);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseItem {
    /// The job.
    pub id: JobId,
    /// The lease token of its delivery.
    pub token: LeaseToken,
    /// The result, a JSON value of at most 64 KiB. It is kept as long as the queue keeps done jobs,
    /// and is the payload of the job's follow-up.
    #[serde(default, deserialize_with = "some_json", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value, required = false))]
    pub result: Option<Box<RawValue>>,
}

/// A job that failed; the fields are those of [`FailRequest`](super::FailRequest).
///
/// ```
/// use tickwheel_api::FailItem;
/// let item: FailItem = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "token": "00000000000000ff",
///         "error": "timeout", "dead": true}"#,
/// )?;
/// assert!(item.dead);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailItem {
    /// The job.
    pub id: JobId,
    /// The lease token of its delivery.
    pub token: LeaseToken,
    /// What went wrong; kept with the job.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_length = 4096))]
    pub error: String,
    /// Retry after this delay, if an attempt is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// Do not retry.
    #[serde(default)]
    pub dead: bool,
}

/// A lease to extend.
///
/// ```
/// use tickwheel_api::ExtendItem;
/// let item: ExtendItem = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "token": "00000000000000ff",
///         "lease": "1m"}"#,
/// )?;
/// assert_eq!(item.lease.as_millis(), 60_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExtendItem {
    /// The job.
    pub id: JobId,
    /// The lease token of its delivery.
    pub token: LeaseToken,
    /// The new duration of the lease, from now.
    pub lease: Delay,
}

/// A job to release: another worker may get it.
///
/// ```
/// use tickwheel_api::ReleaseItem;
/// let item: ReleaseItem = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "token": "00000000000000ff"}"#,
/// )?;
/// assert!(item.delay.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReleaseItem {
    /// The job.
    pub id: JobId,
    /// The lease token of its delivery.
    pub token: LeaseToken,
    /// How long the job waits before it is ready. Without it the job is ready at once, in its old
    /// position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
}

/// A job and its new due time: exactly one of `delay` and `due`.
///
/// ```
/// use tickwheel_api::RescheduleItem;
/// let item: RescheduleItem = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "delay": "5m"}"#,
/// )?;
/// assert!(item.due.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RescheduleItem {
    /// The job.
    pub id: JobId,
    /// The delay from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// The point in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_is_too_large_is_not_read_to_its_end() {
        let of = |count: usize| format!(r#"{{"items": [{}]}}"#, vec!["1"; count].join(","));
        let read = |count| serde_json::from_str::<Batch<u8>>(&of(count));
        assert_eq!(read(MAX_BATCH_ITEMS).unwrap().items.len(), MAX_BATCH_ITEMS);
        let error = read(MAX_BATCH_ITEMS + 1).unwrap_err().to_string();
        assert!(error.starts_with("more than 10000 items: send several batches"), "{error}");
    }

    #[test]
    fn the_old_name_of_the_items_is_read() {
        let batch: Batch<u8> = serde_json::from_str(r#"{"jobs": [1]}"#).unwrap();
        assert_eq!(serde_json::to_string(&batch).unwrap(), r#"{"items":[1]}"#);
    }
}
