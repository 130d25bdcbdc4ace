//! Tokens, which are valid on all nodes.
//!
//! Each node has a file of tokens, which `tickwheel token` changes, and the log has a row for each
//! token. A node compares the two every second. It asks the owner to add or remove the rows of
//! tokens that were created or removed here, and changes its file for those that were created or
//! removed elsewhere. A second file contains the ids that file and log last had in common. With it,
//! the node distinguishes a token that is new here from one that was removed elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tickwheel_cluster::Node;

use crate::tokens::{Token, TokenError, TokenStore};

/// How often file and log are compared.
const INTERVAL: Duration = Duration::from_secs(1);
/// The prefix of the names of the rows.
const PREFIX: &str = "token/";

/// Keeps the tokens of a node and those of its cluster the same, until the node is gone.
pub(super) async fn keep_sharing(node: Weak<Node>, data: &Path) {
    let store = TokenStore::new(data);
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(node) = node.upgrade() else { return };
        let store = store.clone();
        let compared = tokio::task::spawn_blocking(move || compare(&node, &store)).await;
        match compared {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the tokens are not shared"),
            Err(error) => tracing::error!(%error, "the tokens are not shared"),
        }
    }
}

/// Compares file and log once, and changes what differs.
fn compare(node: &Arc<Node>, store: &TokenStore) -> Result<(), TokenError> {
    let Some(rows) = node.shared(PREFIX) else { return Ok(()) };
    let decoded = rows.values().filter_map(|row| serde_json::from_slice(row).ok());
    let shared: BTreeMap<_, Token> =
        decoded.map(|token: Token| (token.id.clone(), token)).collect();
    let agreed = store.agreed()?;
    let own = by_id(store.list()?);
    let name = |id: &str| format!("{PREFIX}{id}");
    let is_shared = |id: &String| shared.contains_key(id);
    let is_own = |id: &String| own.contains_key(id);

    for (id, token) in own.iter().filter(|(id, _)| !agreed.contains(*id) && !is_shared(id)) {
        node.share(&name(id), serde_json::to_vec(token).ok().map(Into::into));
    }
    for id in agreed.iter().filter(|id| !is_own(id) && is_shared(id)) {
        node.share(&name(id), None);
    }
    let is_new = |id: &String| !is_own(id) && !agreed.contains(id);
    let added: Vec<_> = shared.values().filter(|it| is_new(&it.id)).cloned().collect();
    let removed: Vec<_> =
        agreed.iter().filter(|id| is_own(id) && !is_shared(id)).cloned().collect();
    if !added.is_empty() || !removed.is_empty() {
        tracing::info!(added = added.len(), removed = removed.len(), "tokens of other nodes");
        store.merge(added, &removed)?;
    }
    let own = by_id(store.list()?);
    // The id of a token that was removed here stays until the log has removed it too.
    let is_common = |id: &&String| own.contains_key(*id) || agreed.contains(*id);
    let common: BTreeSet<_> = shared.keys().filter(is_common).cloned().collect();
    if common != agreed {
        store.set_agreed(common)?;
    }
    Ok(())
}

fn by_id(tokens: Vec<Token>) -> BTreeMap<String, Token> {
    tokens.into_iter().map(|token| (token.id.clone(), token)).collect()
}
