//! Groups of a queue.

use serde::{Deserialize, Deserializer, Serialize};

use super::Pacing;

/// A group of a queue: its settings and the number of its live jobs.
///
/// ```
/// use tickwheel_api::Group;
/// let group: Group = serde_json::from_str(
///     r#"{"name": "acme", "paused": true, "waiting": 3, "running": 1, "held": 2}"#,
/// )?;
/// assert!(group.pacing.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Group {
    /// The name.
    pub name: String,
    /// Whether deliveries of the group are paused.
    pub paused: bool,
    /// The group's own limits. Absent where the `group_pacing` of the queue holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub pacing: Option<Pacing>,
    /// Jobs that wait for their time or for a worker, held ones included.
    pub waiting: u64,
    /// Jobs that workers have.
    pub running: u64,
    /// Due jobs that are not delivered because the group is paused or at one of its limits.
    pub held: u64,
}

/// A page of the groups of a queue that have live jobs or settings.
///
/// ```
/// use tickwheel_api::GroupPage;
/// let page: GroupPage = serde_json::from_str(r#"{"groups": [], "next": null}"#)?;
/// assert!(page.next.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GroupPage {
    /// The groups, by name.
    pub groups: Vec<Group>,
    /// The value of `page` for the next page; `null` on the last one.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub next: Option<String>,
}

/// A change of a group's settings: absent fields stay as they are.
///
/// ```
/// use tickwheel_api::GroupPatch;
/// let patch: GroupPatch = serde_json::from_str(r#"{"paused": true}"#)?;
/// assert_eq!((patch.paused, patch.pacing), (Some(true), None));
/// let patch: GroupPatch = serde_json::from_str(r#"{"pacing": null}"#)?;
/// assert_eq!(patch.pacing, Some(None));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GroupPatch {
    /// Whether deliveries of the group are paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// The group's own limits, replaced as one: `{}` is no limit, and with `null` the
    /// `group_pacing` of the queue holds.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Pacing>))]
    #[allow(clippy::option_option, reason = "an absent field differs from `null`")]
    pub pacing: Option<Option<Pacing>>,
}

/// Tells a field that is `null` from an absent one.
#[allow(clippy::option_option, reason = "an absent field differs from `null`")]
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Pacing>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
