//! The file with the tokens.
//!
//! Ground rules: a writer holds `tokens.lock` and replaces the whole file, so readers need no lock.
//! Only their owner can read the two files.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{NewToken, Pattern, Scope, Token, TokenError, hash_of, hex};

/// The contents of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    tokens: Vec<Token>,
}

/// The tokens that a data directory and its cluster had in common last.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Agreed {
    ids: BTreeSet<String>,
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
    /// Returns the tokens of this data directory. Nothing is read or created yet.
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

    /// Returns all tokens, the oldest first.
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
    /// If the file exists and cannot be read.
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

    /// Creates a token. Its secret is in the answer and nowhere else.
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
    /// If the token would allow nothing, or cannot be stored.
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
            created: SystemTime::now().into(),
        };
        self.change(|tokens| {
            tokens.push(token.clone());
            Ok(())
        })?;
        tracing::debug!(token = id, created = %token.created, "a token was made");
        Ok(NewToken { token, secret: format!("twk_{id}_{secret}") })
    }

    /// Removes the token with this id, or all tokens with this name.
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
    /// If no token matches, or the file cannot be changed.
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

    /// Adds and removes tokens, as other nodes of a cluster did.
    pub(crate) fn merge(&self, added: Vec<Token>, removed: &[String]) -> Result<(), TokenError> {
        self.change(|tokens| {
            tokens.retain(|token| !removed.contains(&token.id));
            let is_new = |new: &Token| !tokens.iter().any(|token| token.id == new.id);
            let added: Vec<_> = added.into_iter().filter(is_new).collect();
            tokens.extend(added);
            tokens.sort_by_key(|token| token.created.as_millis());
            Ok(())
        })
    }

    fn agreed_path(&self) -> PathBuf {
        self.directory.join("tokens.shared.json")
    }

    /// Returns the ids of the tokens that this directory and its cluster had in common last. None
    /// are known if one of the files is missing.
    pub(crate) fn agreed(&self) -> Result<BTreeSet<String>, TokenError> {
        let path = self.agreed_path();
        match fs::read(&path) {
            Ok(bytes) if self.path().exists() => serde_json::from_slice::<Agreed>(&bytes)
                .map(|agreed| agreed.ids)
                .map_err(|error| TokenError::Damaged(path, error.to_string())),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(TokenError::Io(path, error)),
            _ => Ok(BTreeSet::new()),
        }
    }

    pub(crate) fn set_agreed(&self, ids: BTreeSet<String>) -> Result<(), TokenError> {
        let path = self.agreed_path();
        write_whole(&path, &Agreed { ids }).map_err(|error| TokenError::Io(path, error))
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

/// Creates a directory that only its owner can read, unless it exists.
pub(crate) fn make_private(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory)
}

/// Creates a file that only its owner can read.
fn private(path: &Path, truncate: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(truncate);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn write_whole(path: &Path, contents: &impl Serialize) -> io::Result<()> {
    let draft = path.with_extension("json.draft");
    // A file left by a crash may be readable by others.
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

#[cfg(test)]
mod tests {
    use super::*;

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
