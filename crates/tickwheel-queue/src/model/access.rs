//! The queues that a caller may touch.
//!
//! Every request carries an [`Access`]. The engine and the readers check it where they look up a
//! job, so nothing can change between the check and the operation.
//!
//! Ground rules:
//! * What an access does not include does not exist: a job of another queue is not found by its
//!   id, and no error or event names that queue. Only a caller that names a queue itself is told
//!   that it has no access.
//! * A revoked access is refused in the step that would have used it. A worker that waits with one
//!   gets no job, and the job goes to the next worker.
//! * Carrying an access costs a reference count, or nothing for access to everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::model::error::Error;

/// The queues that a handle may touch; see [`Queues::limited_to`](crate::Queues::limited_to).
///
/// Clones are the same access: revoking one revokes all. The default is access to everything,
/// which cannot be revoked.
///
/// ```
/// use tickwheel_queue::{Access, Error, NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// let secret = queues.put(NewJob::new("payroll", "")).wait()?.id;
///
/// let access = Access::to(["orders-*", "mail"]);
/// let tenant = queues.limited_to(access.clone());
/// tenant.put(NewJob::new("orders-eu", "")).wait()?;
/// assert_eq!(tenant.cancel(secret).wait(), Err(Error::NotFound(secret.into())));
///
/// access.revoke();
/// assert_eq!(tenant.put(NewJob::new("mail", "")).wait(), Err(Error::Revoked));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// `None` is access to everything.
    grant: Option<Arc<Grant>>,
}

#[derive(Debug)]
struct Grant {
    /// The holder for whom created queues count.
    holder: Arc<str>,
    patterns: Vec<String>,
    /// Whether a pattern matches every name.
    is_everything: bool,
    is_revoked: AtomicBool,
}

/// Access to everything, for operations of the queue itself.
pub(crate) static EVERYTHING: Access = Access { grant: None };

impl Access {
    /// Access to the queues whose name matches one of the patterns. In a pattern each `*` stands
    /// for any characters; without one it is the name of a single queue.
    ///
    /// Queues that it creates count for the list of patterns; see [`held_by`](Self::held_by).
    pub fn to<P: Into<String>>(patterns: impl IntoIterator<Item = P>) -> Self {
        let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
        Self::new(patterns.join(",").into(), patterns)
    }

    fn new(holder: Arc<str>, patterns: Vec<String>) -> Self {
        let is_all = |pattern: &String| !pattern.is_empty() && pattern.bytes().all(|it| it == b'*');
        let is_everything = patterns.iter().any(is_all);
        let grant = Grant { holder, patterns, is_everything, is_revoked: AtomicBool::new(false) };
        Self { grant: Some(Arc::new(grant)) }
    }

    /// Returns a new access to the same queues that names its holder, such as a user or a token.
    ///
    /// A queue counts for the holder of the limited access that created it until it is removed,
    /// also after a restart. Accesses with the same holder share one
    /// [limit](crate::Limits::queues). Access to everything by default has no holder.
    ///
    /// ```
    /// use tickwheel_queue::{Access, Limits, NewJob, Queues};
    ///
    /// let limits = Limits { queues: 10, ..Limits::default() };
    /// let queues = Queues::builder().limits(limits).in_memory()?;
    /// let put = |access, queue| queues.limited_to(access).put(NewJob::new(queue, "")).wait();
    ///
    /// let access = |pattern| Access::to([pattern]).held_by("token 7");
    /// put(access("a-*"), "a-1")?; // a tenth of the limit
    /// assert!(put(access("b-*"), "b-1").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn held_by(self, holder: &str) -> Self {
        match self.grant {
            Some(grant) => Self::new(holder.into(), grant.patterns.clone()),
            None => self,
        }
    }

    /// Returns `true` if the queue is included, whether the access is revoked or not.
    pub fn allows(&self, queue: &str) -> bool {
        let Some(grant) = &self.grant else { return true };
        grant.is_everything
            || grant.patterns.iter().any(|pattern| Self::pattern_matches(pattern, queue))
    }

    /// Ends the access, for all of its clones. Access to everything by default cannot be revoked;
    /// `Access::to(["*"])` can.
    pub fn revoke(&self) {
        if let Some(grant) = &self.grant {
            grant.is_revoked.store(true, Ordering::Release);
        }
    }

    /// Returns `true` once the access was revoked.
    pub fn is_revoked(&self) -> bool {
        self.grant.as_ref().is_some_and(|grant| grant.is_revoked.load(Ordering::Acquire))
    }

    /// Returns `true` if a pattern matches the whole name of a queue.
    ///
    /// ```
    /// use tickwheel_queue::Access;
    /// assert!(Access::pattern_matches("*-eu-*", "orders-eu-2"));
    /// assert!(!Access::pattern_matches("orders", "orders-eu-2"));
    /// ```
    pub fn pattern_matches(pattern: &str, queue: &str) -> bool {
        let mut parts = pattern.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = queue.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        // Matching each part as early as possible leaves the most for the parts that follow.
        for part in parts {
            match rest.find(part) {
                Some(place) => rest = &rest[place + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }

    /// Returns `true` if some queue is not included.
    pub fn is_limited(&self) -> bool {
        self.grant.as_ref().is_some_and(|grant| !grant.is_everything)
    }

    /// Returns the holder for whom created queues count, or `None` for access to all queues.
    pub(crate) fn limited_holder(&self) -> Option<&Arc<str>> {
        self.grant.as_ref().filter(|grant| !grant.is_everything).map(|grant| &grant.holder)
    }

    /// Refuses a revoked access.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_revoked() { Err(Error::Revoked) } else { Ok(()) }
    }

    /// Refuses push targets to an access that does not include all queues: queues share targets.
    pub(crate) fn check_targets(&self, name: &str) -> Result<(), Error> {
        if self.is_limited() { Err(Error::ForbiddenTarget(name.to_owned())) } else { Ok(()) }
    }

    /// Refuses a queue that the caller named and that is not included.
    pub(crate) fn check_queue(&self, queue: &str) -> Result<(), Error> {
        if self.allows(queue) { Ok(()) } else { Err(Error::Forbidden(queue.to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name) in [
            ("*", "a"),
            ("a", "a"),
            ("a*", "a"),
            ("a*b*c", "axxbxxc"),
            ("*a*", "bab"),
            ("a**b", "ab"),
            ("*ab*ab", "abab"),
        ] {
            assert!(Access::to([pattern]).allows(name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("a", "ab"),
            ("a*", "ba"),
            ("a*b", "a"),
            ("ab*b", "ab"),
            ("a*b*c", "acb"),
            ("*ab*ab", "xab"),
        ] {
            assert!(!Access::to([pattern]).allows(name), "{pattern} {name}");
        }
    }

    #[test]
    fn only_a_pattern_of_stars_is_everything() {
        assert!(!Access::default().is_limited());
        assert!(!Access::to(["a", "**"]).is_limited());
        assert!(Access::to(["a*"]).is_limited() && Access::to([""; 0]).is_limited());
    }

    #[test]
    fn clones_are_revoked_together() {
        let access = Access::to(["*"]);
        let clone = access.clone();
        access.revoke();
        assert_eq!(clone.check(), Err(Error::Revoked));
        EVERYTHING.revoke();
        assert_eq!(EVERYTHING.check(), Ok(()));
    }
}
