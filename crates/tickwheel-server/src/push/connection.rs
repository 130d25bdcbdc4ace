//! Connections to targets: resolving, checking, dialling, TLS, and a pool of idle ones.
//!
//! Ground rules:
//! * This is the one place that dials. A name is resolved once for a connection, every address is
//!   checked, and only addresses that passed are dialled. So no second look-up can bring another
//!   address. The address of the other side is checked once more when the connection stands.
//! * An address literal, in any notation, is a name that is resolved like others.
//! * Proxies of the environment are not used.
//! * A connection that was idle may have been closed by the other side. A request that was not
//!   written to it is sent on another one.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::allow::{Denied, PushAllow};
use super::definition::Definition;
use super::exchange::{Head, Outgoing, Stream, Wire};
use super::response::{Answer, NoAnswer};
use super::why::Why;
use crate::api::TargetCauseCode;

/// How long an idle connection is used again.
const MAX_IDLE: Duration = Duration::from_secs(30);
/// How often idle connections are looked at.
const IDLE_CHECK: Duration = Duration::from_secs(1);

type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
/// How names become addresses.
pub(super) type Resolve = Arc<dyn Fn(String, u16) -> Resolving + Send + Sync>;

/// The resolver of the operating system.
pub(super) fn system_resolver() -> Resolve {
    Arc::new(|host, port| {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    })
}

/// A client for certificates that chain to one of these roots.
pub(super) fn tls_client(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let config = ClientConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// A client for certificates of the public authorities.
pub(crate) fn tls_client_for_the_web() -> Result<Arc<ClientConfig>, String> {
    tls_client(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect())
}

/// The moment at which a request starts.
pub(super) trait Start {
    /// Called when a connection is ready, right before the request is written.
    fn start(&mut self) -> impl Future<Output = Result<Outgoing, NoAnswer>> + Send;

    /// Returns whether the request may still be written.
    fn may_begin(&self) -> bool;

    /// The first bytes were written.
    fn written(&mut self);

    /// The answer has begun, so the request has arrived.
    fn answered(&mut self);

    /// Nothing was written after all, and the request starts again.
    fn undo(&mut self);
}

/// Makes connections. Shared by all targets.
pub(super) struct Connector {
    allow: PushAllow,
    resolve: Resolve,
    /// One permit for each connection, of all targets together.
    permits: Arc<Semaphore>,
    /// This many permits are kept for the first connections of targets.
    spare: usize,
    /// The pools of all targets: idle connections give way when no permit is left.
    pools: Mutex<Vec<Weak<Pool>>>,
}

/// A connection that can take a request.
pub(super) struct Connection {
    wire: Wire,
    address: SocketAddr,
    idle_since: Instant,
    /// The generation of its pool.
    generation: u64,
    _permit: OwnedSemaphorePermit,
}

impl Connector {
    pub(super) fn new(allow: PushAllow, resolve: Resolve, connections: usize) -> Self {
        let permits = Arc::new(Semaphore::new(connections));
        Self { allow, resolve, permits, spare: connections / 8, pools: Mutex::default() }
    }

    async fn connect(
        &self,
        definition: &Definition,
        generation: u64,
    ) -> Result<Connection, NoAnswer> {
        let endpoint = &definition.endpoint;
        if self.permits.available_permits() == 0 {
            self.close_idle();
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit =
            permit.map_err(|_| NoAnswer::Unreachable(Why::other("the server is stopping")))?;
        let (stream, address) =
            self.dial(&endpoint.host, endpoint.port).await.map_err(NoAnswer::Unreachable)?;
        let _ = stream.set_nodelay(true);
        let stream = if endpoint.is_tls {
            let untrusted = |why: String| {
                NoAnswer::Unreachable(Why::new(TargetCauseCode::Tls, &*why, format!("TLS: {why}")))
            };
            let name = ServerName::try_from(endpoint.host.clone())
                .map_err(|_| untrusted(format!("{:?} is no name for TLS", endpoint.host)))?;
            let connector = TlsConnector::from(Arc::clone(&definition.tls));
            let stream = connector.connect(name, stream).await;
            Stream::Tls(Box::new(stream.map_err(|error| untrusted(error.to_string()))?))
        } else {
            Stream::Plain(stream)
        };
        let wire = Wire::new(stream);
        let idle_since = Instant::now();
        Ok(Connection { wire, address, idle_since, generation, _permit: permit })
    }

    /// Returns whether almost all connections that are allowed are in use or idle. Targets then keep
    /// to one connection each. Otherwise their second ones would close the first ones of others.
    pub(super) fn is_crowded(&self) -> bool {
        self.permits.available_permits() <= self.spare
    }

    /// Makes the pool of a target.
    pub(super) fn pool(&self) -> Arc<Pool> {
        let pool = Arc::new(Pool::default());
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&pool));
        pool
    }

    /// Closes those idle connections of all targets that were not used for the longest time: one in
    /// 16, so that not every connection that is made has to look for one.
    fn close_idle(&self) {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pools: Vec<_> = pools.iter().filter_map(Weak::upgrade).collect();
        let mut since: Vec<Instant> = Vec::new();
        for pool in &pools {
            since.extend(pool.idle().connections.iter().map(|it| it.idle_since));
        }
        since.sort_unstable();
        let Some(last) = since.get(since.len() / 16) else { return };
        for pool in &pools {
            pool.idle().connections.retain(|it| it.idle_since > *last);
        }
    }

    /// Resolves, checks and dials.
    async fn dial(&self, host: &str, port: u16) -> Result<(TcpStream, SocketAddr), Why> {
        let unresolved = |text: String| Why::new(TargetCauseCode::Unresolved, host, text);
        let check = |ip: IpAddr| {
            let denied = |denied: Denied| {
                Why::new(TargetCauseCode::Denied, ip.to_string(), denied.to_string())
            };
            self.allow.allows(host, ip).map_err(denied)
        };
        let found = (self.resolve)(host.to_owned(), port).await;
        let found =
            found.map_err(|error| unresolved(format!("{host} cannot be resolved: {error}")))?;
        let mut failure = unresolved(format!("{host} has no address"));
        for address in found {
            let unreachable = |error: io::Error| {
                let text = format!("{address} cannot be connected to: {error}");
                Why::new(TargetCauseCode::Unreachable, format!("{address}: {error}"), text)
            };
            let dialled = match check(address.ip()) {
                Ok(()) => TcpStream::connect(address).await.map_err(unreachable),
                Err(why) => Err(why),
            };
            let checked = dialled.and_then(|stream| {
                let peer = stream.peer_addr().map_err(unreachable)?;
                check(peer.ip())?;
                Ok((stream, peer))
            });
            match checked {
                Ok(connected) => return Ok(connected),
                Err(why) => failure = why,
            }
        }
        Err(failure)
    }
}

