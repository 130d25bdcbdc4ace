//! The failures of commands, with their messages and exit codes.
//!
//! Ground rules: a failure names the value at fault and the remedy. The exit codes are promised to
//! scripts (`tickwheel --help` lists them), so each is decided here and nowhere else.

use std::fmt;
use std::io;
use std::process::ExitCode;

use serde_json::{Value, json};
use tickwheel_api::{Code, Problem};

use crate::output::text::{safe, safe_lines};

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments contradict each other.
    Usage(String),
    /// The server refused the request.
    Refused {
        /// The server's problem document.
        problem: Box<Problem>,
        /// A suggestion for the user.
        hint: Option<String>,
    },
    /// No server answers at the address.
    Unreachable {
        /// The address that was tried.
        url: String,
        /// The system's message.
        why: String,
    },
    /// The thing does not exist on this machine.
    NotFound(String),
    /// A local operation failed.
    Other(String),
    /// A check found something wrong, and its report says what.
    Findings {
        /// Whether there are errors among the findings, and not only warnings.
        are_errors: bool,
    },
    /// The reader of the output has gone away, so no message can be printed.
    BrokenPipe,
}

/// The exit codes, as the help lists them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed for another reason than those below
  2  the command line, or the configuration, is wrong
  3  there is no such job, queue, schedule, target or token
  4  conflict: the key or id is taken, the lease is over, the job is in another state
  5  the server wants a token, or the token does not allow this
  6  no server answers
  7  the server is over a limit or not ready just now: try again later
  8  `doctor` found something to warn of
  9  `doctor` found an error";

impl Failure {
    pub(crate) fn refused(problem: Problem) -> Self {
        Self::Refused { problem: Box::new(problem), hint: None }
    }

    /// Adds a hint to a refusal of the server.
    pub(crate) fn with_hint(self, text: Option<String>) -> Self {
        match self {
            Self::Refused { problem, hint } => Self::Refused { problem, hint: text.or(hint) },
            other => other,
        }
    }

    /// Returns `true` if the output already says everything.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self, Self::Findings { .. } | Self::BrokenPipe)
    }

    /// Returns `true` if the server says that the thing does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { problem, .. } if problem.status == 404)
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Refused { problem, .. } => match problem.status {
                404 | 410 => 3,
                409 | 412 => 4,
                401 | 403 => 5,
                429 | 503 | 507 => 7,
                _ if problem.code == Code::IdempotencyConflict => 4,
                // The server refused a name, a time or a number.
                400 | 422 => 2,
                _ => 1,
            },
            Self::NotFound(_) => 3,
            Self::Unreachable { .. } => 6,
            Self::Other(_) => 1,
            Self::Findings { are_errors: false } => 8,
            Self::Findings { are_errors: true } => 9,
            Self::BrokenPipe => 0,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    /// Returns a problem document for programs: the server's own, if there is one.
    pub(crate) fn to_json(&self) -> Value {
        let local =
            |code, title, detail: &str| json!({ "code": code, "title": title, "detail": detail });
        let mut document = match self {
            Self::Usage(text) => local("usage", "The command line is wrong", text),
            Self::Refused { problem, hint } => {
                let mut document = serde_json::to_value(problem).unwrap_or_default();
                if let (Some(hint), Some(fields)) = (hint, document.as_object_mut()) {
                    fields.insert("hint".to_owned(), hint.clone().into());
                }
                document
            }
            Self::Unreachable { .. } => {
                local("unreachable", "No server answers", &self.to_string())
            }
            Self::NotFound(text) => local("not-found", "Not found", text),
            Self::Other(text) => local("failed", "The command failed", text),
            Self::Findings { .. } => local("findings", "The check found something wrong", ""),
            Self::BrokenPipe => local("broken-pipe", "The output is not read", ""),
        };
        if let Some(fields) = document.as_object_mut() {
            fields.insert("exit_code".to_owned(), self.code().into());
        }
        document
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::NotFound(text) | Self::Other(text) => f.write_str(text),
            Self::Refused { problem, hint } => {
                // A mistake in a cron expression is marked below its text.
                let mut first = problem.as_ref().clone();
                let rest = first.detail.find('\n').map(|end| first.detail.split_off(end));
                f.write_str(&safe(&first.to_string()))?;
                f.write_str(&safe_lines(&rest.unwrap_or_default()))?;
                if let Some(hint) = hint {
                    write!(f, "\n  {hint}")?;
                }
                Ok(())
            }
            Self::Unreachable { url, why } => write!(
                f,
                "no server answers at {url}: {why}\n  \
                 start one with `tickwheel serve`, or name another one with --url or TICKWHEEL_URL"
            ),
            Self::Findings { .. } | Self::BrokenPipe => Ok(()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Other(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_code() {
        let code = |code| Failure::refused(Problem::new(code, "")).code();
        assert_eq!(
            [code(Code::NotFound), code(Code::KeyExists), code(Code::StaleLease)],
            [3, 4, 4]
        );
        assert_eq!([code(Code::IdempotencyConflict), code(Code::Unauthorized)], [4, 5]);
        assert_eq!([code(Code::Forbidden), code(Code::RateLimited)], [5, 7]);
        assert_eq!(
            [code(Code::Unavailable), code(Code::InvalidField), code(Code::Internal)],
            [7, 2, 1]
        );
    }

    #[test]
    fn what_is_drawn_below_a_mistake_stays_below_it() {
        let detail = "\"MONN\" is no day\n  0 9 * * MONN\n          ^^^^\x1b[2J";
        let failure = Failure::refused(Problem::new(Code::InvalidField, detail).at("/cron"));
        let told =
            "\"MONN\" is no day (invalid-field at /cron)\n  0 9 * * MONN\n          ^^^^\\u{1b}[2J";
        assert_eq!(failure.to_string(), told);
    }

    #[test]
    fn programs_get_the_problem_with_the_code_and_the_hint() {
        let problem = Problem::new(Code::NotFound, "there is no queue").at("queue");
        let failure = Failure::refused(problem).with_hint(Some("did you mean x?".to_owned()));
        let document = failure.to_json();
        assert_eq!((&document["exit_code"], &document["status"]), (&3.into(), &404.into()));
        assert_eq!(document["hint"], "did you mean x?");
        assert!(failure.to_string().ends_with("\n  did you mean x?"));
    }
}
