//! Starting other programs.
//!
//! Ground rules: every program runs in the root of the repository with the caller's terminal and
//! environment, and a command prints as something that can be pasted into a shell there. A program
//! that takes longer than its limit is killed, so that no chore waits for ever.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use crate::deadline;

/// How long a program may take unless its invocation sets another limit.
const LIMIT: Duration = Duration::from_mins(20);

/// Why a chore did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The program could not be started at all.
    Start(String, io::Error),
    /// The program ran and reported failure.
    Exit(String, ExitStatus),
    /// The program took longer than this, and was killed.
    Limit(String, Duration),
    /// A file or directory could not be read.
    Read(String, io::Error),
    /// Something that the chore needs is missing; the text says how to get it.
    Missing(String),
    /// The findings of one of our own checks.
    Findings(Vec<String>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(command, error) => write!(f, "cannot start `{command}`: {error}"),
            Self::Exit(command, status) => write!(f, "`{command}` failed ({status})"),
            Self::Limit(command, limit) => write!(
                f,
                "`{command}` did not end within {}: it was killed, with every process that it started",
                shown_limit(*limit)
            ),
            Self::Read(path, error) => write!(f, "cannot read {path}: {error}"),
            Self::Missing(what) => f.write_str(what),
            Self::Findings(list) => f.write_str(&list.join("\n       ")),
        }
    }
}

fn shown_limit(limit: Duration) -> String {
    match limit.as_secs() {
        seconds if seconds >= 60 && seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        _ => format!("{limit:?}"),
    }
}

/// A program with its arguments, additional environment variables and time limit.
#[derive(Debug)]
pub(crate) struct Invocation {
    program: OsString,
    shown_as: &'static str,
    args: Vec<OsString>,
    envs: Vec<(&'static str, String)>,
    limit: Duration,
}

impl Invocation {
    /// Returns the cargo that runs this program.
    pub(crate) fn cargo<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
            ..Self::new("cargo", args)
        }
    }

    /// Returns a program at this path, shown under another name.
    pub(crate) fn at<A: Into<OsString>>(
        program: &Path,
        shown_as: &'static str,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        Self { program: program.into(), ..Self::new(shown_as, args) }
    }

    /// Returns a program on the path.
    pub(crate) fn new<A: Into<OsString>>(
        program: &'static str,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            program: program.into(),
            shown_as: program,
            args: args.into_iter().map(Into::into).collect(),
            envs: Vec::new(),
            limit: LIMIT,
        }
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.envs.push((name, value.into()));
        self
    }

    /// Kills the program when this time has passed; 40 minutes by default.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Removes the time limit: the user chose how long the program runs, and watches it.
    pub(crate) fn without_limit(self) -> Self {
        self.limit(Duration::MAX)
    }

    /// Runs the program to its end; what it prints goes to the terminal.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.finish(self.command()).map(drop)
    }

    /// Runs the program and returns its standard output.
    pub(crate) fn output(&self) -> Result<String, Failure> {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = self.finish(command)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs the program and returns its standard error.
    pub(crate) fn messages(&self) -> Result<String, Failure> {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let output = self.finish(command)?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn finish(&self, command: Command) -> Result<Output, Failure> {
        match deadline::output(command, self.limit) {
            Ok(Some(output)) if output.status.success() => Ok(output),
            Ok(Some(output)) => Err(Failure::Exit(self.to_string(), output.status)),
            Ok(None) => Err(Failure::Limit(self.to_string(), self.limit)),
            Err(error) => Err(Failure::Start(self.to_string(), error)),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .envs(self.envs.iter().map(|(name, value)| (name, value)))
            .current_dir(root());
        command
    }
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.envs {
            write!(f, "{name}={} ", quoted(OsStr::new(value)))?;
        }
        f.write_str(self.shown_as)?;
        for arg in &self.args {
            write!(f, " {}", quoted(arg))?;
        }
        Ok(())
    }
}

/// Returns the argument, quoted for a POSIX shell.
fn quoted(arg: &OsStr) -> Cow<'_, str> {
    let arg = arg.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:+,@%".contains(c);
    if !arg.is_empty() && arg.chars().all(is_plain) {
        arg
    } else {
        format!("'{}'", arg.replace('\'', r"'\''")).into()
    }
}

/// A program from crates.io, in a fixed version, so that results do not change with its releases.
pub(crate) struct Tool {
    /// The name of the crate, which is also that of its program.
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

impl Tool {
    /// Returns the path of the program. Compiles it into target/tools first if it is missing there,
    /// which takes a few minutes and needs the network.
    pub(crate) fn install(&self) -> Result<PathBuf, Failure> {
        let crate_version = format!("{}@{}", self.name, self.version);
        // If this version is installed already, cargo does nothing and does not contact the
        // registry.
        let install = ["install", &crate_version, "--locked", "--root", "target/tools"];
        Invocation::cargo(install).limit(Duration::from_mins(45)).run()?;
        Ok(root().join("target/tools/bin").join(self.name))
    }
}

/// Returns the root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the repository")
}

/// Returns the target triple of this machine.
pub(crate) fn host() -> Result<String, Failure> {
    let rustc = Invocation::new("rustc", ["-vV"]);
    let version = rustc.output()?;
    version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| Failure::Missing(format!("`{rustc}` does not name the host")))
}

/// The variable that lets the stable compiler accept `-Z` flags, such as those of sanitizers. Tests
/// then run on the compiler that builds the product, and need no nightly toolchain.
pub(crate) const UNSTABLE: (&str, &str) = ("RUSTC_BOOTSTRAP", "1");

/// Returns the text in an ANSI style, if the terminal shows colours.
pub(crate) fn paint(style: &str, text: &str) -> String {
    let wanted = match std::env::var("CARGO_TERM_COLOR").as_deref() {
        Ok("always") => true,
        Ok("never") => false,
        _ => std::env::var_os("NO_COLOR").is_none() && io::stdout().is_terminal(),
    };
    if wanted { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_prints_as_a_shell_reads_it() {
        let doc = Invocation::cargo(["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(doc.to_string(), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");

        let odd = Invocation::cargo(["run", "it's", ""]);
        assert_eq!(odd.to_string(), r"cargo run 'it'\''s' ''");
    }

    #[test]
    fn a_missing_program_is_named() {
        let failure = Invocation::new("no-such-program", ["-x"]).run().unwrap_err();
        assert!(failure.to_string().starts_with("cannot start `no-such-program -x`"));
    }

    #[test]
    fn a_program_that_takes_too_long_is_named_with_its_limit() {
        let sleep = Invocation::new("sleep", ["600"]).limit(Duration::from_millis(1));
        let killed = "it was killed, with every process that it started";
        for failure in [sleep.run().unwrap_err(), sleep.output().unwrap_err()] {
            assert_eq!(
                failure.to_string(),
                format!("`sleep 600` did not end within 1ms: {killed}")
            );
        }
        let failure = Failure::Limit("node --test".to_owned(), Duration::from_mins(20));
        assert_eq!(
            failure.to_string(),
            format!("`node --test` did not end within 20 minutes: {killed}")
        );
    }
}
