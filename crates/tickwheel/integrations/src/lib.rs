//! Tests that are no part of a published crate: see `tests/`, and the examples of the repository's
//! README below.

#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;
