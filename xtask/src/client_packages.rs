//! The packages of the client libraries, as registries get them: built, looked into, and used.
//!
//! Registries take a package as it is, so what a manifest forgets is missing for every user. The
//! packages are built in `target/`; the folders of the sources stay as they are.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Failure, Invocation, root};

/// The licences, which every package contains.
const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// Builds the wheel of the Python client with the setuptools of an environment, and imports it.
pub(crate) fn wheel(python: &Path) -> Result<(), Failure> {
    const USE: &str = "import tickwheel, tickwheel.aio, tickwheel.testing as testing; \
                       assert testing.Fake().client().put('q', 1).outcome == 'created'";
    let home = root().join("target/python-package");
    shell(
        "rm -rf target/python-package && mkdir target/python-package && \
           cp -R clients/python target/python-package/source",
    )?;
    let build = "-m pip wheel --quiet --disable-pip-version-check --no-index --no-deps \
                 --no-build-isolation --wheel-dir target/python-package target/python-package/source";
    Invocation::at(python, "python", build.split_whitespace()).run()?;
    let wheel = only_file(&home, "whl")?;
    let list = ["-m", "zipfile", "-l", &wheel];
    let packed = Invocation::at(python, "python", list).output()?;
    let sources = files(&root().join("clients/python/tickwheel"))?;
    let wanted = sources.iter().map(|name| format!("tickwheel/{name} "));
    contains(&wheel, &packed, wanted.chain(LICENCES.map(|name| format!("{name} "))))?;
    Invocation::at(python, "python", ["-c", USE]).env("PYTHONPATH", wheel).run()
}

/// Packs the TypeScript client with npm, and compiles and runs a program that uses the package.
pub(crate) fn npm(tsc: &str, types: &str) -> Result<(), Failure> {
    const USE: &str = "import { Client, Worker } from \"tickwheel\";\n\
                       import { Fake } from \"tickwheel/testing\";\n\
                       const client: Client = new Fake().client();\n\
                       const { outcome } = await client.put(\"q\", 1);\n\
                       if (outcome !== \"created\" || !new Worker(client)) throw new Error(outcome);\n";
    let home = root().join("target/typescript-package");
    shell(
        "rm -rf target/typescript-package && mkdir -p target/typescript-package/source \
         target/typescript-package/user/node_modules/tickwheel && cp clients/typescript/package.json \
         clients/typescript/README.md clients/typescript/LICENSE-* target/typescript-package/source/",
    )?;
    let library =
        ["--project", "clients/typescript/tsconfig.json", "--typeRoots", types, "--outDir"];
    let library = library.into_iter().chain(["target/typescript-package/source/dist"]);
    Invocation::new("node", [tsc].into_iter().chain(library)).run()?;
    // The script before packing compiles as well, but without the versions that are fixed here.
    let pack = ["pack", "--silent", "--ignore-scripts", "--pack-destination"];
    let place = ["target/typescript-package", "./target/typescript-package/source"];
    Invocation::new("npm", pack.into_iter().chain(place)).output()?;
    let archive = only_file(&home, "tgz")?;
    let packed = Invocation::new("tar", ["-tzf", &archive]).output()?;
    let sources = files(&root().join("clients/typescript/src"))?;
    let compiled = sources.iter().flat_map(|name| {
        let name = name.trim_end_matches(".ts");
        [format!("package/dist/{name}.js\n"), format!("package/dist/{name}.d.ts\n")]
    });
    let others = ["README.md", "package.json"].into_iter().chain(LICENCES);
    contains(&archive, &packed, compiled.chain(others.map(|name| format!("package/{name}\n"))))?;
    let user = home.join("user");
    let write = |name: &str, text: &str| {
        let file = user.join(name);
        fs::write(&file, text).map_err(|error| Failure::Read(file.display().to_string(), error))
    };
    write("package.json", "{\"type\": \"module\"}\n")?;
    write("use.ts", USE)?;
    let module = user.join("node_modules/tickwheel").display().to_string();
    let unpack = ["-xzf", &archive, "--strip-components=1", "-C", &module];
    Invocation::new("tar", unpack).run()?;
    let program = user.join("use.ts").display().to_string();
    let options = ["--strict", "--module", "nodenext", "--target", "es2022", "--typeRoots", types];
    let compile = [tsc].into_iter().chain(options).chain(["--types", "node", &program]);
    Invocation::new("node", compile).run()?;
    Invocation::new("node", [user.join("use.js").display().to_string()]).run()
}

