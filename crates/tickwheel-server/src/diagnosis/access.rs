//! Who has access: the owner and permissions of the files, and the tokens of the server.

use std::io;
use std::path::Path;

use super::{Finding, Repair, Severity};
use crate::config::Config;
use crate::tokens::TokenStore;

/// Checks that other users of the machine cannot read jobs and secrets.
#[cfg(unix)]
pub(super) fn permissions(data: &Path) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| Some(path.metadata().ok()?.permissions().mode() & 0o777);
    let of_data = mode(data)?;
    let of_others = of_data & 0o077;
    if of_others == 0 {
        let what = "only the owner has access to the directory";
        return Some(Finding::new(Severity::Fine, "permissions", what));
    }
    let finding = Finding::new(
        Severity::Warning,
        "permissions",
        format!(
            "other users have access to {} (mode {of_data:03o}), which holds payloads and secrets",
            data.display()
        ),
    );
    let finding = finding.advice(format!("chmod 700 {}", data.display()));
    let repair = Repair::MakePrivate(vec![data.to_owned()]);
    Some(if is_own(data) { finding.repair(repair) } else { finding })
}

#[cfg(not(unix))]
pub(super) fn permissions(_: &Path) -> Option<Finding> {
    None
}

/// Whether this process runs as the owner of a file.
#[cfg(unix)]
pub(super) fn is_own(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    path.metadata().is_ok_and(|file| file.uid() == rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
pub(super) fn is_own(_: &Path) -> bool {
    true
}

/// Checks that this process runs as the user of the server.
#[cfg(unix)]
pub(super) fn owner(data: &Path) -> Option<Finding> {
    use std::os::unix::fs::MetadataExt;
    let owner = data.metadata().ok()?.uid();
    let user = rustix::process::geteuid().as_raw();
    (owner != user).then(|| {
        let what = format!("{} belongs to user {owner}, and this is user {user}", data.display());
        let advice =
            format!("run it as the user of the server: sudo -u '#{owner}' tickwheel doctor");
        Finding::new(Severity::Note, "permissions", what).advice(advice)
    })
}

#[cfg(not(unix))]
pub(super) fn owner(_: &Path) -> Option<Finding> {
    None
}

/// Takes the permissions of other users away.
#[cfg(unix)]
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = path.metadata()?.permissions();
    permissions.set_mode(permissions.mode() & 0o700);
    std::fs::set_permissions(path, permissions)
}

#[cfg(not(unix))]
pub(super) fn make_private(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Checks that a server that others can reach has tokens.
pub(super) fn tokens(config: &Config) -> Finding {
    let number = match TokenStore::new(&config.data).list() {
        Ok(tokens) => tokens.len(),
        Err(error) => {
            return Finding::new(Severity::Error, "tokens", error.to_string())
                .advice("restore tokens.json from a copy, or remove it and make new tokens");
        }
    };
    let listen = config.listen;
    let is_private = listen.ip().to_canonical().is_loopback();
    match (number, is_private) {
        (0, true) => Finding::new(
            Severity::Note,
            "tokens",
            format!("there are no tokens: every program on this machine can use {listen}"),
        )
        .advice("make tokens with `tickwheel token new` if other users share the machine"),
        (0, false) if config.insecure => Finding::new(
            Severity::Error,
            "tokens",
            format!("{listen} can be reached from other machines, and `insecure` serves everybody"),
        )
        .advice("make tokens with `tickwheel token new`, and remove `insecure`"),
        (0, false) => Finding::new(
            Severity::Error,
            "tokens",
            format!(
                "{listen} can be reached from other machines, and there is no token: the server \
                     refuses to start"
            ),
        )
        .advice("make one with `tickwheel token new`, or listen on 127.0.0.1"),
        (1, _) => Finding::new(Severity::Fine, "tokens", "there is 1 token"),
        (number, _) => Finding::new(Severity::Fine, "tokens", format!("there are {number} tokens")),
    }
}