/// The idle connections of one target.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    connections: Vec<Connection>,
    checked: Option<Instant>,
    /// Grows when the target changes: older connections lead to where it was before.
    generation: u64,
}

/// The connection that a lane keeps for its next request.
#[derive(Default)]
pub(super) struct Kept {
    connection: Option<Connection>,
    /// The generation of the pool when the definition of the target was read, or before.
    generation: u64,
}

impl Kept {
    fn take(&mut self) -> Option<Connection> {
        let mut connection = self.connection.take()?;
        let is_usable = connection.generation == self.generation && connection.wire.is_idle();
        is_usable.then_some(connection)
    }
}

/// How far an exchange has come.
#[derive(Default)]
struct Progress {
    address: Option<SocketAddr>,
    head: Option<Head>,
    body: BytesMut,
}

impl Pool {
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of a generation that was used last, if it may still be open.
    fn take(&self, generation: u64) -> Option<Connection> {
        let mut idle = self.idle();
        if idle.generation != generation {
            return None;
        }
        while let Some(mut connection) = idle.connections.pop() {
            if connection.idle_since.elapsed() < MAX_IDLE && connection.wire.is_idle() {
                return Some(connection);
            }
        }
        None
    }

    /// Notes that the definition of the target is about to be read for the next request.
    pub(super) fn prepare(&self, kept: &mut Kept) {
        kept.generation = self.idle().generation;
    }

    /// Takes over the connection that a lane has kept.
    pub(super) fn take_over(&self, kept: Kept) {
        if let Some(connection) = kept.connection {
            self.put_back(connection);
        }
    }

    fn put_back(&self, mut connection: Connection) {
        connection.idle_since = Instant::now();
        let mut idle = self.idle();
        if connection.generation == idle.generation {
            idle.connections.push(connection);
        }
    }

    /// Closes connections that were idle for long, and those that the other side has closed.
    pub(super) fn close_idle(&self) {
        let mut idle = self.idle();
        if idle.checked.is_none_or(|checked| checked.elapsed() >= IDLE_CHECK) {
            idle.connections
                .retain_mut(|it| it.idle_since.elapsed() < MAX_IDLE && it.wire.is_idle());
            idle.checked = Some(Instant::now());
        }
    }

    /// Closes all idle connections.
    pub(super) fn clear(&self) {
        self.idle().connections.clear();
    }

    /// Uses no connection again that was made before: the target has changed.
    pub(super) fn renew(&self) {
        let mut idle = self.idle();
        idle.generation += 1;
        idle.connections.clear();
    }

