//! The HTTP side of the commands: requests out, answers and problem documents in.
//!
//! Ground rules: only this module uses ureq. Every failure is a [`Failure`] that names the address.
//! Redirects are not followed: they would send the token to another address.

use std::fs;
use std::io::BufReader;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tickwheel_api::Problem;
use ureq::http::{Method, Request, Response, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, Timeout};

use crate::args::Connection;
use crate::failure::Failure;

/// The timeout of a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// The timeout of an answer, beyond the time that the server is asked to wait.
const ANSWER: Duration = Duration::from_secs(60);
/// The timeout of a silent stream: the server sends a sign of life every 15 seconds.
const SIGN_OF_LIFE: Duration = Duration::from_secs(60);
/// The largest answer, which is larger than a page of jobs with large payloads.
const LONGEST_ANSWER: u64 = 1 << 30;

const TOKEN_HINT: &str = "set TICKWHEEL_TOKEN to one, or give it with --token";

/// A server, as the commands see it.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    agent: Agent,
    /// Has no slash at its end.
    base: String,
    token: Option<String>,
}

impl Client {
    pub(crate) fn new(connection: &Connection) -> Result<Self, Failure> {
        let base = connection.url.trim_end_matches('/').to_owned();
        let host = check_url(&connection.url)?;
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT))
            .user_agent(concat!("tickwheel/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&host) {
            // A proxy cannot reach this machine's own addresses.
            config = config.proxy(None);
        }
        if let Some(path) = &connection.ca {
            config = config.tls_config(trusting(path)?);
        }
        if connection.token.as_deref().is_some_and(|token| !token.chars().all(is_of_token)) {
            return Err(Failure::Usage(
                "the token of --token or TICKWHEEL_TOKEN has characters that no token has; it \
                 begins with twk_, followed by letters, digits and an underscore"
                    .to_owned(),
            ));
        }
        let token = connection.token.clone().filter(|token| !token.is_empty());
        Ok(Self { agent: config.build().new_agent(), base, token })
    }

    /// Returns the same server without a token.
    pub(crate) fn without_token(&self) -> Self {
        Self { token: None, ..self.clone() }
    }

    /// Returns the address of the server, without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Returns `true` if the server is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        check_url(&self.base).is_ok_and(|host| is_loopback(&host))
    }

    pub(crate) fn get(&self, path: &Path) -> Result<Answer, Failure> {
        self.call(Method::GET, path, None::<&()>, &Extra::default())
    }

    pub(crate) fn delete(&self, path: &Path) -> Result<Answer, Failure> {
        self.call(Method::DELETE, path, None::<&()>, &Extra::default())
    }

    pub(crate) fn post(&self, path: &Path, body: &impl Serialize) -> Result<Answer, Failure> {
        self.call(Method::POST, path, Some(body), &Extra::default())
    }

    /// A request with what most of them do without.
    pub(crate) fn call(
        &self,
        method: Method,
        path: &Path,
        body: Option<&impl Serialize>,
        extra: &Extra,
    ) -> Result<Answer, Failure> {
        let mut request = self.request(method, path, extra);
        let patience = ANSWER + extra.wait;
        let bytes = match body {
            None => None,
            Some(body) => {
                request = request.header("content-type", "application/json");
                Some(serde_json::to_vec(body).map_err(|error| Failure::Other(error.to_string()))?)
            }
        };
        let response = match bytes {
            None => self.run(request.body(()), patience),
            Some(bytes) => self.run(request.body(bytes), patience),
        }?;
        self.answer(response)
    }

    /// Opens a stream of events.
    pub(crate) fn stream(
        &self,
        path: &Path,
        last_event: Option<&str>,
    ) -> Result<BufReader<impl std::io::Read + use<>>, Failure> {
        let accept = ("accept", "text/event-stream".to_owned());
        let last_event = last_event.map(|id| ("last-event-id", id.to_owned()));
        self.open(path, last_event.into_iter().chain([accept]).collect()).map(BufReader::new)
    }

    /// Opens an answer that is too large for memory, such as a backup.
    pub(crate) fn download(&self, path: &Path) -> Result<impl std::io::Read + use<>, Failure> {
        self.open(path, Vec::new())
    }

    fn open(
        &self,
        path: &Path,
        headers: Vec<(&'static str, String)>,
    ) -> Result<impl std::io::Read + use<>, Failure> {
        let extra = Extra { headers, ..Extra::default() };
        let request = self.request(Method::GET, path, &extra);
        let request = request.body(()).map_err(|error| Failure::Other(error.to_string()))?;
        let request = self
            .agent
            .configure_request(request)
            .timeout_recv_response(Some(ANSWER))
            .timeout_per_read(Some(SIGN_OF_LIFE))
            .build();
        let response = self.agent.run(request).map_err(|error| self.failure(error))?;
        if !response.status().is_success() {
            return Err(self
                .answer(response)
                .err()
                .unwrap_or_else(|| Failure::Other(format!("{} refused the stream", self.base))));
        }
        Ok(response.into_body().into_reader())
    }

    fn request(&self, method: Method, path: &Path, extra: &Extra) -> ureq::http::request::Builder {
        let mut request = Request::builder().method(method).uri(format!("{}{}", self.base, path.0));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in &extra.headers {
            request = request.header(*name, value);
        }
        request
    }

    fn run(
        &self,
        request: Result<Request<impl ureq::AsSendBody>, ureq::http::Error>,
        patience: Duration,
    ) -> Result<Response<Body>, Failure> {
        let request = request.map_err(|error| Failure::Other(format!("{}: {error}", self.base)))?;
        let request =
            self.agent.configure_request(request).timeout_recv_response(Some(patience)).build();
        self.agent.run(request).map_err(|error| self.failure(error))
    }

    /// Returns the JSON of an answer, or the problem document as a failure.
    fn answer(&self, mut response: Response<Body>) -> Result<Answer, Failure> {
        let status = response.status();
        let body = response.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec();
        let body = body.map_err(|error| self.failure(error))?;
        if status.is_success() {
            let text = String::from_utf8(body)
                .map_err(|_| self.not_ours("answers with something that is not text"))?;
            return Ok(Answer { url: self.base.clone(), text });
        }
        if status.is_redirection() {
            let to = response.headers().get("location").and_then(|to| to.to_str().ok());
            let to = to.unwrap_or("another place");
            return Err(self.not_ours(&format!("redirects to {to}; name that one with --url")));
        }
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => {
                let needs_token = problem.status == 401 && self.token.is_none();
                let hint = needs_token.then(|| TOKEN_HINT.to_owned());
                Err(Failure::refused(problem).with_hint(hint))
            }
            Err(_) => Err(self.not_ours(&format!("answers with {status} and no reason"))),
        }
    }

    fn not_ours(&self, what: &str) -> Failure {
        let what = crate::output::text::safe(what);
        Failure::Other(format!("{} {what}. Is it a tickwheel server?", self.base))
    }

    fn failure(&self, error: ureq::Error) -> Failure {
        let unreachable = |why: String| Failure::Unreachable { url: self.base.clone(), why };
        match error {
            // TLS failed: the certificate is not accepted, or the server does not speak TLS.
            ureq::Error::Io(error)
                if error.kind() == std::io::ErrorKind::InvalidData && self.is_tls() =>
            {
                self.untrusted(&error.to_string())
            }
            ureq::Error::Io(error) => unreachable(reason(&error)),
            ureq::Error::HostNotFound => unreachable("there is no such host".to_owned()),
            ureq::Error::ConnectionFailed => unreachable("the connection failed".to_owned()),
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
                unreachable(format!("no connection within {} s", CONNECT.as_secs()))
            }
            ureq::Error::Timeout(_) => {
                Failure::Other(format!("{} took too long to answer; try again", self.base))
            }
            ureq::Error::Protocol(error) => {
                let or_tls = if self.is_tls() { "" } else { " (or TLS, with https:// in --url)" };
                self.not_ours(&format!("does not speak HTTP{or_tls}: {error}"))
            }
            error => self.untrusted(&error.to_string()),
        }
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.base.starts_with("https:")
    }

    /// Returns the failure for a server with which no TLS connection can be made.
    fn untrusted(&self, why: &str) -> Failure {
        let remedy = if why.contains("InvalidContentType") {
            "it seems to speak no TLS: try http:// in --url or TICKWHEEL_URL"
        } else if why.contains("CaUsedAsEndEntity") {
            "its certificate is that of an authority, which a server cannot use: when making it with \
             `openssl req -x509`, add `-addext basicConstraints=critical,CA:FALSE`"
        } else {
            "a certificate that is not public, or its authority's, is given with --ca or TICKWHEEL_CA"
        };
        Failure::Other(format!("{} cannot be trusted: {why}\n  {remedy}", self.base))
    }
}

