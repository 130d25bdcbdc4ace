//! Scopes of tokens, and patterns of queue names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A scope of a token.
///
/// ```
/// use tickwheel_server::tokens::Scope;
/// assert_eq!("produce".parse::<Scope>()?, Scope::Produce);
/// assert!("write".parse::<Scope>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// See jobs, queues, schedules, events and metrics.
    Read,
    /// Put, cancel and reschedule jobs.
    Produce,
    /// Reserve jobs and report their outcome.
    Consume,
    /// Everything: also settings, schedules, pause, kick, and cancelling or removing many jobs.
    Admin,
}

impl Scope {
    /// All scopes.
    ///
    /// ```
    /// use tickwheel_server::tokens::Scope;
    /// assert_eq!(Scope::ALL.len(), 4);
    /// ```
    pub const ALL: [Self; 4] = [Self::Read, Self::Produce, Self::Consume, Self::Admin];

    /// Returns the name.
    ///
    /// ```
    /// use tickwheel_server::tokens::Scope;
    /// assert_eq!(Scope::Admin.as_str(), "admin");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Produce => "produce",
            Self::Consume => "consume",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!("{text:?} is not a scope: use one of {names}")
        })
    }
}

/// A pattern of queue names, in which each `*` stands for any characters.
///
/// ```
/// use tickwheel_server::tokens::Pattern;
///
/// let pattern: Pattern = "orders-*".parse()?;
/// assert!(pattern.matches("orders-eu") && !pattern.matches("mail"));
/// assert!("orders/*".parse::<Pattern>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

impl Pattern {
    /// Returns the pattern for all queues.
    ///
    /// ```
    /// use tickwheel_server::tokens::Pattern;
    /// assert!(Pattern::all().matches("mail"));
    /// ```
    pub fn all() -> Self {
        Self("*".to_owned())
    }

    /// Returns `true` if the pattern matches a queue's name.
    ///
    /// ```
    /// use tickwheel_server::tokens::Pattern;
    /// assert!("*-eu-*".parse::<Pattern>()?.matches("orders-eu-2"));
    /// # Ok::<(), String>(())
    /// ```
    pub fn matches(&self, name: &str) -> bool {
        tickwheel_queue::Access::pattern_matches(&self.0, name)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-*".contains(&byte);
        if text.is_empty() || text.len() > 128 || !text.bytes().all(is_fine) {
            let shown: String = text.chars().take(64).collect();
            return Err(format!(
                "{shown:?} is not a pattern of queues: use at most 128 letters, digits, `_`, `-`, `.` \
                 and `*`"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0
    }
}
