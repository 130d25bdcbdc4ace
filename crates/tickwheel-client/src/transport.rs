//! One request at a time: sent, repeated while that is safe, and read.
//!
//! Ground rules:
//! * A request that was refused with 429 or 503 changed nothing, so it is repeated after the time
//!   that `Retry-After` names. The exception is `outcome-unknown`.
//! * A request that may have arrived is repeated only if repeating it is harmless: it reads, or it
//!   carries an idempotency key, or it sets something to a value.
//! * Repeating ends when the client's patience is over; the last error is returned.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tickwheel_api::{Code, Problem};
use tokio::time::{Instant, sleep, timeout};

use crate::error::Error;
use crate::testing::FakeServer;

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a server may take for an answer, beyond the time that it was asked to wait.
const ANSWER: Duration = Duration::from_secs(60);
/// The first pause before a request is repeated, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// A request, before it is known how often it is sent.
pub(crate) struct Call {
    method: Method,
    /// With the query.
    path: String,
    body: Bytes,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// How long the server was asked to wait before it answers.
    wait: Duration,
    /// Whether a second execution does no harm.
    repeatable: bool,
    /// Whether the request is sent only once, whatever happens.
    single: bool,
}

impl Call {
    /// Returns a request that reads, or sets something to a value: it can be repeated.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        let (body, headers, wait) = (Bytes::new(), Vec::new(), Duration::ZERO);
        Self { method, path: path.into(), body, headers, wait, repeatable: true, single: false }
    }

    /// Forbids every repetition: the caller wants the first answer.
    pub(crate) fn single(mut self) -> Self {
        self.single = true;
        self
    }

    /// Sets the body, as JSON.
    pub(crate) fn json(mut self, body: &impl Serialize) -> Result<Self, Error> {
        let json = serde_json::to_vec(body).map_err(|error| Error::Invalid(error.to_string()))?;
        self.body = json.into();
        self.headers.push((CONTENT_TYPE, HeaderValue::from_static("application/json")));
        Ok(self)
    }

    /// Sets an idempotency key, which makes the request repeatable.
    pub(crate) fn idempotent(mut self, key: &str) -> Result<Self, Error> {
        let value = HeaderValue::from_str(key).map_err(|_| {
            Error::Invalid(format!("{key:?} cannot be an idempotency key: use visible ASCII"))
        })?;
        self.headers.push((HeaderName::from_static("idempotency-key"), value));
        self.repeatable = true;
        Ok(self)
    }

    /// Forbids to repeat the request after it may have been carried out: a second execution would have
    /// another effect.
    pub(crate) fn once(mut self) -> Self {
        self.repeatable = false;
        self
    }

    /// Sets how long the server may wait before it answers.
    pub(crate) fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((HeaderName::from_static(name), value));
        }
        self
    }
}

/// How an attempt failed.
struct Failed {
    error: Error,
    repeat: Repeat,
}

/// Whether a request can be sent again after it failed.
enum Repeat {
    /// It was not executed, and the server may have asked for a pause.
    After(Duration),
    /// It may have been executed.
    IfHarmless,
    /// The answer would be the same.
    Never,
}

/// The attempts of one call, with growing pauses between them.
struct Repeats<'a> {
    call: &'a Call,
    start: Instant,
    patience: Duration,
    pause: Duration,
}

impl<'a> Repeats<'a> {
    fn new(call: &'a Call, patience: Duration) -> Self {
        let patience = patience.saturating_add(call.wait);
        Self { call, start: Instant::now(), patience, pause: PAUSES.0 }
    }

    /// Waits until the next attempt may be made; gives the error back if there is to be none.
    async fn wait(&mut self, failed: Failed) -> Result<(), Error> {
        let jittered = self.pause.mul_f64(0.5 + fastrand::f64());
        let wait = match failed.repeat {
            _ if self.call.single => return Err(failed.error),
            Repeat::After(wanted) => jittered.max(wanted),
            Repeat::IfHarmless if self.call.repeatable => jittered,
            Repeat::IfHarmless | Repeat::Never => return Err(failed.error),
        };
        // A server may ask for any pause, and a caller may have any patience.
        if self.start.elapsed().saturating_add(wait) > self.patience {
            return Err(failed.error);
        }
        tracing::debug!(error = %failed.error, ?wait, path = self.call.path, "repeating a request");
        sleep(wait).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        Ok(())
    }
}