/// The unchanged answer of the server.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    url: String,
    /// Returns it as one document on one line.
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(&self.text).map_err(|error| {
            Failure::Other(format!(
                "the answer of {} cannot be read: {error}. Is its version the same as this one's \
                 ({})?",
                self.url,
                env!("CARGO_PKG_VERSION")
            ))
        })
    }
}

/// What most requests do without.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) headers: Vec<(&'static str, String)>,
    /// How long the server is asked to wait before it answers.
    pub(crate) wait: Duration,
}

/// The path of a request, with its query. User input is encoded, so that a queue named `a/../b`
/// stays one segment.
#[derive(Clone, Debug)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn new(segments: &[&str]) -> Self {
        let mut path = "/v1".to_owned();
        for segment in segments {
            path.push('/');
            // A segment of one or two dots would be removed on the way.
            if matches!(*segment, "." | "..") {
                path.push_str(&segment.replace('.', "%2E"));
            } else {
                encode(segment, &mut path);
            }
        }
        Self(path)
    }

    /// A path outside the versioned API, such as `readyz`.
    pub(crate) fn at_root(name: &str) -> Self {
        Self(format!("/{name}"))
    }

    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.0.push(if self.0.contains('?') { '&' } else { '?' });
        encode(name, &mut self.0);
        self.0.push('=');
        encode(value, &mut self.0);
        self
    }
}

