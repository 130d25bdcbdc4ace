//! A real QUIC connection on loopback whose timers wait on a timer.

use std::net::UdpSocket;
use std::sync::Arc;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, Runtime, ServerConfig,
    TokioRuntime,
};
use tickwheel::Timer;
use tickwheel::integration::quinn::TimerRuntime;

use super::{SECOND, manual};

fn endpoint(timer: &Timer, server: Option<ServerConfig>) -> Endpoint {
    let runtime: Arc<dyn Runtime> = Arc::new(TimerRuntime::new(timer, Arc::new(TokioRuntime)));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    Endpoint::new(EndpointConfig::default(), server, socket, runtime).unwrap()
}

struct Pair {
    client: Connection,
    server: Connection,
    _endpoints: [Endpoint; 2],
}

/// Connects a client to a server, both on this timer.
async fn connect(timer: &Timer) -> Pair {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let certificate = certified.cert.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();

    let server_config = ServerConfig::with_single_cert(vec![certificate], key.into()).unwrap();
    let server = endpoint(timer, Some(server_config));
    let mut client = endpoint(timer, None);
    client
        .set_default_client_config(ClientConfig::with_root_certificates(Arc::new(roots)).unwrap());

    let address = server.local_addr().unwrap();
    let accept = async { server.accept().await.unwrap().await.unwrap() };
    let connect = async { client.connect(address, "localhost").unwrap().await.unwrap() };
    let (accepted, connected) = tokio::join!(accept, connect);
    Pair { client: connected, server: accepted, _endpoints: [server, client] }
}

#[tokio::test]
async fn a_handshake_and_a_stream_work_on_a_running_timer() {
    let timer = Timer::new();
    let pair = connect(&timer).await;
    assert!(timer.pending() > 0, "no connection waits on the timer");

    let echo = async {
        let (mut send, mut receive) = pair.server.accept_bi().await.unwrap();
        let text = receive.read_to_end(100).await.unwrap();
        send.write_all(&text).await.unwrap();
        send.finish().unwrap();
    };
    let call = async {
        let (mut send, mut receive) = pair.client.open_bi().await.unwrap();
        send.write_all(b"hello").await.unwrap();
        send.finish().unwrap();
        receive.read_to_end(100).await.unwrap()
    };
    assert_eq!(tokio::join!(echo, call).1, b"hello");
}

#[tokio::test]
async fn idle_connections_time_out_by_the_timers_clock() {
    let (timer, clock) = manual();
    let pair = connect(&timer).await;
    assert!(pair.client.close_reason().is_none());
    // quinn's default idle timeout is 30 seconds, too long for a test.
    let advance = async {
        loop {
            clock.advance(SECOND);
            tokio::task::yield_now().await;
        }
    };
    let both = async { tokio::join!(pair.client.closed(), pair.server.closed()) };
    let (client, server) = tokio::select! {
        reasons = both => reasons,
        () = advance => unreachable!(),
    };
    assert_eq!(client, ConnectionError::TimedOut);
    assert_eq!(server, ConnectionError::TimedOut);
}
