//! `cargo xtask package`: checks that every published crate builds from its package.
//!
//! Each crate is packed, unpacked and compiled from there, as `cargo publish --dry-run` does, but
//! without asking crates.io for anything. Then the library is compiled by the oldest Rust that its
//! manifest allows, which rustup installs if it is missing.

use std::fs;

use crate::process::{Failure, Invocation, root};

const LIBRARY: &str = "crates/tickwheel/Cargo.toml";

/// Packs every published crate. Fails on a dependency without a version, and on missing metadata.
pub(crate) const PACK: &str = "package --workspace --exclude xtask --exclude tickwheel-test-servers \
     --exclude tickwheel-integrations --allow-dirty";

pub(crate) fn run() -> Result<(), Failure> {
    Invocation::cargo(PACK.split(' ')).run()?;
    build_with_oldest_rust()
}

fn build_with_oldest_rust() -> Result<(), Failure> {
    let manifest = fs::read_to_string(root().join(LIBRARY))
        .map_err(|error| Failure::Read(LIBRARY.to_owned(), error))?;
    let version = rust_version(&manifest)
        .ok_or_else(|| Failure::Missing(format!("{LIBRARY} does not state its rust-version")))?;
    let install = ["toolchain", "install", version, "--profile", "minimal", "--no-self-update"];
    Invocation::new("rustup", install).run()?;
    for features in ["--all-features", "--no-default-features"] {
        // Dependencies for tests may need a newer compiler; the library may not.
        let check = format!(
            "run {version} cargo check --package tickwheel --lib {features} --target-dir target/oldest-rust"
        );
        Invocation::new("rustup", check.split(' ')).run()?;
    }
    println!("The library builds with Rust {version}.");
    Ok(())
}

fn rust_version(manifest: &str) -> Option<&str> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "))?;
    Some(line.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_rust_is_read_from_the_manifest() {
        assert_eq!(rust_version("name = \"a\"\nrust-version = \"1.88\"\n"), Some("1.88"));
        assert_eq!(rust_version("rust-version.workspace = true\n"), None);
    }
}