/// Packs the compiled module of the Java client, and returns the path of the jar.
pub(crate) fn jar() -> Result<String, Failure> {
    const JAR: &str = "target/java/tickwheel-client.jar";
    shell(
        "mkdir -p target/java/module/META-INF && \
           cp clients/java/LICENSE-* target/java/module/META-INF/",
    )?;
    Invocation::new("jar", ["--create", "--file", JAR, "-C", "target/java/module", "."]).run()?;
    let packed = Invocation::new("jar", ["--list", "--file", JAR]).output()?;
    let sources = files(&root().join("clients/java/src/main/java/io/github/tickwheel"))?;
    let classes = sources.iter().filter(|name| *name != "package-info.java");
    let classes = classes.map(|name| format!("{}.class\n", name.trim_end_matches(".java")));
    let licences = LICENCES.map(|name| format!("META-INF/{name}\n"));
    contains(JAR, &packed, classes.chain(licences).chain(["module-info.class\n".to_owned()]))?;
    let describe = ["--module-path", JAR, "--describe-module", "io.github.tickwheel"];
    Invocation::new("java", describe).output()?;
    Ok(JAR.to_owned())
}

fn shell(script: &str) -> Result<(), Failure> {
    Invocation::new("sh", ["-c", script]).run()
}

/// Returns the names of the files of a folder.
fn files(folder: &Path) -> Result<Vec<String>, Failure> {
    let failed = |error| Failure::Read(folder.display().to_string(), error);
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).map_err(failed)?.collect();
    let files = entries.map_err(failed)?.into_iter().filter(|entry| entry.path().is_file());
    let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_compiled = |name: &str| Path::new(name).extension().is_some_and(|end| end == "pyc");
    Ok(names.filter(|name| !is_compiled(name)).collect())
}

/// Returns the path of the only file with an extension.
fn only_file(folder: &Path, extension: &str) -> Result<String, Failure> {
    let is_wanted = |name: &String| Path::new(name).extension().is_some_and(|it| it == extension);
    let found: Vec<PathBuf> =
        files(folder)?.into_iter().filter(is_wanted).map(|name| folder.join(name)).collect();
    match &found[..] {
        [path] => Ok(path.display().to_string()),
        _ => Err(Failure::Missing(format!(
            "{} must have one file *.{extension}, has {}",
            folder.display(),
            found.len()
        ))),
    }
}

/// Fails with what a list of packed files lacks.
fn contains(
    package: &str,
    packed: &str,
    wanted: impl Iterator<Item = String>,
) -> Result<(), Failure> {
    let lacks = |name: &String| format!("{package} lacks {}", name.trim_end());
    let missing: Vec<_> =
        wanted.filter(|name| !packed.contains(&name[..])).map(|name| lacks(&name)).collect();
    if missing.is_empty() { Ok(()) } else { Err(Failure::Findings(missing)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDERS: [&str; 4] =
        ["clients/go", "clients/java", "clients/python", "clients/typescript"];

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn every_package_has_both_licences() {
        let crates =
            fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
        let clients = FOLDERS.map(|folder| root().join(folder));
        for folder in crates.chain(clients.clone()) {
            for name in LICENCES {
                assert_eq!(read(&folder.join(name)), read(&root().join(name)), "{folder:?}");
            }
        }
        // npm and Go leave symbolic links out.
        for folder in clients {
            for name in LICENCES {
                assert!(!folder.join(name).is_symlink(), "{folder:?}/{name} must be a file");
            }
        }
    }

    #[test]
    fn every_client_has_the_version_of_the_workspace() {
        let version = env!("CARGO_PKG_VERSION");
        for (manifest, line) in [
            ("clients/java/pom.xml", format!("\n  <version>{version}</version>\n")),
            ("clients/python/pyproject.toml", format!("\nversion = \"{version}\"\n")),
            ("clients/typescript/package.json", format!("\n  \"version\": \"{version}\",\n")),
        ] {
            assert!(read(&root().join(manifest)).contains(&line), "{manifest} lacks {line:?}");
        }
    }

    #[test]
    fn what_a_package_lacks_is_named() {
        assert!(contains("a.whl", "one\ntwo\n", ["two\n".to_owned()].into_iter()).is_ok());
        let wanted = ["two\n".to_owned(), "three\n".to_owned()];
        let failure = contains("a.whl", "one\ntwo\n", wanted.into_iter()).unwrap_err();
        assert_eq!(failure.to_string(), "a.whl lacks three");
    }
}
