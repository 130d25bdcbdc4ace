//! TLS, and the replacement of certificates.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tickwheel_server::config::Tls;
use tickwheel_server::{Server, StartError};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::client::{Client, PATIENCE, Request, Service, config};

/// Writes a new certificate and key for this machine.
pub(crate) fn certify(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])
        .unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

pub(crate) fn files(folder: &Path) -> Tls {
    Tls {
        cert: folder.join("cert.pem"),
        key: folder.join("key.pem"),
        reload: Duration::from_millis(100),
    }
}

pub(crate) async fn connect(
    service: &Service,
    trusted: &CertificateDer<'static>,
) -> std::io::Result<Client<TlsStream<TcpStream>>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(service.address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map(Client::new)
}

#[tokio::test]
async fn a_new_certificate_is_taken_over_and_a_broken_one_is_not() {
    let pem = tempfile::tempdir().unwrap();
    let old = certify(pem.path());
    let service = Service::with(|config| config.tls = Some(files(pem.path()))).await;
    let mut before = connect(&service, &old).await.unwrap();
    assert_eq!(before.send(Request::new("GET", "/healthz")).await.status, 200);

    std::fs::write(pem.path().join("cert.pem"), "nonsense").unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(
        connect(&service, &old).await.unwrap().send(Request::new("GET", "/healthz")).await.status,
        200
    );

    let new = certify(pem.path());
    let taken_over = async {
        loop {
            if let Ok(mut client) = connect(&service, &new).await {
                break client.send(Request::new("GET", "/healthz")).await.status;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert_eq!(tokio::time::timeout(PATIENCE, taken_over).await.expect("it is taken over"), 200);
    assert!(connect(&service, &old).await.is_err());
    // An existing connection stays open.
    assert_eq!(before.send(Request::new("GET", "/healthz")).await.status, 200);

    let plain = service.connect().await.send(Request::new("GET", "/healthz")).await;
    assert_eq!((plain.status, &plain.json()["code"]), (400, &"tls-required".into()));
    assert!(plain.body.contains("https://"), "{}", plain.body);
    // Bytes that are neither HTTP nor TLS get no answer.
    let mut garbage = service.connect().await;
    garbage.write(b"\0\0\0\0\0\0").await;
    garbage.closed().await;
    service.stop().await;
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_refused_at_the_start() {
    let pem = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let start = async || {
        let mut config = config(data.path());
        config.tls = Some(files(pem.path()));
        Server::bind(config).await
    };
    let missing = start().await.unwrap_err();
    assert!(matches!(missing, StartError::Tls(_)), "{missing}");
    assert!(missing.to_string().contains("cert.pem"), "{missing}");
    certify(pem.path());
    let key = std::fs::read(pem.path().join("key.pem")).unwrap();
    certify(pem.path());
    std::fs::write(pem.path().join("key.pem"), key).unwrap();
    let mismatch = start().await.unwrap_err().to_string();
    assert!(mismatch.contains("not the key of the certificate"), "{mismatch}");
    std::fs::write(pem.path().join("key.pem"), "").unwrap();
    assert!(start().await.unwrap_err().to_string().contains("key.pem"));
}
