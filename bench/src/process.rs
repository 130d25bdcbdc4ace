//! Runs that are processes of their own, and what they print.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

/// This program, to be called with a hidden subcommand.
pub(crate) fn this_program() -> Result<Command> {
    Ok(Command::new(std::env::current_exe().context("cannot find the path of this program")?))
}

/// Runs a command that prints its outcome as JSON. An error names `what` it was to do.
pub(crate) fn outcome<T: DeserializeOwned>(mut command: Command, what: &str) -> Result<T> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{what} failed ({}):\n{}\nTo see it alone: {command:?}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim(),
        );
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{command:?} printed something that is not an outcome"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    #[test]
    fn an_outcome_is_read() {
        assert_eq!(outcome::<Vec<u32>>(shell("echo '[1, 2]'"), "it").unwrap(), [1, 2]);
    }

    #[test]
    fn a_failure_says_what_failed_and_why() {
        let failed = outcome::<u32>(shell("echo because >&2; exit 3"), "it").unwrap_err();
        let text = failed.to_string();
        assert!(text.contains("it failed") && text.contains("because"), "{text}");
        assert!(outcome::<u32>(shell("echo nonsense"), "it").is_err());
    }
}
