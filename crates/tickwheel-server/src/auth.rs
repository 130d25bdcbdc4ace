//! Authentication and authorization of requests.
//!
//! Ground rules: once a token was required, one is required until the service ends, even if the
//! last token is removed. If the file of tokens becomes unreadable, the known tokens stay valid.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};
use tickwheel_queue::Access;

use crate::api::Code;
use crate::app::App;
use crate::problem::Failure;
use crate::tokens::{KnownToken, Ring, Scope, Token, TokenError, TokenStore};

/// The caller of a request.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// A client without a token, while none is required.
    Anyone(Access),
    /// The holder of a token.
    Token(Arc<KnownToken>),
}

impl Caller {
    /// Returns what the caller may touch. It is revoked when the caller would no longer be
    /// accepted.
    pub(crate) fn access(&self) -> &Access {
        match self {
            Self::Anyone(access) => access,
            Self::Token(known) => &known.access,
        }
    }

    /// Refuses a queue that the request names and the token does not include, whether or not that
    /// queue exists. Jobs and schedules are checked where they are looked up.
    pub(crate) fn may(&self, scope: Scope, queue: &str) -> Result<(), Failure> {
        self.has(scope)?;
        match self {
            Self::Token(known) if !known.access.allows(queue) => {
                let Token { id, name, .. } = &known.token;
                let why = format!(
                    "token {id} ({name}) has no scope {scope:?} for queue {queue:?}",
                    scope = scope.as_str()
                );
                Err(Failure::new(Code::Forbidden, why))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a caller whose token does not have the scope for any queue.
    pub(crate) fn has(&self, scope: Scope) -> Result<(), Failure> {
        match self {
            Self::Token(known) if !known.token.has(scope) => {
                let Token { id, name, .. } = &known.token;
                let why = format!("token {id} ({name}) has no scope {:?}", scope.as_str());
                Err(Failure::new(Code::Forbidden, why))
            }
            _ => Ok(()),
        }
    }

    /// Returns a text that identifies the caller.
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Anyone(_) => "",
            Self::Token(known) => &known.token.id,
        }
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Failure> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| {
            Failure::new(Code::Internal, "the route did not authenticate its caller")
        })
    }
}

/// Identifies a version of a file: the file is unchanged if this is.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

