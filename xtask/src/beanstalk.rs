//! `cargo xtask clients beanstalk`: the beanstalkd protocol, beside beanstalkd itself and through
//! clients of beanstalkd.

use crate::clients::require;
use crate::process::{Failure, Invocation, root};

/// Compares the service with beanstalkd, and uses it through clients of beanstalkd: greenstalk from
/// `PyPI` and jackd from npm.
pub(crate) fn run(binary: &str) -> Result<(), Failure> {
    const PYTHON: &str = "target/beanstalk/bin/python";
    const CLIENT: &str = "greenstalk==2.1.1";
    const MODULES: &str = "target/beanstalk-node";
    require("beanstalkd", &["-v"], "beanstalkd", "beanstalkd")?;
    require("python3", &["-c", "import ensurepip"], "python3-venv", "Python with venv")?;
    let python = root().join(PYTHON);
    if Invocation::at(&python, PYTHON, ["-c", "import greenstalk"]).output().is_err() {
        Invocation::new("python3", ["-m", "venv", "target/beanstalk"]).run()?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", CLIENT];
        Invocation::at(&python, PYTHON, install).run()?;
    }
    if !root().join(MODULES).join("node_modules/jackd").exists() {
        require("npm", &["--version"], "npm", "npm")?;
        let quiet = ["install", "--no-audit", "--no-fund", "--no-save", "--prefix", MODULES];
        Invocation::new("npm", quiet.into_iter().chain(["jackd@2.2.2"])).run()?;
    }
    let modules = root().join(MODULES).display().to_string();
    for script in [
        &["clients/beanstalk/compare.py"][..],
        &["clients/beanstalk/greenstalk_test.py"],
        &["clients/beanstalk/jackd_run.py", &modules],
    ] {
        let script = script.iter().copied();
        Invocation::at(&python, PYTHON, script).env("TICKWHEEL_BIN", binary).run()?;
    }
    Ok(())
}
