//! Names of systems and workloads.

use clap::ValueEnum;

/// What a value is called on the command line.
pub(crate) fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
