//! Checks the files of packaging/ against the repository and the binary.

mod rig;

use std::path::{Path, PathBuf};

use rig::{binary, run};
use serde_json::json;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the instructions of the Dockerfile with their arguments, in order.
fn instructions() -> Vec<(String, String)> {
    let text = read("packaging/docker/Dockerfile");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let instructions = joined.lines().filter_map(|line| line.split_once(' '));
    instructions.map(|(name, rest)| (name.to_owned(), rest.trim().to_owned())).collect()
}

fn arguments(name: &str) -> Vec<String> {
    let all = instructions().into_iter();
    all.filter(|(it, _)| it == name).map(|(_, rest)| rest).collect()
}

/// Returns the only argument of an instruction in its JSON form.
fn command(name: &str) -> Vec<String> {
    serde_json::from_str(&arguments(name)[0]).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn the_image_is_built_from_files_that_exist() {
    let ignored = read("packaging/docker/Dockerfile.dockerignore");
    let stages = arguments("FROM");
    for copy in arguments("COPY") {
        let words: Vec<&str> = copy.split_whitespace().collect();
        let (_, sources) = words.split_last().unwrap();
        match sources {
            [stage, path] if stage.starts_with("--from=") => {
                let stage = format!("AS {}", &stage["--from=".len()..]);
                assert!(stages.iter().any(|it| it.ends_with(&stage)), "{copy}");
                assert!(arguments("RUN")[0].contains(path.trim_end_matches('/')), "{copy}");
            }
            sources => {
                for source in sources {
                    assert!(root().join(source).exists(), "{copy}");
                    assert!(ignored.lines().all(|line| line != *source), "{copy} is ignored");
                }
            }
        }
    }
    // The context of the build contains all files that it reads.
    for path in ["Cargo.toml", "Cargo.lock", "crates", "xtask"] {
        assert!(root().join(path).exists() && ignored.lines().all(|line| line != path), "{path}");
    }
}

#[test]
fn the_image_is_built_by_the_oldest_rust_from_the_package_of_the_binary() {
    let manifest = read("Cargo.toml");
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let version = version.unwrap().trim_matches('"');
    assert!(arguments("FROM")[0].starts_with(&format!("rust:{version}-")), "Rust {version}");
    let build = &arguments("RUN")[0];
    let package = format!("cargo build --release --locked --package {} ", env!("CARGO_PKG_NAME"));
    assert!(build.contains(&package), "{build}");
    let name = Path::new(env!("CARGO_BIN_EXE_tickwheel")).file_name().unwrap().to_str().unwrap();
    let [program] = &command("ENTRYPOINT")[..] else { panic!("one program") };
    let install = format!("install -D target/release/{name} /out{program} ");
    assert!(build.contains(&install), "{build}");
}

#[test]
fn the_image_has_only_the_binary_and_runs_it_without_rights() {
    let all = instructions();
    let last = all.iter().rposition(|(name, _)| name == "FROM").unwrap();
    assert_eq!(arguments("FROM").len(), 2, "one stage builds, the other runs");
    let image = &all[last..];
    assert!(!image[0].1.contains("rust"), "{:?}", image[0]);
    assert!(image.iter().all(|(name, _)| name != "RUN"), "the image has no shell");
    let copied: Vec<_> = image.iter().filter(|(name, _)| name == "COPY").collect();
    assert!(copied.iter().all(|(_, rest)| rest.starts_with("--from=build /out/")), "{copied:?}");
    // By number: Kubernetes cannot tell whether a name has rights.
    let user = &image.iter().find(|(name, _)| name == "USER").expect("a user").1;
    let (uid, gid) = user.split_once(':').expect("user and group");
    let number = |text: &str| text.parse::<u32>().unwrap_or_else(|_| panic!("{user}"));
    assert!(number(uid) > 0 && number(gid) > 0, "{user}");
    // The service may write to its volume, and to nothing else.
    let volume = &arguments("VOLUME")[0];
    let made = format!("install -d -m 0700 -o {uid} -g {gid} /out{volume}");
    assert!(arguments("RUN")[0].contains(&made), "{made}");
    let place = |wanted: &str| image.iter().position(|(name, _)| name == wanted).unwrap();
    assert!(place("USER") < place("ENTRYPOINT"));
}

#[test]
fn the_image_starts_the_service_with_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    let environment = arguments("ENV").join(" ");
    let variables: Vec<_> =
        environment.split_whitespace().map(|it| it.split_once('=').unwrap()).collect();
    let volume = &arguments("VOLUME")[0];
    assert!(variables.contains(&("TICKWHEEL_DATA", &volume[..])), "{environment}");
    let port = format!("0.0.0.0:{}", arguments("EXPOSE")[0]);
    assert!(variables.contains(&("TICKWHEEL_LISTEN", &port[..])), "{environment}");
    let mut show = binary();
    show.args(["config", "--json"]).envs(variables.clone());
    let shown = run(&mut show, b"").json();
    for (name, value) in &variables {
        let options = shown["options"].as_array().unwrap();
        let option = options.iter().find(|it| it["variable"] == *name);
        let option = option.unwrap_or_else(|| panic!("{name} is no option of the service"));
        assert_eq!((&option["value"], &option["origin"]), (&json!(value), &json!("environment")));
    }
    // The service refuses to listen on that address without tokens.
    let mut serve = binary();
    serve.args(command("CMD")).envs(variables).env("TICKWHEEL_DATA", folder.path());
    let ran = run(&mut serve, b"");
    assert!(ran.code(1).contains("token new"), "{}", ran.stderr);
}

#[test]
fn the_unit_runs_a_command_with_a_valid_configuration() {
    let unit = read("packaging/systemd/tickwheel.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let words: Vec<&str> = start.split(' ').collect();
    assert_eq!(&words[..4], ["/usr/bin/tickwheel", "serve", "--config", "/etc/tickwheel.toml"]);
    let file = root().join("packaging/systemd/tickwheel.toml");
    let mut show = binary();
    show.arg("config").arg("--config").arg(file).args(&words[4..]);
    let shown = run(&mut show, b"").text();
    assert!(shown.contains("127.0.0.1:7300") && shown.contains("/var/lib/tickwheel"), "{shown}");
}
