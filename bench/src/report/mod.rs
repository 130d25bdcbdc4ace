//! How results are shown and kept, whatever was measured.

pub(crate) mod chart;
pub(crate) mod file;
pub(crate) mod table;
