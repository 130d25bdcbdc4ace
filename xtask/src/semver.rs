//! `cargo xtask semver`: breaking changes of the library's public API since a release.
//!
//! cargo-semver-checks compares the rustdoc of the working tree with that of an earlier commit, so
//! the check works offline and before the crate is on crates.io.

use crate::process::{Failure, Invocation, Tool};

const CARGO_SEMVER_CHECKS: Tool = Tool { name: "cargo-semver-checks", version: "0.51.0" };

/// Compares with the commit `baseline`, or else with the latest release.
pub(crate) fn run(baseline: Option<String>) -> Result<(), Failure> {
    let baseline = match baseline {
        Some(commit) => commit,
        None => latest_release()?,
    };
    let program = CARGO_SEMVER_CHECKS.install()?;
    let args = ["semver-checks", "--package", "tickwheel", "--baseline-rev", &baseline];
    Invocation::at(&program, "target/tools/bin/cargo-semver-checks", args).run()
}

/// Returns the newest tag of the form `v1.2.3` in the history of this commit.
fn latest_release() -> Result<String, Failure> {
    let describe =
        Invocation::new("git", ["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]);
    let tag = describe.output().map_err(|_| {
        Failure::Missing(
            "there is no release tag (v1.2.3) to compare with: name a commit with --baseline COMMIT"
                .to_owned(),
        )
    })?;
    Ok(tag.trim().to_owned())
}
