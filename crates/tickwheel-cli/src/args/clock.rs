//! The commands about the server's clock.

use clap::Subcommand;
use tickwheel_api::Delay;

use super::values;

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  tickwheel serve --clock manual --data /tmp/test    a server for tests, whose time stands still
  tickwheel clock advance 30m")]
pub(crate) enum ClockCommand {
    /// Show the time of the server
    #[command(after_help = "Example:\n  tickwheel clock show")]
    Show,
    /// Advance the clock of a server that was started with `--clock manual`
    #[command(after_help = "\
Examples:
  tickwheel clock advance 30m
  tickwheel clock advance 7d")]
    Advance {
        /// By how much, up to 366d
        #[arg(value_name = "DURATION", value_parser = values::delay)]
        by: Delay,
    },
}
