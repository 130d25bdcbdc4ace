//! Runs the programs that install and build what peers need.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};
use rustix::process::geteuid;

/// Runs a command to its end and returns its standard output. If it fails, the error contains the
/// last line of its output.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => bail!("cannot start {}: {error}", shown(command)),
    };
    if !output.status.success() {
        let wrote = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
        let wrote = String::from_utf8_lossy(wrote);
        let last = wrote.trim().lines().last().unwrap_or("it printed nothing");
        bail!("{} failed ({}): {last}", shown(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    format!("`{}`", words.join(" "))
}

/// Returns `true` if a program exists and starts.
pub(crate) fn starts(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success())
}

/// Installs packages of the distribution.
pub(crate) fn packages(names: &[&str]) -> Result<()> {
    ensure!(
        Path::new("/usr/bin/apt-get").exists(),
        "there is no apt-get here to install {} with; install it by hand",
        names.join(" and ")
    );
    eprintln!("installing {}", names.join(" and "));
    let install = || run(apt_get(&["install", "--yes", "--no-install-recommends"]).args(names));
    if install().is_ok() {
        return Ok(());
    }
    // The lists of packages may be missing, or older than the packages.
    run(&mut apt_get(&["update"]))?;
    install().map(drop)
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = if geteuid().is_root() {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.args(["--non-interactive", "apt-get"]);
        sudo
    };
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_with_its_cause() {
        let error = run(Command::new("sh").args(["-c", "echo first; echo cause >&2; exit 3"]));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("exit status: 3") && text.ends_with("cause"), "{text}");
        assert!(!text.contains('\n'));
    }

    #[test]
    fn a_missing_program_is_named() {
        let text = run(&mut Command::new("no-such-program")).unwrap_err().to_string();
        assert!(text.starts_with("cannot start `no-such-program`"), "{text}");
        assert!(!starts("no-such-program", "--version"));
    }
}
