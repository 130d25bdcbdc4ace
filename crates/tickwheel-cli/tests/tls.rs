//! The command line and a server that speaks TLS.

mod rig;

use std::path::Path;

use rig::{Server, run, tickwheel, until};

/// Writes a certificate for 127.0.0.1 and its key to two files.
fn certify(folder: &Path, is_authority: bool) -> (String, String) {
    let mut params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    if is_authority {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    }
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    (write("cert.pem", certificate.pem()), write("key.pem", key.serialize_pem()))
}

fn start(certificate: &str, key: &str) -> Server {
    Server::start_with(&["--tls-cert", certificate, "--tls-key", key])
}

#[test]
fn a_certificate_of_ones_own_is_trusted_if_it_is_named() {
    let pem = tempfile::tempdir().unwrap();
    let (certificate, key) = certify(pem.path(), false);
    let server = start(&certificate, &key);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let said = server.run(&["put", "q", "x"]).code(1).to_owned();
    assert!(said.contains("--ca") && !said.contains("no server answers"), "{said}");

    server.run(&["put", "q", "x", "--ca", &certificate]).code(0);
    let listed = run(server.command().env("TICKWHEEL_CA", &certificate).args(["ls", "q"]), b"");
    assert!(listed.text().contains("ready"), "{listed:?}");
    let seen = ["watch", "--since", "0-0-00000000", "--count", "1", "--ca", &certificate];
    let mut watch = server.command();
    watch.args(seen);
    let watching = std::thread::spawn(move || run(&mut watch, b""));
    while !watching.is_finished() {
        server.run(&["put", "q", "x", "--ca", &certificate]).code(0);
    }
    assert!(watching.join().unwrap().text().contains("put"));

    // A name that is not in the certificate is refused, and so is another certificate.
    let other = server.url.replace("127.0.0.1", "localhost");
    let said = tickwheel(&["ls", "--url", &other, "--ca", &certificate]);
    assert!(said.code(1).contains("cannot be trusted"), "{}", said.stderr);
    let elsewhere = tempfile::tempdir().unwrap();
    let (stranger, _) = certify(elsewhere.path(), false);
    assert!(server.run(&["ls", "--ca", &stranger]).code(1).contains("cannot be trusted"));
    server.run(&["ls", "--ca", "no such file"]).code(2);
}

#[test]
fn a_worker_trusts_the_same_certificate() {
    let pem = tempfile::tempdir().unwrap();
    let (certificate, key) = certify(pem.path(), false);
    let server = start(&certificate, &key);
    let id = server.run(&["put", "q", "x", "--json", "--ca", &certificate]).json()["id"].clone();
    let id = id.as_str().unwrap();
    let mut worker = server
        .command()
        .args(["work", "q", "--ca", &certificate, "--", "true"])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until(|| server.run(&["get", id, "--ca", &certificate]).code == 3);
    worker.kill().unwrap();
    worker.wait().unwrap();
}

#[test]
fn the_wrong_scheme_suggests_the_right_one() {
    let plain = Server::start();
    let address = plain.url.replace("http:", "https:");
    let said = tickwheel(&["ls", "--url", &address]);
    assert!(said.code(1).contains("try http://"), "{}", said.stderr);

    let pem = tempfile::tempdir().unwrap();
    let (certificate, key) = certify(pem.path(), false);
    let server = start(&certificate, &key);
    let said = tickwheel(&["ls", "--url", &server.url.replace("https:", "http:")]);
    assert!(said.code(2).contains("https:// instead of http://"), "{}", said.stderr);
}

#[test]
fn the_certificate_of_an_authority_is_explained() {
    let pem = tempfile::tempdir().unwrap();
    let (certificate, key) = certify(pem.path(), true);
    let server = start(&certificate, &key);
    let said = server.run(&["ls", "--ca", &certificate]);
    assert!(said.code(1).contains("basicConstraints=critical,CA:FALSE"), "{}", said.stderr);
}

#[test]
fn a_push_target_is_trusted_if_its_certificate_is_named() {
    let pem = tempfile::tempdir().unwrap();
    let (certificate, key) = certify(pem.path(), false);
    // The target is another server, which takes each request as a put.
    let receiver = start(&certificate, &key);
    let server = Server::start_with(&["--push-allow", "127.0.0.1"]);
    let url = format!("{}/v1/queues/inbox/jobs", receiver.url);
    server.run(&["target", "add", "partner", &url]).code(0);
    let test = || {
        let failed = server.run(&["target", "test", "partner", "--json"]);
        assert!(failed.code(1).contains("a job would be"), "{failed:?}");
        serde_json::from_slice::<serde_json::Value>(&failed.stdout).unwrap()
    };
    let refused = test();
    let why = refused["error"].as_str().unwrap_or_default();
    assert!(why.contains("certificate") && refused["status"].is_null(), "{refused}");

    let missing = server.run(&["target", "set", "partner", "--target-ca", "no such file"]);
    assert!(missing.code(2).contains("no such file"), "{missing:?}");
    let elsewhere = tempfile::tempdir().unwrap();
    let (stranger, _) = certify(elsewhere.path(), false);
    server.run(&["target", "set", "partner", "--target-ca", &stranger]).code(0);
    assert!(test()["status"].is_null(), "another certificate is not trusted");
    server.run(&["target", "set", "partner", "--target-ca", &certificate]).code(0);
    server.run(&["queue", "set", "orders", "--target", "partner"]).code(0);
    server.run(&["put", "orders", r#"{"text":"hello"}"#]).code(0);
    until(|| {
        let shown = receiver.run(&["ls", "inbox", "--ca", &certificate]);
        String::from_utf8_lossy(&shown.stdout).contains("hello")
    });
}
