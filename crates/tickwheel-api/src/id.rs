//! The ids of jobs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// The id of a job: a UUID.
///
/// ```
/// use tickwheel_api::JobId;
/// let id: JobId = serde_json::from_str(r#""0190163d-8694-739b-aea5-966c26f8ad91""#)?;
/// assert_eq!(id.to_string(), "0190163d-8694-739b-aea5-966c26f8ad91");
/// assert_eq!(JobId::from_bytes(*id.as_bytes()), id);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(
    value_type = String, format = "uuid", example = "0190163d-8694-739b-aea5-966c26f8ad91",
))]
pub struct JobId(Uuid);

impl JobId {
    /// Returns the id with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Returns the bytes of the id.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// The ids of the jobs that a short id stands for.
///
/// ```
/// use tickwheel_api::JobIds;
/// let json = r#"{"ids": ["0190163d-8694-739b-aea5-966c26f8ad91"]}"#;
/// let found: JobIds = serde_json::from_str(json)?;
/// assert_eq!(found.ids.len(), 1); // it is unambiguous
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobIds {
    /// One id if the short id is unambiguous, none if there is no such job, and at most ten.
    pub ids: Vec<JobId>,
}

/// The error for text that is not a job's id.
///
/// ```
/// use tickwheel_api::JobId;
/// let error = "order-42".parse::<JobId>().unwrap_err();
/// assert!(error.to_string().starts_with("\"order-42\" is not a job id"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseJobIdError(String);

impl fmt::Display for ParseJobIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a job id: write a UUID, 32 hexadecimal digits in groups of 8-4-4-4-12",
            self.0
        )
    }
}

impl std::error::Error for ParseJobIdError {}

impl FromStr for JobId {
    type Err = ParseJobIdError;

    fn from_str(text: &str) -> Result<Self, ParseJobIdError> {
        // Other lengths are other ways to write a UUID, such as with braces.
        let id = (text.len() == 36).then(|| Uuid::try_parse(text).ok()).flatten();
        id.map(Self).ok_or_else(|| ParseJobIdError(text.chars().take(64).collect()))
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_in_json_is_its_text() {
        let bytes = std::array::from_fn(|place| 0xf1_u8.wrapping_add(17 * place as u8));
        let id = JobId::from_bytes(bytes);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<JobId>(&json).unwrap(), id);
        assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
    }

    #[test]
    fn an_id_is_written_in_one_way_only() {
        let id = "0190163d-8694-739b-aea5-966c26f8ad91";
        for wrong in [
            "",
            &id[1..],
            &id.replace('-', ""),
            &id.replacen('-', "0", 1),
            &format!("{{{id}}}"),
            &format!("urn:uuid:{id}"),
            "0190163d-8694-739b-aea5-966c26f8adxx",
            "0190163d-8694-739b-aea5-966c26f8adé",
        ] {
            assert!(wrong.parse::<JobId>().is_err(), "{wrong}");
        }
    }
}
