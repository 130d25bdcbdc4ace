//! The arguments of commands that work on this machine: the server, its configuration and tokens,
//! completions and man pages.
//!
//! The server's crate has its options in one table. Their flags are generated from it and passed on
//! as text: only the server parses values and knows which source wins.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, Subcommand};
use tickwheel_server::config::{OPTIONS, OptionSpec};
use tickwheel_server::tokens::{Pattern, Scope};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel serve                                    on 127.0.0.1:7300, data in ./tickwheel-data
  tickwheel serve --listen 127.0.0.1:8000 --data /var/lib/tickwheel
  tickwheel serve --config /etc/tickwheel.toml --log json
  tickwheel token new --name ops --scope admin && tickwheel serve --listen 0.0.0.0:7300

Flags win over environment variables (--limits-body is TICKWHEEL_LIMITS_BODY), and those over the
file (`body` in the table `[limits]`). `tickwheel config` shows what holds, and why.
Ctrl-C or SIGTERM ends it when what is in flight is answered; a second one ends it at once.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) options: ServerOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel config                                   what `tickwheel serve` would do here
  tickwheel config --config /etc/tickwheel.toml --limits-body 1MiB
  tickwheel config --json | jq -r '.options[] | select(.origin != \"default\") | .name'")]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) options: ServerOptions,
}

/// The sources of the configuration.
#[derive(Debug, Args)]
pub(crate) struct ServerOptions {
    /// A TOML file with options
    #[arg(long, value_name = "FILE", env = "TICKWHEEL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) flags: ServerFlags,
}

/// Returns the names and values of the options given as flags.
#[derive(Debug)]
pub(crate) struct ServerFlags(pub(crate) Vec<(String, String)>);

impl Args for ServerFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        OPTIONS.iter().fold(command, |command, option| {
            let mut arg = Arg::new(option.name).long(option.flag()).value_name(option.value).help(
                match option.default {
                    "" => option.help.to_owned(),
                    default => format!("{} [default: {default}]", option.help),
                },
            );
            if let Some((table, _)) = option.name.split_once('.') {
                arg = arg.help_heading(format!("Table `{table}`"));
            }
            if option.value == "BOOLEAN" {
                // `--insecure` alone is enough.
                arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
            }
            if option.value == "BOOLEAN" && option.default == "true" {
                let name = format!("no-{}", option.flag());
                let no = Arg::new(name.clone())
                    .long(name)
                    .action(ArgAction::SetTrue)
                    .conflicts_with(option.name)
                    .help(format!("The same as --{}=false", option.flag()));
                return command.arg(arg).arg(no);
            }
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServerFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_off = |option: &OptionSpec| {
            let no = matches.try_get_one::<bool>(&format!("no-{}", option.flag()));
            no.is_ok_and(|no| no == Some(&true))
        };
        let given = |option: &OptionSpec| {
            if is_off(option) {
                return Some("false".to_owned());
            }
            matches.get_one::<String>(option.name).cloned()
        };
        let flags = OPTIONS
            .iter()
            .filter_map(|option| given(option).map(|value| (option.name.to_owned(), value)));
        Ok(Self(flags.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  tickwheel token new --name ci --scope produce,read --queue 'orders-*'
  tickwheel token ls
  tickwheel token rm ci

A server reads its tokens again when they change. As soon as there is one, every request needs one.")]
pub(crate) enum TokenCommand {
    /// Make a token and print it; it is not shown again
    New(TokenNewArgs),
    /// List the tokens, without their secrets
    #[command(after_help = "Example:\n  tickwheel token ls --data /var/lib/tickwheel")]
    Ls {
        #[command(flatten)]
        place: TokenPlace,
    },
    /// Remove a token: requests with it are refused from then on
    #[command(after_help = "Example:\n  tickwheel token rm ci")]
    Rm {
        /// The id of the token, or the name; all tokens of that name are removed
        #[arg(value_name = "ID|NAME")]
        id: String,
        #[command(flatten)]
        place: TokenPlace,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel token new --name ops --scope admin
  tickwheel token new --name shop --scope produce --queue 'orders-*' --queue mail
  export TICKWHEEL_TOKEN=$(tickwheel token new --name me --scope admin)")]
pub(crate) struct TokenNewArgs {
    /// What you call it
    #[arg(long, short)]
    pub(crate) name: String,
    /// What it allows: read, produce, consume, admin; several with commas
    #[arg(long, short, required = true, value_delimiter = ',')]
    pub(crate) scope: Vec<Scope>,
    /// With which queues: a name, in which each * stands for anything; may be given again
    #[arg(long, short, value_name = "PATTERN", default_value = "*", value_delimiter = ',')]
    pub(crate) queue: Vec<Pattern>,
    #[command(flatten)]
    pub(crate) place: TokenPlace,
}

/// Whose tokens.
#[derive(Debug, Args)]
pub(crate) struct TokenPlace {
    /// The data directory of the server; as `tickwheel config` has it if not given
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data: Option<String>,
    /// A TOML file that names it
    #[arg(long, value_name = "FILE", env = "TICKWHEEL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel backup monday.backup                     from the running server; needs an admin token
  tickwheel backup - | zstd > monday.backup.zst
  tickwheel backup monday.backup --data /var/lib/tickwheel     of a server that is stopped

A backup holds jobs, queues, settings, schedules and idempotency keys as they were at one moment.
Tokens, certificates and the configuration are not in it. The file appears when it is complete.
A cluster with several partitions has a backup for each: FILE.0, FILE.1 and so on.")]
pub(crate) struct BackupArgs {
    /// The file to write, which must not exist; `-` is standard output
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Back up this data directory, which no server uses now, instead of a running server
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel restore monday.backup --data /var/lib/tickwheel
  zstd -dc monday.backup.zst | tickwheel restore - --data /var/lib/tickwheel
  tickwheel serve --data /var/lib/tickwheel

The directory must be new or empty. It appears when everything was written, read again and found
equal to the backup.")]
pub(crate) struct RestoreArgs {
    /// The backup; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The data directory to make
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel export --url http://old:7300 | tickwheel import --url http://new:7300
  tickwheel export jobs.ndjson
  tickwheel export jobs.ndjson --resume              continues an export that was interrupted

A line is a push target without secrets, a queue with its settings, a job, or a schedule. Jobs keep
their ids, keys, due times, headers, attempts and states; a job that a worker has is exported as one
that waits. To get everything of one moment, pause the queues, or use `tickwheel backup`.")]
pub(crate) struct ExportArgs {
    /// The file to write; `-` is standard output
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,
    /// Add what is missing to a file that an interrupted export left
    #[arg(long, requires = "file")]
    pub(crate) resume: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel import jobs.ndjson
  tickwheel export --url http://old:7300 | tickwheel import --url http://new:7300

Jobs whose id exists are left as they are, so an import that was interrupted is repeated. Queues,
schedules and push targets that exist keep their settings. A schedule that was imported puts jobs
from then on. A target that was imported has no credentials and is paused.")]
pub(crate) struct ImportArgs {
    /// The export; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(tickwheel completions bash)               for this shell
  tickwheel completions zsh > ~/.zfunc/_tickwheel
  tickwheel completions fish > ~/.config/fish/completions/tickwheel.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel man ~/.local/share/man/man1
  tickwheel man /tmp/man && man -l /tmp/man/tickwheel.1")]
pub(crate) struct ManArgs {
    /// Where to; made if it is not there
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
}
