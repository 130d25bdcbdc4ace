//! Why a request to a target failed: in English for people, and as a code for programs.

use serde::{Deserialize, Serialize};

use crate::api::{TargetCause, TargetCauseCode};

/// The reason of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Why {
    /// The sentence in English.
    #[serde(rename = "reason")]
    pub(super) text: String,
    /// The same for programs. Older versions stored the sentence alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<TargetCause>,
}

impl Why {
    pub(super) fn new(
        code: TargetCauseCode,
        detail: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        let cause = TargetCause { code, detail: detail.into(), recovering: false };
        Self { text: text.into(), cause: Some(cause) }
    }

    /// Returns a reason without a code of its own.
    pub(super) fn other(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(TargetCauseCode::Other, text.clone(), text)
    }

    /// Returns the reason of a target to which a request has succeeded since.
    pub(super) fn recovering(&self) -> Self {
        let cause = self.cause.clone().map(|cause| TargetCause { recovering: true, ..cause });
        Self { text: format!("recovering: {}", self.text), cause }
    }
}
