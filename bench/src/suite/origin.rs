//! The origin of a report: the command, the date, and the versions of peers.

use serde::Serialize;

const LOCK_FILE: &str = include_str!("../../Cargo.lock");

/// Returns the command that repeats this report.
pub(crate) fn command() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!("cargo xtask bench {}", arguments.join(" "))
}

/// Returns the current date and time.
pub(crate) fn date() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// A peer and its version.
#[derive(Serialize)]
pub(crate) struct Version {
    pub(crate) name: &'static str,
    pub(crate) version: String,
}

/// Lists all peers in one line.
pub(crate) fn versions(peers: &[Version]) -> String {
    let name = |peer: &Version| format!("{} {}", peer.name, peer.version);
    let names: Vec<String> = peers.iter().map(name).collect();
    format!("Peers: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") })
}

/// Returns the versions of dependencies that this program was built with.
pub(crate) fn locked(names: &[&'static str]) -> Vec<Version> {
    names.iter().map(|&name| Version { name, version: locked_version(name) }).collect()
}

fn locked_version(name: &str) -> String {
    LOCK_FILE
        .split("[[package]]")
        .find(|package| package.contains(&format!("name = \"{name}\"")))
        .and_then(|package| package.split_once("version = \""))
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or_else(|| String::from("unknown"), |(version, _)| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::locked_version;

    #[test]
    fn versions_come_from_the_lock_file() {
        assert!(locked_version("tokio-util").starts_with("0."));
        assert_eq!(locked_version("no such crate"), "unknown");
    }
}
