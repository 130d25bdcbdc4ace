//! What can go wrong with a call.

use std::fmt;

use tickwheel_api::{Code, Problem};

/// Why a call failed.
///
/// ```
/// use tickwheel_client::{Client, Error};
///
/// let error = Client::new("ftp://example.org").unwrap_err();
/// assert!(matches!(error, Error::Invalid(_)));
/// assert!(error.to_string().contains("ftp://example.org"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the request; the problem says why.
    Refused(Box<Problem>),
    /// No answer came: the server cannot be reached, or the connection broke.
    Unreachable {
        /// The address of the server.
        url: String,
        /// What happened.
        why: String,
    },
    /// Something that was given to the client cannot be used.
    Invalid(String),
    /// The server sent something that is not an answer of this API.
    Answer(String),
}

impl Error {
    /// Returns the problem that the server sent, if it answered.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            _ => None,
        }
    }

    /// Returns the kind of the problem, if the server answered.
    pub fn code(&self) -> Option<Code> {
        self.problem().map(|problem| problem.code)
    }

    /// Returns `true` if what the call names does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(Code::NotFound)
    }

    /// Returns `true` if the lease ran out or the job was cancelled: another worker may have it.
    pub fn is_stale_lease(&self) -> bool {
        matches!(self.code(), Some(Code::StaleLease | Code::NotFound))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(problem) => {
                write!(f, "{} ({}", problem.detail, problem.code)?;
                if let Some(field) = &problem.field {
                    write!(f, ", field {field}")?;
                }
                f.write_str(")")
            }
            Self::Unreachable { url, why } => write!(f, "no answer from {url}: {why}"),
            Self::Invalid(why) => f.write_str(why),
            Self::Answer(why) => write!(f, "the server's answer cannot be read: {why}"),
        }
    }
}

impl std::error::Error for Error {}
