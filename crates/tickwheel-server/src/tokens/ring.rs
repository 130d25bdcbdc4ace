//! The tokens that the service knows.

use std::collections::HashMap;
use std::sync::Arc;

use subtle::ConstantTimeEq;
use tickwheel_queue::Access;

use super::{Token, hash_of};

/// Tokens by id.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    tokens: HashMap<String, Arc<KnownToken>>,
}

/// A token and the access of its holders. When a token is removed or changed, its access is
/// revoked.
#[derive(Debug)]
pub(crate) struct KnownToken {
    pub(crate) token: Token,
    /// Access to its queues.
    pub(crate) access: Access,
}

impl From<Token> for KnownToken {
    fn from(token: Token) -> Self {
        let access = Access::to(token.queues.iter().map(ToString::to_string)).held_by(&token.id);
        Self { token, access }
    }
}

impl Ring {
    pub(crate) fn new(tokens: Vec<Token>) -> Self {
        Self::default().followed_by(tokens)
    }

    /// Returns the ring with these tokens instead. Unchanged tokens keep their access; that of the
    /// others is revoked.
    pub(crate) fn followed_by(&self, tokens: Vec<Token>) -> Self {
        let known = |token: Token| {
            let old = self.tokens.get(&token.id).filter(|old| old.token == token);
            (token.id.clone(), old.map_or_else(|| Arc::new(token.into()), Arc::clone))
        };
        let next = Self { tokens: tokens.into_iter().map(known).collect() };
        for (id, old) in &self.tokens {
            if next.tokens.get(id).is_none_or(|kept| !Arc::ptr_eq(kept, old)) {
                old.access.revoke();
            }
        }
        next
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns the token with this text. The time that this takes tells nothing about the secret.
    pub(crate) fn find(&self, text: &str) -> Option<Arc<KnownToken>> {
        let (id, secret) = text.strip_prefix("twk_")?.split_once('_')?;
        let found = self.tokens.get(id);
        let hash = hash_of(secret);
        let kept = found.map_or("", |known| &known.token.hash);
        let is_same = hash.as_bytes().ct_eq(kept.as_bytes());
        found.filter(|_| bool::from(is_same)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{Pattern, Scope, TokenStore};

    #[test]
    fn only_the_whole_secret_opens() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::new(folder.path());
        let new = store.create("a", &[Scope::Read], &[Pattern::all()]).unwrap();
        let other = store.create("b", &[Scope::Read], &[Pattern::all()]).unwrap();
        let ring = Ring::new(store.list().unwrap());
        assert_eq!(ring.find(&new.secret).unwrap().token.id, new.token.id);
        let mixed = new.secret.replace(&new.token.id, &other.token.id);
        for wrong in ["", "twk_", "twk__", &new.secret[..70], &format!("{}0", new.secret), &mixed] {
            assert!(ring.find(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn what_is_removed_or_changed_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::new(folder.path());
        let secrets = ["stays", "goes", "changes"]
            .map(|name| store.create(name, &[Scope::Read], &[Pattern::all()]).unwrap().secret);
        let ring = Ring::new(store.list().unwrap());
        let [stays, goes, changes] = secrets.each_ref().map(|secret| ring.find(secret).unwrap());
        let mut tokens = store.list().unwrap();
        tokens.remove(1);
        tokens[1].scopes.push(Scope::Produce);
        let next = ring.followed_by(tokens);
        assert!(Arc::ptr_eq(&next.find(&secrets[0]).unwrap(), &stays));
        assert!(!stays.access.is_revoked());
        for old in [goes, changes] {
            assert!(old.access.is_revoked());
        }
        assert!(next.find(&secrets[1]).is_none());
        assert!(!next.find(&secrets[2]).unwrap().access.is_revoked());
    }
}
