//! The commands for operators: `doctor`, `bench` and `top`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel doctor                                   the running server of --url
  tickwheel doctor --data /var/lib/tickwheel         the directory of a server that is stopped
  tickwheel doctor --data /var/lib/tickwheel --repair
  tickwheel doctor --json | jq '.findings[] | select(.severity == \"error\")'

The exit code is 0 if nothing is wrong, 8 if there are warnings, 9 if there are errors. Nothing is
changed without --repair, which first says what it is going to do.")]
pub(crate) struct DoctorArgs {
    /// Check this data directory, which no server uses now, instead of a running server
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data: Option<String>,
    /// A TOML file with options of the server, for the checks of a directory
    #[arg(long, value_name = "FILE", env = "TICKWHEEL_CONFIG", requires = "data")]
    pub(crate) config: Option<PathBuf>,
    /// Repair what can be repaired in the directory
    #[arg(long, requires = "data")]
    pub(crate) repair: bool,
    /// Repair without asking
    #[arg(long, short, requires = "repair")]
    pub(crate) yes: bool,
}
