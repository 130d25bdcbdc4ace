//! The file descriptors of the process, and what they are for.
//!
//! A connection takes one, and so does each file of the store. A process that has none left cannot
//! open its own files: the store would fail because of its clients. So the limit is raised as far
//! as the operating system allows, the store gets its part, and the rest is for connections.

/// For standard streams, the runtime, listeners, tokens, certificates, and connections that are
/// about to be closed.
const OTHERS: usize = 192;
/// Files that the store keeps open at most, with those that it opens for a moment.
const STORE: usize = 1_024;
/// Connections if no number is configured and descriptors allow more: each takes memory as well.
const MAX_DERIVED: usize = 4_096;

/// How the descriptors are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// What the process may have; `usize::MAX` if there is no limit.
    pub(crate) limit: usize,
    pub(crate) store: usize,
    pub(crate) connections: usize,
}

impl Descriptors {
    /// Raises the limit of the process and shares the descriptors out. So many connections are
    /// wanted; 0 for as many as there can be.
    pub(crate) fn raise(wanted: usize) -> Self {
        Self::share(raise_limit(), wanted)
    }

    fn share(limit: usize, wanted: usize) -> Self {
        let wanted = if wanted == 0 { MAX_DERIVED } else { wanted };
        let rest = limit.saturating_sub(OTHERS).max(2);
        let store = STORE.min(rest / 2);
        Self { limit, store, connections: wanted.min(rest - store) }
    }

    /// Files that the store may keep open; it opens some others for a moment.
    pub(crate) fn store_files(&self) -> usize {
        (self.store - self.store / 8).max(1)
    }

    /// Logs what there is, and what was asked for in vain.
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

/// Raises the soft limit of open files to the hard one, and says what it is now.
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
