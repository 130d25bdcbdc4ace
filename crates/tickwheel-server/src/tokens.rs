//! Tokens: who may do what, with which queues.
//!
//! A token is `twk_<id>_<secret>`. The secret has 256 random bits, so a plain SHA-256 of it is
//! enough at rest: there is nothing to guess. It is shown once, when it is made, and never logged.
//!
//! They are in `tokens.json` of the data directory, which the command line changes and the service
//! reads again when it has changed. Whoever changes it holds `tokens.lock`, and puts a whole new
//! file in its place.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::api::{Timestamp, rfc3339};
use crate::convert::now;

/// What a token allows.
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
    /// Look at jobs, queues, schedules, events and metrics.
    Read,
    /// Put, cancel and reschedule jobs.
    Produce,
    /// Reserve jobs, and say what became of them.
    Consume,
    /// Everything: also settings, schedules, pause, kick, purge and drain.
    Admin,
}

impl Scope {
    /// All of them.
    ///
    /// ```
    /// use tickwheel_server::tokens::Scope;
    /// assert_eq!(Scope::ALL.len(), 4);
    /// ```
    pub const ALL: [Self; 4] = [Self::Read, Self::Produce, Self::Consume, Self::Admin];

    /// Its name.
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
            format!("{text:?} is not a scope: take one of {names}")
        })
    }
}

