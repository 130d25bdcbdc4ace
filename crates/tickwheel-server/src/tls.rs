//! TLS, with certificates that can be exchanged while the service runs.
//!
//! The files are looked at now and then. New ones hold for new connections; if they make no sense,
//! the old ones stay.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::rustls::crypto::ring::{default_provider, sign::any_supported_type};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};

use crate::auth::{Stamp, stamp_of};
use crate::config::Tls;

/// What is wrong with a certificate or its key.
///
/// ```
/// use tickwheel_server::TlsError;
/// fn explain(error: TlsError) -> String {
///     format!("TLS does not work: {error}")
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    path: PathBuf,
    why: String,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for TlsError {}

impl TlsError {
    pub(crate) fn new(path: &Path, why: impl fmt::Display) -> Self {
        wrong(path, why)
    }
}

/// The certificate that new connections get.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: Tls,
    /// What the files were like before they were first read.
    first: (Stamp, Stamp),
    current: RwLock<Arc<CertifiedKey>>,
}

fn wrong(path: &Path, why: impl fmt::Display) -> TlsError {
    TlsError { path: path.to_owned(), why: why.to_string() }
}

fn read(files: &Tls) -> Result<CertifiedKey, TlsError> {
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(&files.cert, format!("no certificates in PEM: {error}")))?;
    if chain.is_empty() {
        return Err(wrong(&files.cert, "there is no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| wrong(&files.key, format!("no private key in PEM: {error}")))?;
    let key = any_supported_type(&key).map_err(|error| wrong(&files.key, error))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        // Some keys cannot be compared. A wrong one fails at the first handshake.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(certified)
        }
        Err(error) => {
            Err(wrong(&files.key, format!("it is not the key of the certificate: {error}")))
        }
    }
}

fn stamps_of(files: &Tls) -> (Stamp, Stamp) {
    (stamp_of(&files.cert), stamp_of(&files.key))
}

impl Certificate {
    pub(crate) fn new(files: Tls) -> Result<Arc<Self>, TlsError> {
        let first = stamps_of(&files);
        let current = read(&files)?;
        Ok(Arc::new(Self { files, first, current: RwLock::new(current.into()) }))
    }

    /// How connections are made.
    pub(crate) fn config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, TlsError> {
        let resolver = Arc::clone(self) as Arc<dyn ResolvesServerCert>;
        let mut config = ServerConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&self.files.cert, error))?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config.into())
    }

    /// Takes new files over, until the task is dropped.
    pub(crate) async fn keep_reading(self: Arc<Self>) {
        let mut seen = self.first;
        loop {
            tokio::time::sleep(self.files.reload).await;
            let stamps = self.stamps().await;
            if stamps == seen {
                continue;
            }
            let this = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || read(&this.files)).await {
                Ok(Ok(new)) => {
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = new.into();
                    seen = stamps;
                    tracing::info!(cert = %self.files.cert.display(), "the certificate was exchanged");
                }
                Ok(Err(error)) => {
                    // The two files are exchanged one after the other, so they are read again later.
                    tracing::warn!(%error, "the new certificate is not usable; the old one stays");
                }
                Err(error) => tracing::error!(%error, "the certificate could not be read"),
            }
        }
    }

    async fn stamps(self: &Arc<Self>) -> (Stamp, Stamp) {
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || stamps_of(&this.files)).await.unwrap_or_default()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}
