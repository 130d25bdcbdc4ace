//! `cargo xtask deny`: licences, sources and known vulnerabilities of every dependency.
//!
//! deny.toml has the rules. The advisories come from the `RustSec` database on GitHub; without
//! network `--offline` checks everything else.

use crate::process::{Failure, Invocation, Tool};

const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };

pub(crate) fn run(offline: bool) -> Result<(), Failure> {
    let program = CARGO_DENY.install()?;
    let args: &[&str] =
        if offline { &["--offline", "check", "bans", "licenses", "sources"] } else { &["check"] };
    Invocation::at(&program, "target/tools/bin/cargo-deny", args).run()?;
    if offline {
        println!("Advisories were not checked: that needs the network.");
    }
    Ok(())
}
