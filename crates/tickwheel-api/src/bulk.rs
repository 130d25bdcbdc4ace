//! Errors by group, and changes to every job that matches a filter.

use serde::{Deserialize, Serialize};

use super::{Delay, JobId, JobState, Timestamp};

/// Jobs whose last attempt failed with the same error, apart from numbers and ids.
///
/// ```
/// use tickwheel_api::ErrorGroup;
/// let group: ErrorGroup = serde_json::from_str(
///     r##"{"error": "# refused", "count": 3, "dead": 2, "retrying": 1, "queue": "mail",
///         "example": "0190163d-8694-739b-aea5-966c26f8ad91", "example_error": "10.0.0.7:25 refused",
///         "newest_ms": 1700000000000, "oldest_ms": null}"##,
/// )?;
/// assert_eq!(group.dead + group.retrying, group.count);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorGroup {
    /// The first line of the error, with `#` for numbers, ids, addresses and times. As
    /// `error_group` it finds the jobs of this group in lists and bulk changes.
    pub error: String,
    /// The number of jobs.
    pub count: u64,
    /// Dead jobs among them.
    pub dead: u64,
    /// Jobs among them that will be tried again, or are being tried.
    pub retrying: u64,
    /// When the last of them failed, in milliseconds since 1970; `null` if that is not known.
    pub newest_ms: Option<u64>,
    /// When the first of them failed, likewise.
    pub oldest_ms: Option<u64>,
    /// One of the jobs.
    pub example: JobId,
    /// The queue of that job.
    pub queue: String,
    /// The whole error of that job.
    pub example_error: String,
}

/// Errors, grouped.
///
/// ```
/// use tickwheel_api::ErrorGroups;
/// let errors: ErrorGroups = serde_json::from_str(r#"{"groups": [], "others": 0, "complete": true}"#)?;
/// assert!(errors.complete);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorGroups {
    /// The groups, those with most jobs first.
    pub groups: Vec<ErrorGroup>,
    /// The number of jobs of groups that are left out.
    pub others: u64,
    /// Whether all jobs were looked at. Dead jobs are looked at first, and at most 500,000 jobs.
    pub complete: bool,
}

/// What a bulk change does to each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BulkAction {
    /// Makes dead jobs ready again, with all their attempts.
    Retry,
    /// Makes scheduled jobs ready now.
    Run,
    /// Gives scheduled and ready jobs another due time.
    Reschedule,
    /// Cancels scheduled and ready jobs; with the state `leased`, those that workers have.
    Cancel,
}

impl BulkAction {
    /// All actions.
    pub const ALL: [Self; 4] = [Self::Retry, Self::Run, Self::Reschedule, Self::Cancel];

    /// Returns the action as JSON writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Run => "run",
            Self::Reschedule => "reschedule",
            Self::Cancel => "cancel",
        }
    }
}

/// Which jobs of a queue match. A job has to match every field that is given.
///
/// ```
/// use tickwheel_api::{JobFilter, JobState};
/// let filter: JobFilter = serde_json::from_str(r#"{"state": "dead", "error": "refused"}"#)?;
/// assert_eq!(filter.state, Some(JobState::Dead));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobFilter {
    /// Jobs in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// Jobs whose last error contains this text. The case of ASCII letters does not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 4096))]
    pub error: Option<String>,
    /// Jobs whose last error belongs to this group: `error` of an `ErrorGroup`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 4096))]
    pub error_group: Option<String>,
    /// Jobs with this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 512))]
    pub key: Option<String>,
    /// Jobs whose key begins with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 512))]
    pub key_prefix: Option<String>,
    /// Jobs due at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_from: Option<Timestamp>,
    /// Jobs due at this time or earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_to: Option<Timestamp>,
}

/// A request to change every job of a queue that matches, in steps: each request is one step.
///
/// ```
/// use tickwheel_api::{BulkAction, BulkRequest};
/// let request: BulkRequest = serde_json::from_str(
///     r#"{"action": "retry", "filter": {"error": "refused"}, "dry_run": true}"#,
/// )?;
/// assert_eq!((request.action, request.dry_run), (BulkAction::Retry, true));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkRequest {
    /// What to do.
    pub action: BulkAction,
    /// Which jobs. Defaults to all that the action can change.
    #[serde(default)]
    pub filter: JobFilter,
    /// For `reschedule`: how long from now the jobs are due. One of `delay` and `due` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// For `reschedule`: when the jobs are due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// Whether to count the jobs and change nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// The largest number of jobs that this step changes. Defaults to 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Where the step before this one ended: `next` of its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl BulkRequest {
    /// Returns a request that changes all jobs that the action can change.
    pub fn new(action: BulkAction) -> Self {
        Self {
            action,
            filter: JobFilter::default(),
            delay: None,
            due: None,
            dry_run: false,
            limit: None,
            cursor: None,
        }
    }
}

/// What one step of a bulk change did.
///
/// ```
/// use tickwheel_api::BulkResponse;
/// let step: BulkResponse = serde_json::from_str(
///     r#"{"matched": 1000, "changed": 998, "skipped": 2, "why": "a live job has the key",
///         "next": "00ff"}"#,
/// )?;
/// assert!(step.next.is_some(), "there may be more");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkResponse {
    /// Jobs that matched in this step.
    pub matched: u64,
    /// Jobs among them that were changed; 0 in a dry run.
    pub changed: u64,
    /// Jobs among them that could not be changed; 0 in a dry run.
    pub skipped: u64,
    /// Why the first of these could not be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub why: Option<String>,
    /// The `cursor` of the next step; `null` if this was the last. A step that matched nothing may
    /// have a next one.
    pub next: Option<String>,
}