/// Which queues: a name, in which each `*` stands for any characters.
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
    /// The pattern for all queues.
    ///
    /// ```
    /// use tickwheel_server::tokens::Pattern;
    /// assert!(Pattern::all().matches("mail"));
    /// ```
    pub fn all() -> Self {
        Self("*".to_owned())
    }

    /// Whether a queue of this name is meant.
    ///
    /// ```
    /// use tickwheel_server::tokens::Pattern;
    /// assert!("*-eu-*".parse::<Pattern>()?.matches("orders-eu-2"));
    /// # Ok::<(), String>(())
    /// ```
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        // Taking each part as early as possible leaves the most for those that follow.
        for part in parts {
            match rest.find(part) {
                Some(place) => rest = &rest[place + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }

    fn is_all(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'*')
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
                "{shown:?} is not a pattern of queues: take letters, digits, `_`, `-`, `.` and `*`, \
                 at most 128"
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

/// A token as it is kept: without its secret.
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
    /// What it is called in logs and lists.
    pub id: String,
    /// What its owner calls it.
    pub name: String,
    /// The SHA-256 of its secret, in hexadecimal digits.
    hash: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// With which queues.
    pub queues: Vec<Pattern>,
    /// When it was made.
    pub created: Timestamp,
}

impl Token {
    /// Whether it allows this with a queue.
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

    pub(crate) fn allows_all_queues(&self) -> bool {
        self.queues.iter().any(Pattern::is_all)
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
    /// What is kept of it.
    pub token: Token,
    /// The whole text, which is nowhere else.
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
    /// The file is not what it should be.
    Damaged(PathBuf, String),
    /// There is no token of this id or name.
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

/// The file as a whole.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    tokens: Vec<Token>,
}

/// The tokens of a data directory.
///
/// ```
/// use tickwheel_server::tokens::TokenStore;
/// let folder = tempfile::tempdir()?;
/// assert!(TokenStore::new(folder.path()).list()?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TokenStore {
    directory: PathBuf,
}

impl TokenStore {
    /// The tokens of this data directory. Nothing is read or made yet.
    ///
    /// ```
    /// use tickwheel_server::tokens::TokenStore;
    /// let store = TokenStore::new("./tickwheel-data");
    /// ```
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join("tokens.json")
    }

    /// All tokens, the oldest first.
    ///
    /// ```
    /// use tickwheel_server::tokens::{Pattern, Scope, TokenStore};
    /// let folder = tempfile::tempdir()?;
    /// let store = TokenStore::new(folder.path());
    /// store.create("a", &[Scope::Read], &[Pattern::all()])?;
    /// assert_eq!(store.list()?[0].name, "a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the file is there and cannot be read.
    pub fn list(&self) -> Result<Vec<Token>, TokenError> {
        let path = self.path();
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice::<Contents>(&bytes)
                .map(|contents| contents.tokens)
                .map_err(|error| TokenError::Damaged(path, error.to_string())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(TokenError::Io(path, error)),
        }
    }

    /// Makes a token. Its secret is in the answer and nowhere else.
    ///
    /// ```
    /// use tickwheel_server::tokens::{Pattern, Scope, TokenStore};
    /// let folder = tempfile::tempdir()?;
    /// let store = TokenStore::new(folder.path());
    /// let new = store.create("ci", &[Scope::Produce, Scope::Read], &[Pattern::all()])?;
    /// println!("{}", new.secret);
    /// assert!(store.create("nothing", &[], &[Pattern::all()]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it would allow nothing, or cannot be kept.
    pub fn create(
        &self,
        name: &str,
        scopes: &[Scope],
        queues: &[Pattern],
    ) -> Result<NewToken, TokenError> {
        if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
            let why = "the name of a token has 1 to 128 characters, and no control characters";
            return Err(TokenError::Invalid(why.into()));
        }
        if scopes.is_empty() || queues.is_empty() {
            let why =
                "a token without a scope or a queue allows nothing: give at least one of each";
            return Err(TokenError::Invalid(why.into()));
        }
        let (id, secret) = (random_hex::<6>()?, random_hex::<32>()?);
        let token = Token {
            id: id.clone(),
            name: name.to_owned(),
            hash: hash_of(&secret),
            scopes: scopes.to_vec(),
            queues: queues.to_vec(),
            created: Timestamp(now()),
        };
        self.change(|tokens| {
            tokens.push(token.clone());
            Ok(())
        })?;
        tracing::debug!(token = id, created = rfc3339(token.created.0), "a token was made");
        Ok(NewToken { token, secret: format!("twk_{id}_{secret}") })
    }

    /// Removes the token of this id, or those of this name.
    ///
    /// ```
    /// use tickwheel_server::tokens::{Pattern, Scope, TokenStore};
    /// let folder = tempfile::tempdir()?;
    /// let store = TokenStore::new(folder.path());
    /// let new = store.create("ci", &[Scope::Read], &[Pattern::all()])?;
    /// assert_eq!(store.remove(&new.token.id)?.len(), 1);
    /// assert!(store.list()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is none, or the file cannot be changed.
    pub fn remove(&self, id_or_name: &str) -> Result<Vec<Token>, TokenError> {
        let mut removed = Vec::new();
        self.change(|tokens| {
            let is_meant = |token: &Token| token.id == id_or_name || token.name == id_or_name;
            removed = tokens.extract_if(.., |token| is_meant(token)).collect();
            if removed.is_empty() {
                return Err(TokenError::NotFound(id_or_name.to_owned()));
            }
            Ok(())
        })?;
        Ok(removed)
    }

    /// Changes the file under its lock.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<Token>) -> Result<(), TokenError>,
    ) -> Result<(), TokenError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| TokenError::Io(path, error)
        };
        make_private(&self.directory).map_err(at(&self.directory))?;
        let lock_path = self.directory.join("tokens.lock");
        let lock = private(&lock_path, false).map_err(at(&lock_path))?;
        lock.lock().map_err(at(&lock_path))?;
        let mut tokens = self.list()?;
        change(&mut tokens)?;
        let path = self.path();
        write_whole(&path, &Contents { tokens }).map_err(at(&path))
    }
}

/// A directory that only its owner can look into, unless it is there already.
pub(crate) fn make_private(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory)
}