    /// Sends a request and reads the answer, until the deadline: on the connection that was `kept`,
    /// which is kept again if it can take another request. Returns the address that was dialled as
    /// well. The status counts, also if the body ends early or late.
    pub(super) async fn send(
        &self,
        connector: &Connector,
        definition: &Definition,
        deadline: tokio::time::Instant,
        start: &mut impl Start,
        kept: &mut Kept,
    ) -> (Option<SocketAddr>, Result<Answer, NoAnswer>) {
        let mut progress = Progress::default();
        let exchange = self.exchange(connector, definition, start, &mut progress, kept);
        let outcome = tokio::time::timeout_at(deadline, exchange).await;
        let answer = match (progress.head, outcome) {
            (Some(Head { status, headers, .. }), _) => {
                Ok(Answer { status, headers, body: progress.body.freeze() })
            }
            (None, Ok(Err(error))) => Err(error),
            (None, _) => {
                let timeout = format!("{:?}", definition.timeout);
                let text = format!("no answer within {timeout}");
                Err(NoAnswer::Unreachable(Why::new(TargetCauseCode::Timeout, timeout, text)))
            }
        };
        (progress.address, answer)
    }

    async fn exchange(
        &self,
        connector: &Connector,
        definition: &Definition,
        start: &mut impl Start,
        progress: &mut Progress,
        kept: &mut Kept,
    ) -> Result<(), NoAnswer> {
        loop {
            let (mut connection, is_new) = match kept.take().or_else(|| self.take(kept.generation))
            {
                Some(connection) => (connection, false),
                None => (connector.connect(definition, kept.generation).await?, true),
            };
            progress.address = Some(connection.address);
            let request = start.start().await?;
            let begun = connection.wire.begin(&request, || start.may_begin()).await;
            let written = match begun {
                Ok(Some(written)) => written,
                Ok(None) => {
                    start.undo();
                    self.put_back(connection);
                    continue;
                }
                Err(error) => {
                    start.undo();
                    if is_new {
                        return Err(disconnected(&error));
                    }
                    // The connection was closed while it was idle.
                    continue;
                }
            };
            start.written();
            let head = connection.wire.finish(&request, written).await;
            let head = head.map_err(|error| disconnected(&error))?;
            start.answered();
            let head = progress.head.insert(head);
            if connection.wire.read_body(head, &mut progress.body).await {
                kept.connection = Some(connection);
            }
            return Ok(());
        }
    }
}

