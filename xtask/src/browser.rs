//! `cargo xtask browser`: the dashboard in a real browser.
//!
//! The tests drive Debian's chromium with playwright-core. playwright-core and axe-core are
//! installed from npm into `target/browser`, in fixed versions. The tests start servers of their
//! own from the binary in `TICKWHEEL_BIN`, on loopback, and NATS servers for a cluster.

use crate::api_check;
use crate::clients::{NODE_TEST, require, require_node};
use crate::process::{Failure, Invocation, root};

const HOME: &str = "target/browser";
const PACKAGES: [&str; 2] = ["playwright-core@1.65.1", "axe-core@4.14.0"];
/// Prints the packages of a directory with their versions.
const VERSIONS: &str = "for (const name of ['playwright-core', 'axe-core']) \
                        console.log(`${name}@${require(`${process.argv[1]}/${name}/package.json`).version}`)";

/// Measures the figures of docs/PAGE.md with a release build, or only one part of them.
pub(crate) fn figures(part: Option<&str>) -> Result<(), Failure> {
    install()?;
    Invocation::cargo(["build", "--release", "--locked", "--package", "tickwheel-cli"]).run()?;
    let binary = root().join("target/release/tickwheel").display().to_string();
    let program = "crates/tickwheel-page/tests/browser/figures.mjs";
    Invocation::new("node", std::iter::once(program).chain(part))
        .env("TICKWHEEL_BIN", binary)
        .env("TICKWHEEL_BROWSER_MODULES", modules())
        .run()
}

/// Tests the dashboard, or the tests whose names contain a text. With `screenshots`, the pictures
/// in `docs/images` are taken again.
pub(crate) fn run(name: Option<&str>, screenshots: bool) -> Result<(), Failure> {
    install()?;
    Invocation::cargo(api_check::BUILD).run()?;
    let binary = root().join("target/debug/tickwheel").display().to_string();
    let mut args = NODE_TEST.map(str::to_owned).to_vec();
    args.push("--test-concurrency=1".to_owned());
    args.extend(name.map(|name| format!("--test-name-pattern={name}")));
    for file in
        ["views", "actions", "audit", "wheel", "hostile", "access", "accessibility", "cluster"]
    {
        args.push(format!("crates/tickwheel-page/tests/browser/{file}.test.mjs"));
    }
    let nats = tickwheel_test_servers::nats::program()
        .map_err(|error| Failure::Start("nats-server".to_owned(), error))?;
    Invocation::new("node", args)
        .env("TICKWHEEL_BIN", binary)
        .env("TICKWHEEL_NATS", nats.display().to_string())
        .env("TICKWHEEL_BROWSER_MODULES", modules())
        .env("TICKWHEEL_SCREENSHOTS", if screenshots { "docs/images" } else { "" })
        .run()
}

fn modules() -> String {
    root().join(HOME).join("node_modules").display().to_string()
}

fn install() -> Result<(), Failure> {
    require_node()?;
    require("chromium", &["--version"], "chromium", "the browser chromium")?;
    let check = Invocation::new("node", ["-e", VERSIONS, &modules()]);
    let found = check.output().unwrap_or_default();
    if !found.split_whitespace().eq(PACKAGES) {
        require("npm", &["--version"], "npm", "npm")?;
        let quiet = ["install", "--no-audit", "--no-fund", "--no-save", "--prefix", HOME];
        Invocation::new("npm", quiet.into_iter().chain(PACKAGES)).run()?;
    }
    // Without a font for Chinese, a picture of the Chinese page shows boxes.
    require("sh", &["-c", "fc-list :lang=zh | grep -q ."], "fonts-noto-cjk", "a font for Chinese")
}