/// A file that only its owner can read.
fn private(path: &Path, truncate: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(truncate);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn write_whole(path: &Path, contents: &Contents) -> io::Result<()> {
    let draft = path.with_extension("json.draft");
    // One that a crash left may be readable by others.
    if let Err(error) = fs::remove_file(&draft)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = private(&draft, true)?;
    file.write_all(&serde_json::to_vec_pretty(contents)?)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    #[cfg(unix)]
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(())
}

fn random_hex<const BYTES: usize>() -> Result<String, TokenError> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        TokenError::Invalid(format!("the system has no random numbers: {error}"))
    })?;
    Ok(hex(&bytes))
}

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

/// Tokens by their ids, to check what clients show.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    tokens: HashMap<String, std::sync::Arc<Token>>,
}

impl Ring {
    pub(crate) fn new(tokens: Vec<Token>) -> Self {
        let tokens = tokens.into_iter().map(|token| (token.id.clone(), token.into())).collect();
        Self { tokens }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Whether this token is there, and as it was.
    pub(crate) fn has(&self, token: &Token) -> bool {
        self.tokens.get(&token.id).is_some_and(|found| **found == *token)
    }

    /// The token that this text is. How long that takes says nothing about the secret.
    pub(crate) fn find(&self, text: &str) -> Option<std::sync::Arc<Token>> {
        let (id, secret) = text.strip_prefix("twk_")?.split_once('_')?;
        let found = self.tokens.get(id);
        let hash = hash_of(secret);
        let kept = found.map_or("", |token| &token.hash);
        let is_same = hash.as_bytes().ct_eq(kept.as_bytes());
        found.filter(|_| bool::from(is_same)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        let matches = |pattern: &str, name: &str| pattern.parse::<Pattern>().unwrap().matches(name);
        for (pattern, name) in [
            ("*", "a"),
            ("a", "a"),
            ("a*", "a"),
            ("a*b*c", "axxbxxc"),
            ("*a*", "bab"),
            ("a**b", "ab"),
            ("*ab*ab", "abab"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("a", "ab"),
            ("a*", "ba"),
            ("a*b", "a"),
            ("ab*b", "ab"),
            ("a*b*c", "acb"),
            ("*ab*ab", "xab"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn only_the_whole_secret_opens() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::new(folder.path());
        let new = store.create("a", &[Scope::Read], &[Pattern::all()]).unwrap();
        let other = store.create("b", &[Scope::Read], &[Pattern::all()]).unwrap();
        let ring = Ring::new(store.list().unwrap());
        assert_eq!(ring.find(&new.secret).unwrap().id, new.token.id);
        let mixed = new.secret.replace(&new.token.id, &other.token.id);
        for wrong in ["", "twk_", "twk__", &new.secret[..70], &format!("{}0", new.secret), &mixed] {
            assert!(ring.find(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn no_secret_is_in_the_file_or_in_debug_texts() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::new(folder.path());
        let new = store.create("a", &[Scope::Read], &[Pattern::all()]).unwrap();
        let secret = new.secret.rsplit('_').next().unwrap();
        assert!(!fs::read_to_string(store.path()).unwrap().contains(secret));
        assert!(!format!("{new:?}").contains(secret));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(store.path()).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn tokens_made_at_once_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::new(folder.path());
        std::thread::scope(|scope| {
            for index in 0..8 {
                let store = &store;
                scope.spawn(move || {
                    let name = format!("t{index}");
                    store.create(&name, &[Scope::Read], &[Pattern::all()]).unwrap();
                });
            }
        });
        assert_eq!(store.list().unwrap().len(), 8);
    }

    #[test]
    fn a_damaged_file_is_an_error_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::new(folder.path());
        fs::write(store.path(), "{\"tokens\": [{}]}").unwrap();
        assert!(matches!(store.list(), Err(TokenError::Damaged(..))));
        assert!(store.create("a", &[Scope::Read], &[Pattern::all()]).is_err());
        assert_eq!(fs::read_to_string(store.path()).unwrap(), "{\"tokens\": [{}]}");
    }
}
