//! The file descriptors of the process, and their use.
//!
//! Each connection and each file of the store needs a descriptor. If connections used all of them, the
//! store could not open its files. So the limit is raised as far as the operating system allows, the
//! store gets its part, and the rest is for connections.

/// For standard streams, the runtime, listeners, tokens, certificates, and connections that are
/// about to be closed.
const OTHERS: usize = 192;
/// The maximum number of files of the store, including those that are open only briefly.
const STORE: usize = 1_024;
/// The default number of connections if there are descriptors for more: each takes memory as well.
const MAX_DERIVED: usize = 4_096;

/// The division of the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// The limit of the process; `usize::MAX` if there is none.
    pub(crate) limit: usize,
    pub(crate) store: usize,
    pub(crate) connections: usize,
}

impl Descriptors {
    /// Raises the limit of the process and divides the descriptors. `wanted` is the number of
    /// connections; 0 for as many as possible.
    pub(crate) fn raise(wanted: usize) -> Self {
        Self::share(raise_limit(), wanted)
    }

    fn share(limit: usize, wanted: usize) -> Self {
        let wanted = if wanted == 0 { MAX_DERIVED } else { wanted };
        let rest = limit.saturating_sub(OTHERS).max(2);
        let store = STORE.min(rest / 2);
        Self { limit, store, connections: wanted.min(rest - store) }
    }

    /// Returns the number of files that the store may keep open. It opens some others briefly.
    pub(crate) fn store_files(&self) -> usize {
        (self.store - self.store / 8).max(1)
    }

    /// Logs the division, and a warning if there are fewer connections than configured.
    pub(crate) fn log(&self, wanted: usize) {
        let Self { limit, store, connections } = *self;
        tracing::info!(limit, store, connections, "file descriptors");
        if connections < wanted {
            tracing::warn!(
                wanted,
                connections,
                "fewer connections than configured: raise the limit of open files (ulimit -n)"
            );
        }
    }
}

/// Raises the soft limit of open files to the hard one, and returns it.
#[cfg(unix)]
fn raise_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files could not be raised");
            current
        }
    };
    // None means that there is no limit.
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

#[cfg(not(unix))]
fn raise_limit() -> usize {
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_has_its_part_and_connections_the_rest() {
        let share = |limit, wanted| {
            let shared = Descriptors::share(limit, wanted);
            (shared.store, shared.connections)
        };
        assert_eq!(share(1 << 20, 0), (1_024, 4_096));
        assert_eq!(share(1 << 20, 20_000), (1_024, 20_000));
        assert_eq!(share(4_096, 0), (1_024, 2_880));
        assert_eq!(share(4_096, 10_000), (1_024, 2_880));
        assert_eq!(share(1_024, 0), (416, 416));
        assert_eq!(share(1_024, 100), (416, 100));
        assert_eq!(share(64, 0), (1, 1));
        assert_eq!(share(usize::MAX, 0), (1_024, 4_096));
        assert!(Descriptors::share(64, 0).store_files() > 0);
    }

    #[cfg(unix)]
    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        use rustix::process::{Resource, getrlimit};
        let raised = Descriptors::raise(0);
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(raised.limit, limit.current.map_or(usize::MAX, |limit| limit as usize));
    }
}