/// Returns settings of TLS that trust only the certificates of a PEM file.
fn trusting(pem: &[u8]) -> Result<ClientConfig, Error> {
    let wrong = |why: String| Error::Invalid(format!("the certificates to trust: {why}"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("there is none: use certificates in PEM format".to_owned()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| wrong(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

pub(crate) struct Transport {
    /// Answers instead of a server.
    fake: Option<Arc<FakeServer>>,
    http: HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Without a slash at its end.
    url: String,
    authorization: Option<HeaderValue>,
    patience: Duration,
}

impl Transport {
    pub(crate) fn new(
        url: &str,
        token: Option<&str>,
        patience: Duration,
        ca: Option<&[u8]>,
    ) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Invalid(format!("{url:?} is no address of a server: {why}"));
        let uri: hyper::Uri = url.parse().map_err(|_| wrong("write http://host:port"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(wrong("write http://host:port or https://host:port"));
        }
        let authorization = match token.filter(|token| !token.is_empty()) {
            None => None,
            Some(token) => {
                let mut value =
                    HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
                        Error::Invalid("the token has characters that no token has".to_owned())
                    })?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let tls = match ca {
            None => HttpsConnectorBuilder::new().with_webpki_roots(),
            Some(pem) => HttpsConnectorBuilder::new().with_tls_config(trusting(pem)?),
        };
        let connector = tls.https_or_http().enable_http1().wrap_connector(tcp);
        let http = HttpClient::builder(TokioExecutor::new()).build(connector);
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { fake: None, http, url, authorization, patience })
    }

    /// Lets a fake answer all requests.
    pub(crate) fn with_fake(mut self, fake: Arc<FakeServer>) -> Self {
        self.fake = Some(fake);
        self
    }

    /// Sends a request until it is answered, and reads the answer.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        let mut repeats = Repeats::new(&call, self.patience);
        loop {
            match self.answer(&call).await {
                Ok(body) => {
                    let answer = serde_json::from_slice(&body);
                    return answer.map_err(|error| Error::Answer(error.to_string()));
                }
                Err(failed) => repeats.wait(failed).await?,
            }
        }
    }

    /// Sends a request until it succeeds; gives the body, which still has to be read.
    pub(crate) async fn stream(&self, call: &Call) -> Result<Incoming, Error> {
        if self.fake.is_some() {
            return Err(Error::Invalid(format!("the fake does not have {}", call.path)));
        }
        let mut repeats = Repeats::new(call, self.patience);
        loop {
            match self.attempt(call).await {
                Ok(response) => return Ok(response.into_body()),
                Err(failed) => repeats.wait(failed).await?,
            }
        }
    }

    /// Sends a request once, and reads the whole answer.
    async fn answer(&self, call: &Call) -> Result<Bytes, Failed> {
        if let Some(fake) = &self.fake {
            let header = |name: &str| {
                let found = call.headers.iter().find(|(key, _)| key == name);
                found.and_then(|(_, value)| value.to_str().ok())
            };
            let key = header("idempotency-key");
            let answer = fake.answer(call.method.as_str(), &call.path, key, &call.body).await;
            return answer.map(Bytes::from).map_err(|problem| Failed {
                error: Error::Refused(problem),
                repeat: Repeat::Never,
            });
        }
        let body = self.attempt(call).await?.into_body();
        let error = match timeout(ANSWER, body.collect()).await {
            Ok(Ok(body)) => return Ok(body.to_bytes()),
            Ok(Err(error)) => self.unreachable(&error),
            Err(_) => self.too_late(ANSWER),
        };
        Err(Failed { error, repeat: Repeat::IfHarmless })
    }

    async fn attempt(&self, call: &Call) -> Result<Response<Incoming>, Failed> {
        let uri = format!("{}{}", self.url, call.path);
        let agent = concat!("tickwheel-client/", env!("CARGO_PKG_VERSION"));
        let mut request =
            Request::builder().method(&call.method).uri(uri).header(USER_AGENT, agent);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(call.body.clone())).map_err(|error| Failed {
            error: Error::Invalid(error.to_string()),
            repeat: Repeat::Never,
        })?;
        let response =
            match timeout(ANSWER.saturating_add(call.wait), self.http.request(request)).await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => {
                    let is_unsent = error.is_connect();
                    let repeat =
                        if is_unsent { Repeat::After(Duration::ZERO) } else { Repeat::IfHarmless };
                    return Err(Failed { error: self.unreachable(&error), repeat });
                }
                Err(_) => {
                    let error = self.too_late(ANSWER.saturating_add(call.wait));
                    return Err(Failed { error, repeat: Repeat::IfHarmless });
                }
            };
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.refusal(response).await)
        }
    }

    /// Reads why the server refused a request.
    async fn refusal(&self, response: Response<Incoming>) -> Failed {
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER);
        let seconds = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = seconds.map(Duration::from_secs).unwrap_or_default();
        let body = match response.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => {
                let error = self.unreachable(&error);
                return Failed { error, repeat: Repeat::IfHarmless };
            }
        };
        let Ok(problem) = serde_json::from_slice::<Problem>(&body) else {
            let text: String = String::from_utf8_lossy(&body).chars().take(200).collect();
            let error = Error::Answer(format!("status {status}: {text:?}"));
            // Something between client and server answered, such as a proxy.
            let is_down = matches!(status, 502..=504);
            return Failed {
                error,
                repeat: if is_down { Repeat::IfHarmless } else { Repeat::Never },
            };
        };
        let repeat = match (status, problem.code) {
            (_, Code::OutcomeUnknown) => Repeat::IfHarmless,
            (429 | 503, code) if code != Code::Full => Repeat::After(retry_after),
            _ => Repeat::Never,
        };
        Failed { error: Error::Refused(Box::new(problem)), repeat }
    }

    fn too_late(&self, limit: Duration) -> Error {
        let why = format!("nothing came within {limit:?}");
        Error::Unreachable { url: self.url.clone(), why }
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> Error {
        // hyper's own text is "client error (Connect)"; the reason is in the sources of the error.
        let mut why = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            why = format!("{why}: {error}");
            source = error.source();
        }
        Error::Unreachable { url: self.url.clone(), why }
    }
}
