//! Where a request or a job belongs: the header `traceparent` of W3C Trace Context.

use std::fmt;

/// The name of the header, of requests and of jobs.
pub(crate) const TRACEPARENT: &str = "traceparent";
const SAMPLED: u8 = 1;

/// A span that others can be children of: `00-<trace>-<span>-<flags>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    pub(crate) trace: u128,
    pub(crate) span: u64,
    flags: u8,
}

impl TraceContext {
    /// A context of a trace that is recorded.
    pub(crate) const fn sampled(trace: u128, span: u64) -> Self {
        Self { trace, span, flags: SAMPLED }
    }

    /// Reads a header; `None` if it is not one of version 00.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_hex = |part: &str| part.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
        let mut parts = text.split('-');
        let mut part = |length| parts.next().filter(|part| part.len() == length && is_hex(part));
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        if version != "00" || parts.next().is_some() {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|trace| *trace != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|span| *span != 0)?;
        Some(Self { trace, span, flags: u8::from_str_radix(flags, 16).ok()? })
    }

    /// Finds the context among the headers of a job.
    pub(crate) fn of_headers(headers: &[(String, String)]) -> Option<Self> {
        let header = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(TRACEPARENT));
        header.and_then(|(_, value)| Self::parse(value))
    }

    /// The same trace with another span.
    pub(crate) const fn with_span(self, span: u64) -> Self {
        Self { span, ..self }
    }

    /// Whether the caller wants the trace to be recorded.
    pub(crate) const fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// The contexts of requests that are served together, one for each job; the last one is also that
/// of all jobs after it.
pub(crate) type Incoming = Vec<Option<TraceContext>>;

tokio::task_local! {
    static INCOMING: Incoming;
}

/// Runs requests whose headers name these contexts. A single request has one for all its jobs.
pub(crate) async fn within<F: Future>(incoming: Incoming, requests: F) -> F::Output {
    if incoming.iter().all(Option::is_none) {
        return requests.await;
    }
    INCOMING.scope(incoming, requests).await
}

/// Returns a context for each of `count` requests; `some` has those that exist, with their indices.
pub(crate) fn one_each(count: usize, some: &[(usize, TraceContext)]) -> Incoming {
    if some.is_empty() {
        return Vec::new();
    }
    let mut all = vec![None; count];
    for (index, context) in some {
        all[*index] = Some(*context);
    }
    all
}

/// The context of the request that puts the job with this index.
pub(super) fn incoming(index: usize) -> Option<TraceContext> {
    let at = |all: &Incoming| *all.get(index).or_else(|| all.last())?;
    INCOMING.try_with(at).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_and_written_as_it_was() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = TraceContext::parse(text).unwrap();
        assert!(context.is_sampled() && context.to_string() == text);
        let other = context.with_span(7).to_string();
        assert_eq!(other, "00-0af7651916cd43dd8448eb211c80319c-0000000000000007-01");
        for wrong in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }
}
