//! Removes the data of a comparison, even one that is interrupted.
//!
//! Ctrl-C ends this program and its children, so none of them can remove the data. A shell in a
//! process group of its own, which Ctrl-C does not reach, waits until this program has ended and
//! then removes the folders.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A script that waits for the end of its input and then removes the folders in its arguments. It
/// removes them twice, because a server that is being killed may still write.
const SWEEP: &str = "cat > /dev/null; rm -rf -- \"$@\"; sleep 0.3; rm -rf -- \"$@\"";

/// Removes folders when it is dropped, and also when this process is killed.
pub(crate) struct Leftovers {
    shell: Child,
}

impl Leftovers {
    pub(crate) fn of(folders: impl IntoIterator<Item = PathBuf>) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SWEEP, "sweep"]).args(folders);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let shell = command.spawn().context("cannot start sh, which removes the data")?;
        Ok(Self { shell })
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        // `wait` closes the input first. The shell prints an error if it cannot remove a folder.
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn folders_are_there_until_the_end_and_not_after_it() {
        let folder = std::env::temp_dir().join(format!("tickwheel-left-{}", std::process::id()));
        let [one, other] = ["one", "other one"].map(|name| folder.join(name));
        fs::create_dir_all(one.join("inner")).unwrap();
        fs::create_dir_all(&folder).unwrap();
        let leftovers = Leftovers::of([one.clone(), other.clone()]).unwrap();
        // Runs also create their folders later.
        fs::create_dir(&other).unwrap();
        assert!(one.exists() && other.exists());
        drop(leftovers);
        assert!(!one.exists() && !other.exists() && folder.exists());
        fs::remove_dir(&folder).unwrap();
    }
}
