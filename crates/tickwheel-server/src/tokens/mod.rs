//! Tokens: who may do what, with which queues.
//!
//! A token is `twk_<id>_<secret>`. The secret has 256 random bits, so storing a plain SHA-256 of it
//! is safe. It is shown once, when it is created, and never logged.
//!
//! Tokens are in `tokens.json` of the data directory. The command line changes the file, and the
//! service reads it again when it has changed.

mod ring;
mod scope;
mod store;

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub(crate) use self::ring::{KnownToken, Ring};
pub use self::scope::{Pattern, Scope};
pub use self::store::TokenStore;
pub(crate) use self::store::make_private;
use crate::api::Timestamp;

/// A token as stored: without its secret.
///
/// ```
/// use tickwheel_server::tokens::{Pattern, Scope, TokenStore};
///
/// let folder = tempfile::tempdir()?;
/// let store = TokenStore::new(folder.path());
/// store.create("ci", &[Scope::Produce], &["orders-*".parse().unwrap()])?;
/// let token = &store.list()?[0];
/// assert!(token.allows(Scope::Produce, "orders-eu"));
/// assert!(!token.allows(Scope::Produce, "mail") && !token.allows(Scope::Read, "orders-eu"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The id, for logs and lists.
    pub id: String,
    /// The name that its owner gave it.
    pub name: String,
    /// The SHA-256 of its secret, in hexadecimal digits.
    hash: String,
    /// Its scopes.
    pub scopes: Vec<Scope>,
    /// The queues that it includes.
    pub queues: Vec<Pattern>,
    /// When it was made.
    pub created: Timestamp,
}

impl Token {
    /// Returns `true` if the token has a scope for a queue.
    ///
    /// ```
    /// use tickwheel_server::tokens::{Pattern, Scope, TokenStore};
    /// let folder = tempfile::tempdir()?;
    /// let store = TokenStore::new(folder.path());
    /// store.create("boss", &[Scope::Admin], &[Pattern::all()])?;
    /// assert!(store.list()?[0].allows(Scope::Consume, "mail")); // `admin` includes the others
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn allows(&self, scope: Scope, queue: &str) -> bool {
        self.has(scope) && self.queues.iter().any(|pattern| pattern.matches(queue))
    }

    pub(crate) fn has(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|&has| has == scope || has == Scope::Admin)
    }
}

/// A new token with its secret.
///
/// ```
/// use tickwheel_server::tokens::{Pattern, Scope, TokenStore};
/// let folder = tempfile::tempdir()?;
/// let new = TokenStore::new(folder.path()).create("ci", &[Scope::Read], &[Pattern::all()])?;
/// assert!(new.secret.starts_with(&format!("twk_{}_", new.token.id)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct NewToken {
    /// The stored part.
    pub token: Token,
    /// The whole text, which is stored nowhere.
    pub secret: String,
}

impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToken").field("token", &self.token).finish_non_exhaustive()
    }
}

/// Why tokens could not be read or changed.
///
/// ```
/// use tickwheel_server::tokens::{TokenError, TokenStore};
/// let folder = tempfile::tempdir()?;
/// let error = TokenStore::new(folder.path()).remove("nobody").unwrap_err();
/// assert!(matches!(error, TokenError::NotFound(_)));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TokenError {
    /// The operating system refused something.
    Io(PathBuf, io::Error),
    /// The file is malformed.
    Damaged(PathBuf, String),
    /// No token has this id or name.
    NotFound(String),
    /// A token without a scope, a queue or a proper name.
    Invalid(String),
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Damaged(path, why) => write!(
                f,
                "{} is damaged: {why}. Restore it, or remove it and make new tokens",
                path.display()
            ),
            Self::NotFound(id) => write!(f, "there is no token {id:?}"),
            Self::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for TokenError {}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn hash_of(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}
