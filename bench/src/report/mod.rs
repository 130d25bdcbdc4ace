//! How results are summed up, shown and kept, whatever was measured.

pub(crate) mod chart;
pub(crate) mod destinations;
pub(crate) mod file;
pub(crate) mod goal;
pub(crate) mod numbers;
pub(crate) mod origin;
pub(crate) mod progress;
pub(crate) mod results;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod unit;
