//! A mount namespace of the test's own, in which it may mount small file systems.
//!
//! The test starts itself again under `unshare`. Root needs only the mount namespace. Another user
//! also needs a user namespace in which it is root, which most systems allow.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that marks the second process, so that it does not start a third.
const MARK: &str = "TICKWHEEL_TEST_NAMESPACE";

/// Enters a namespace. Returns only in the process that is inside it.
pub(crate) fn enter() -> Result<(), String> {
    if std::env::var_os(MARK).is_some() {
        return Ok(());
    }
    if !cfg!(target_os = "linux") {
        return Err("this test needs Linux: mount namespaces, tmpfs and /proc".to_owned());
    }
    let itself = std::env::current_exe().map_err(|error| error.to_string())?;
    for rights in [&[][..], &["--user", "--map-root-user"]] {
        let under = || {
            let mut command = Command::new("unshare");
            command.args(rights).args(["--mount", "--propagation", "private"]);
            command
        };
        if under().arg("true").output().is_ok_and(|output| output.status.success()) {
            let status =
                under().arg(&itself).args(std::env::args_os().skip(1)).env(MARK, "1").status();
            let status = status.map_err(|error| format!("cannot start unshare: {error}"))?;
            std::process::exit(status.code().unwrap_or(1));
        }
    }
    Err("this test needs a mount namespace: run as root, or install `unshare` (util-linux) and \
         allow user namespaces"
        .to_owned())
}

/// A file system in memory, mounted until it is dropped.
#[derive(Debug)]
pub(crate) struct Volume {
    place: tempfile::TempDir,
}

impl Volume {
    pub(crate) fn mount(mebibytes: u64) -> Self {
        let place = tempfile::tempdir().expect("a folder");
        let size = format!("size={mebibytes}m");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(place.path()));
        Self { place }
    }

    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Returns the data directory on the volume.
    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Mounts the volume at a second place, where it can disappear without being lost.
    pub(crate) fn bind<'a>(&'a self, place: &'a Path) -> Bound<'a> {
        let bound = Bound { volume: self, place };
        bound.mount_again();
        bound
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        unmount(self.path());
    }
}

/// A second place at which a volume is mounted.
#[derive(Debug)]
pub(crate) struct Bound<'a> {
    volume: &'a Volume,
    place: &'a Path,
}

impl Bound<'_> {
    pub(crate) fn mount_again(&self) {
        run(Command::new("mount").arg("--bind").arg(self.volume.path()).arg(self.place));
    }

    /// Unmounts the volume while files on it are open.
    pub(crate) fn unmount(&self) {
        unmount(self.place);
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        unmount(self.place);
    }
}

/// Unmounts lazily, so that open files do not matter. The volume may be unmounted already.
fn unmount(place: &Path) {
    let _ = Command::new("umount").args(["-l", "-q"]).arg(place).status();
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
