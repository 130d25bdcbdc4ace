//! The tokens that the service knows, to check what clients show.

use std::collections::HashMap;
use std::sync::Arc;

use subtle::ConstantTimeEq;

use super::{Token, hash_of};

/// Tokens by their ids, to check what clients show.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    tokens: HashMap<String, Arc<Token>>,
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
    pub(crate) fn find(&self, text: &str) -> Option<Arc<Token>> {
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
    use crate::tokens::{Pattern, Scope, TokenStore};

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
}
