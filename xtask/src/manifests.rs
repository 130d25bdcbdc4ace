//! `cargo xtask manifests`: the Kubernetes manifests against the schemas of Kubernetes.
//!
//! kubernetes-validate brings the schemas of every supported version along, so that no cluster and
//! no network is needed once it is installed. It comes from Python's registry into a virtual
//! environment under target/, in a fixed version: a run tomorrow checks what a run today does.

use std::path::PathBuf;

use crate::process::{Failure, Invocation, root};

const VERSION: &str = "1.37.0";
/// The oldest version of Kubernetes that the manifests are for, and the newest one known.
const KUBERNETES: [&str; 2] = ["1.31", "1.37"];
const MANIFESTS: &str = "packaging/kubernetes/tickwheel.yaml";
const SHOWN: &str = "target/kubernetes-validate/bin/kubernetes-validate";

pub(crate) fn run() -> Result<(), Failure> {
    let program = install()?;
    for version in KUBERNETES {
        // Strict: a field that Kubernetes does not know is a mistake in its name.
        let args = ["--strict", "--kubernetes-version", version, MANIFESTS];
        Invocation::at(&program, SHOWN, args).run()?;
    }
    Ok(())
}

/// Returns the program, and installs it first if it is missing.
fn install() -> Result<PathBuf, Failure> {
    let place = root().join("target/kubernetes-validate");
    let bin = place.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let program = bin.join("kubernetes-validate");
    let version = Invocation::at(&program, SHOWN, ["--version"]);
    if version.output().is_ok_and(|text| text.contains(VERSION)) {
        return Ok(program);
    }
    let venv = ["-m", "venv", "--clear", "target/kubernetes-validate"];
    Invocation::new("python3", venv).run().map_err(|failure| {
        Failure::Missing(format!(
            "{failure}\n       the manifests are checked by kubernetes-validate, which needs Python 3 \
             with its module venv: on Debian, apt-get install python3-venv"
        ))
    })?;
    let wanted = format!("kubernetes-validate=={VERSION}");
    let args = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &wanted];
    Invocation::at(&bin.join("python"), "target/kubernetes-validate/bin/python", args).run()?;
    Ok(program)
}
