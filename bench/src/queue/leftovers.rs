//! What a comparison that is cut off would leave on disk.
//!
//! Ctrl-C ends this program and all that it started, so none of them can remove the data. That is
//! left to a shell which the terminal does not reach: it waits until this program is gone, however
//! that came about, and then removes the folders of the runs.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Waits for the end of its input, and removes the folders that it is given. Twice, since a server
/// that is just being killed may still write.
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
        let shell = command.spawn().context("cannot start sh, which is to remove the data")?;
        Ok(Self { shell })
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        // Closes its input first. What it could not remove it has said by itself.
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
        // Made later, as the runs do.
        fs::create_dir(&other).unwrap();
        assert!(one.exists() && other.exists());
        drop(leftovers);
        assert!(!one.exists() && !other.exists() && folder.exists());
        fs::remove_dir(&folder).unwrap();
    }
}
