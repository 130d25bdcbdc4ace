//! `cargo xtask manifests`: checks the manifests against the schemas of Kubernetes, and the unit
//! against systemd.
//!
//! kubernetes-validate contains the schemas of every supported version, so the check needs neither
//! a cluster nor, once it is installed, the network. It is installed from `PyPI` into a virtual
//! environment under target/, in a fixed version.
//! systemd-analyze is a part of systemd; the unit is neither installed nor started.

use std::fs;
use std::path::PathBuf;

use crate::clients::require;
use crate::process::{Failure, Invocation, root};

const VERSION: &str = "1.37.0";
/// The oldest version of Kubernetes that the manifests are for, and the newest one known.
const KUBERNETES: [&str; 2] = ["1.31", "1.37"];
const MANIFESTS: &str = "packaging/kubernetes/tickwheel.yaml";
const SHOWN: &str = "target/kubernetes-validate/bin/kubernetes-validate";

const UNIT: &str = "packaging/systemd/tickwheel.service";
/// The copy of the unit that is checked.
const UNIT_COPY: &str = "target/systemd/tickwheel.service";
/// The most that `systemd-analyze security` may find, of 100: the network, which the service needs.
const EXPOSURE: &str = "--threshold=15";

pub(crate) fn run() -> Result<(), Failure> {
    kubernetes()?;
    unit()
}

fn kubernetes() -> Result<(), Failure> {
    let program = install()?;
    for version in KUBERNETES {
        // Strict: an unknown field is an error, because it is most likely misspelled.
        let args = ["--strict", "--kubernetes-version", version, MANIFESTS];
        Invocation::at(&program, SHOWN, args).run()?;
    }
    Ok(())
}

/// Checks that systemd knows every key of the unit, and that the unit takes away every right that
/// the service does not need.
fn unit() -> Result<(), Failure> {
    require("systemd-analyze", &["--version"], "systemd", "systemd-analyze")?;
    let unreadable = |error| Failure::Read(UNIT.to_owned(), error);
    let text = fs::read_to_string(root().join(UNIT)).map_err(unreadable)?;
    // The program is not installed here, and the check asks whether it is.
    let text = text.replace("ExecStart=/usr/bin/tickwheel", "ExecStart=/bin/true");
    let copy = root().join(UNIT_COPY);
    let folder = copy.parent().expect("it is in a folder");
    fs::create_dir_all(folder).and_then(|()| fs::write(&copy, text)).map_err(unreadable)?;
    let verify = Invocation::new("systemd-analyze", ["verify", "--man=no", UNIT_COPY]);
    // It only warns of unknown keys, and it reads the units of this machine as well.
    let messages = verify.messages()?;
    let of_the_unit = |line: &&str| line.contains("tickwheel.service");
    let findings: Vec<String> = messages.lines().filter(of_the_unit).map(str::to_owned).collect();
    if !findings.is_empty() {
        return Err(Failure::Findings(findings));
    }
    let security = ["security", "--offline=yes", "--no-pager", EXPOSURE, UNIT_COPY];
    Invocation::new("systemd-analyze", security).output().map(drop)
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