pub(crate) fn stamp_of(path: &std::path::Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Decides which requests are accepted.
pub(crate) struct Gate {
    store: TokenStore,
    ring: RwLock<Arc<Ring>>,
    is_needed: AtomicBool,
    /// The access of clients without a token, revoked once a token is required.
    anyone: Access,
    /// Whether only this machine can reach the address, so that the `Host` that a browser sends
    /// must name it.
    is_private: bool,
}

impl Gate {
    pub(crate) fn new(
        store: TokenStore,
        listen: IpAddr,
        insecure: bool,
    ) -> Result<Self, TokenError> {
        let ring = Ring::new(store.list()?);
        let is_loopback = listen.to_canonical().is_loopback();
        let is_needed = !ring.is_empty() || (!is_loopback && !insecure);
        Ok(Self {
            store,
            ring: RwLock::new(ring.into()),
            is_needed: is_needed.into(),
            anyone: Access::to(["*"]),
            is_private: is_loopback,
        })
    }

    pub(crate) fn has_tokens(&self) -> bool {
        !self.ring().is_empty()
    }

    fn ring(&self) -> Arc<Ring> {
        Arc::clone(&self.ring.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the tokens again when their file has changed, until the task is dropped.
    pub(crate) async fn keep_reading(self: Arc<Self>) {
        let mut seen = self.stamp().await;
        // The file may have changed between the first reading and the stamp.
        self.read_again().await;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let stamp = self.stamp().await;
            if stamp != seen {
                seen = stamp;
                self.read_again().await;
            }
        }
    }

    async fn stamp(self: &Arc<Self>) -> Stamp {
        let path = self.store.path();
        tokio::task::spawn_blocking(move || stamp_of(&path)).await.unwrap_or(None)
    }

    async fn read_again(self: &Arc<Self>) {
        let store = self.store.clone();
        let Ok(tokens) = tokio::task::spawn_blocking(move || store.list()).await else { return };
        match tokens {
            Ok(tokens) => {
                let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
                *ring = ring.followed_by(tokens).into();
                if !ring.is_empty() {
                    self.is_needed.store(true, Ordering::Relaxed);
                    self.anyone.revoke();
                }
            }
            Err(error) => {
                tracing::error!(%error, "the tokens could not be read again; those known before hold");
            }
        }
    }

    /// Returns a caller without a token, for routes that need none.
    pub(crate) fn anyone(&self) -> Caller {
        Caller::Anyone(self.anyone.clone())
    }

    /// A client that shows no token; `None` if one is needed.
    pub(crate) fn caller_without_token(&self) -> Option<Caller> {
        (!self.is_needed.load(Ordering::Relaxed)).then(|| self.anyone())
    }

    /// The holder of a token; `None` if it is not valid.
    pub(crate) fn caller_with_token(&self, token: &str) -> Option<Caller> {
        self.ring().find(token).map(Caller::Token)
    }

    /// Returns the caller, or an error if the request has no valid token.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<Caller, Failure> {
        let shown = headers.get(AUTHORIZATION);
        if let Some(shown) = shown {
            let text = shown.to_str().unwrap_or_default();
            let token = text
                .split_once(' ')
                .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
                .and_then(|(_, token)| self.ring().find(token.trim()));
            if let Some(token) = token {
                return Ok(Caller::Token(token));
            }
        }
        if !self.is_needed.load(Ordering::Relaxed) {
            return Ok(self.anyone());
        }
        let why = match shown {
            None => {
                "a token is needed: send it as `Authorization: Bearer twk_…`; `tickwheel token new` makes one"
            }
            Some(_) => "the token is not valid: it is mistyped, or it was removed",
        };
        Err(Failure::new(Code::Unauthorized, why)
            .at("authorization")
            .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")))
    }

    /// Returns the caller that a token given by itself belongs to, or why it is refused.
    pub(crate) fn admit_token(&self, token: Option<&str>) -> Result<Caller, Failure> {
        if let Some(known) = token.and_then(|token| self.ring().find(token)) {
            return Ok(Caller::Token(known));
        }
        if !self.is_needed.load(Ordering::Relaxed) {
            return Ok(self.anyone());
        }
        Err(Failure::new(Code::Unauthorized, "a valid token is required: sign in with one"))
    }

    /// Refuses requests that a foreign web page can make a browser send: requests with a `Host`
    /// that is not a name of this machine while no token protects it, and changes from another
    /// origin.
    pub(crate) fn check_browser(
        &self,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<(), Failure> {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if self.is_private && !self.is_needed.load(Ordering::Relaxed) && !is_local(host) {
            let shown: String = host.chars().take(64).collect();
            let why = format!(
                "without tokens only requests to this machine by its own name are served, and this \
                 one is to {shown:?}: use localhost or 127.0.0.1, or make a token"
            );
            return Err(Failure::new(Code::WrongHost, why).at("host"));
        }
        let is_change = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if let (true, Some(origin)) = (is_change, headers.get(ORIGIN)) {
            let origin = origin.to_str().unwrap_or_default();
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            if authority != Some(host) {
                let why = "a web page of another origin cannot change anything here";
                return Err(Failure::new(Code::CrossOrigin, why).at("origin"));
            }
        }
        Ok(())
    }
}

/// Returns `true` if a host names this machine.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_local() {
        for host in ["localhost", "LOCALHOST:7300", "127.0.0.1:7300", "127.1.2.3", "[::1]:80"] {
            assert!(is_local(host), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example", "10.0.0.1", "[::2]", "127.0.0.1.x"]
        {
            assert!(!is_local(host), "{host}");
        }
    }
}
