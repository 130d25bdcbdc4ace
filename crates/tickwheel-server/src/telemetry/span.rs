//! A finished span, before it is encoded.

use std::time::SystemTime;

/// What a span is to the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A request puts a job.
    Producer,
    /// A worker has a job.
    Consumer,
    /// The server calls a target with a job.
    Client,
    /// A job waits.
    Internal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Text(String),
    Number(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) trace: u128,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
    pub(super) attributes: Vec<(&'static str, Attribute)>,
    /// The span of the attempt before this one, in the same trace.
    pub(super) link: Option<u64>,
    /// What happened at its end.
    pub(super) event: Option<&'static str>,
    /// Why it failed.
    pub(super) error: Option<String>,
}

impl Span {
    /// Adds a text.
    pub(super) fn text(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.attributes.push((name, Attribute::Text(text.into())));
        self
    }

    /// Adds a number.
    pub(super) fn number(mut self, name: &'static str, number: u64) -> Self {
        self.attributes.push((name, Attribute::Number(number)));
        self
    }
}