/// The connection ended before the answer.
fn disconnected(error: &dyn std::fmt::Display) -> NoAnswer {
    let text = format!("no answer: {error}");
    NoAnswer::Unreachable(Why::new(TargetCauseCode::Disconnected, error.to_string(), text))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    use super::super::definition::StoredDefinition;
    use super::super::signature::Secret;
    use super::*;
    use crate::api::TargetSettings;

    struct Plain(u32);

    impl Start for Plain {
        async fn start(&mut self) -> Result<Outgoing, NoAnswer> {
            self.0 += 1;
            Ok(Outgoing { head: b"GET / HTTP/1.1\r\n\r\n".to_vec(), lines: 18, body: Bytes::new() })
        }

        fn may_begin(&self) -> bool {
            true
        }

        fn written(&mut self) {}

        fn answered(&mut self) {}

        fn undo(&mut self) {}
    }

    fn definition(settings: TargetSettings) -> Definition {
        let stored = StoredDefinition::new(settings, Secret::random(0).unwrap());
        Definition::new(&stored, &tls_client_for_the_web().unwrap()).unwrap()
    }

    /// Resolves every name to the given addresses, the next ones each time.
    fn resolver(answers: Vec<Vec<SocketAddr>>) -> (Resolve, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let resolve: Resolve = Arc::new(move |_, _| {
            let time = count.fetch_add(1, Ordering::Relaxed);
            let answer = answers[time.min(answers.len() - 1)].clone();
            Box::pin(async move { Ok(answer) })
        });
        (resolve, asked)
    }

    async fn send(connector: &Connector, settings: TargetSettings) -> Result<Answer, NoAnswer> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        let mut start = Plain(0);
        let definition = definition(settings);
        Pool::default()
            .send(connector, &definition, deadline, &mut start, &mut Kept::default())
            .await
            .1
    }

    /// Counts connections, and answers 204 to each request.
    async fn target() -> (SocketAddr, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let connections = Arc::clone(&count);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let mut request = [0; 4096];
                    while stream.read(&mut request).await.is_ok_and(|length| length > 0) {
                        let _ = stream.write_all(b"HTTP/1.1 204 X\r\n\r\n").await;
                    }
                });
            }
        });
        (address, count)
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_a_private_address_is_not_dialled() {
        let (address, connections) = target().await;
        let (resolve, _) = resolver(vec![vec![address]]);
        let connector = Connector::new(PushAllow::default(), resolve, 4);
        let refused = send(&connector, TargetSettings::new("http://partner.example/")).await;
        let Err(NoAnswer::Unreachable(why)) = refused else { panic!("{refused:?}") };
        assert!(why.text.contains("127.0.0.1 is a loopback address"), "{why:?}");
        let cause = why.cause.unwrap();
        assert_eq!((cause.code, &*cause.detail), (TargetCauseCode::Denied, "127.0.0.1"));
        assert_eq!(connections.load(Ordering::Relaxed), 0);
    }

    /// The first look-up gives an allowed address, all others a private one: the address that was
    /// checked is the one that is dialled, so a name that changes in between gains nothing.
    #[tokio::test]
    async fn a_name_is_resolved_once_for_a_connection() {
        let ((allowed, connections), (private, others)) = (target().await, target().await);
        let (resolve, asked) = resolver(vec![vec![allowed], vec![private]]);
        let connector = Connector::new("127.0.0.1".parse().unwrap(), resolve, 4);
        let answer = send(&connector, TargetSettings::new("http://partner.example/")).await;
        assert_eq!(answer.unwrap().status, 204);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!((connections.load(Ordering::Relaxed), others.load(Ordering::Relaxed)), (1, 0));
    }

    #[tokio::test]
    async fn only_addresses_that_pass_are_dialled() {
        let (allowed, connections) = target().await;
        let denied = SocketAddr::from(([10, 255, 255, 1], 80));
        let (resolve, _) = resolver(vec![vec![denied, allowed]]);
        let connector = Connector::new("127.0.0.1".parse().unwrap(), resolve, 4);
        let answer = send(&connector, TargetSettings::new("http://partner.example/")).await;
        assert_eq!(answer.unwrap().status, 204);
        assert_eq!(connections.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_connection_is_used_again_and_a_closed_one_replaced() {
        let (address, connections) = target().await;
        let (resolve, _) = resolver(vec![vec![address]]);
        let connector = Connector::new("127.0.0.1".parse().unwrap(), resolve, 4);
        let definition = definition(TargetSettings::new("http://partner.example/"));
        let pool = Pool::default();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        let mut start = Plain(0);
        for _ in 0..3 {
            let mut kept = Kept::default();
            let (at, answer) =
                pool.send(&connector, &definition, deadline, &mut start, &mut kept).await;
            pool.take_over(kept);
            assert_eq!((at, answer.unwrap().status.as_u16()), (Some(address), 204));
        }
        assert_eq!(connections.load(Ordering::Relaxed), 1);
        pool.clear();
        let mut kept = Kept::default();
        pool.send(&connector, &definition, deadline, &mut start, &mut kept).await.1.unwrap();
        pool.take_over(kept);
        assert_eq!((connections.load(Ordering::Relaxed), start.0), (2, 4));
    }

    #[tokio::test]
    async fn idle_connections_of_others_give_way() {
        let (address, connections) = target().await;
        let (resolve, _) = resolver(vec![vec![address]]);
        let connector = Connector::new("127.0.0.1".parse().unwrap(), resolve, 1);
        let definition = definition(TargetSettings::new("http://partner.example/"));
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        let pools = [connector.pool(), connector.pool(), connector.pool()];
        for pool in &pools {
            let mut start = Plain(0);
            let mut kept = Kept::default();
            let answer =
                pool.send(&connector, &definition, deadline, &mut start, &mut kept).await.1;
            pool.take_over(kept);
            assert_eq!(answer.unwrap().status, 204);
        }
        assert_eq!(connections.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn certificates_are_verified() {
        let made = rcgen::generate_simple_self_signed(["partner.example".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    let _ = stream.read(&mut [0; 4096]).await;
                    let _ = stream.write_all(b"HTTP/1.1 204 X\r\n\r\n").await;
                    let _ = stream.flush().await;
                }
            }
        });
        let (resolve, _) = resolver(vec![vec![address]]);
        let connector = Connector::new("127.0.0.1".parse().unwrap(), resolve, 4);
        let unknown = send(&connector, TargetSettings::new("https://partner.example/")).await;
        assert!(
            matches!(unknown, Err(NoAnswer::Unreachable(why)) if why.text.starts_with("TLS: "))
        );
        let ca = Some(made.cert.pem());
        let other =
            TargetSettings { ca: ca.clone(), ..TargetSettings::new("https://other.example/") };
        let wrong_name = send(&connector, other).await;
        assert!(
            matches!(wrong_name, Err(NoAnswer::Unreachable(why)) if why.text.starts_with("TLS: "))
        );
        let trusted = TargetSettings { ca, ..TargetSettings::new("https://partner.example/") };
        assert_eq!(send(&connector, trusted).await.unwrap().status, 204);
    }
}