fn encode(text: &str, into: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(byte.into());
        } else {
            into.push('%');
            into.push(HEX[usize::from(byte >> 4)].into());
            into.push(HEX[usize::from(byte & 15)].into());
        }
    }
}

/// Returns the host of an address, if a server can have it.
fn check_url(url: &str) -> Result<String, Failure> {
    let wrong = |why: &str| {
        Failure::Usage(format!(
            "the address {url:?} of --url or TICKWHEEL_URL {why}: it looks like \
             http://127.0.0.1:7300"
        ))
    };
    let uri: Uri = url.parse().map_err(|error| wrong(&format!("cannot be read ({error})")))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(wrong("begins with neither http:// nor https://"));
    }
    if uri.query().is_some() || url.contains('#') {
        return Err(wrong("has more than a host, a port and a path"));
    }
    uri.host()
        .filter(|host| !host.is_empty())
        .map(str::to_owned)
        .ok_or_else(|| wrong("names no host"))
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Returns `true` if a text can be a token. Nothing else may get into a header.
fn is_of_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn trusting(path: &std::path::Path) -> Result<TlsConfig, Failure> {
    let wrong = |why: String| Failure::Usage(format!("--ca {}: {why}", path.display()));
    let pem = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let certificates: Vec<Certificate<'static>> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
            Ok(_) => None,
            Err(error) => Some(Err(wrong(error.to_string()))),
        })
        .collect::<Result<_, _>>()?;
    if certificates.is_empty() {
        return Err(wrong("it contains no certificate: use a file in PEM format".to_owned()));
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&certificates)).build())
}

/// Returns the system's message in lower case and without its number.
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "the connection was refused".to_owned(),
        std::io::ErrorKind::ConnectionReset
        | std::io::ErrorKind::ConnectionAborted
        | std::io::ErrorKind::UnexpectedEof => "the connection broke off".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_typed_stays_one_segment() {
        let path = Path::new(&["queues", "a/../b?c", "keys", "order 42/ä"]);
        assert_eq!(path.0, "/v1/queues/a%2F..%2Fb%3Fc/keys/order%2042%2F%C3%A4");
        assert_eq!(Path::new(&["queues", ".."]).0, "/v1/queues/%2E%2E");
        let path = Path::new(&["x"]).query("a", "1&2").query("b", "=");
        assert_eq!(path.0, "/v1/x?a=1%262&b=%3D");
    }

    #[test]
    fn an_address_has_to_be_one() {
        for url in
            ["http://localhost:1", "https://jobs.example.org/tickwheel/", "http://[::1]:7300"]
        {
            assert!(check_url(url).is_ok(), "{url}");
        }
        for url in ["", "localhost:7300", "ftp://x", "http://", "http://x?y", "http://a b", "/v1"] {
            let failure = check_url(url).unwrap_err();
            assert_eq!(failure.code(), 2, "{url}");
            assert!(failure.to_string().contains("TICKWHEEL_URL"), "{failure}");
        }
    }

    #[test]
    fn loopback_is_known_by_its_names() {
        assert!(is_loopback("localhost") && is_loopback("127.0.0.9") && is_loopback("[::1]"));
        assert!(!is_loopback("example.org") && !is_loopback("10.0.0.1"));
    }
}
