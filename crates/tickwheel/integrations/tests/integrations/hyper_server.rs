//! A real HTTP/1 server whose timeout for request heads waits on a timer.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tickwheel::Timer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{SECOND, manual, until};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"hello"))))
}

/// Serves one connection, and gives each request head 30 seconds.
async fn serve_one(timer: &Timer) -> (TcpStream, JoinHandle<hyper::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let connection = http1::Builder::new()
        .timer(timer.clone())
        .header_read_timeout(30 * SECOND)
        .serve_connection(TokioIo::new(server), service_fn(hello));
    (client, tokio::spawn(connection))
}

async fn read_response(client: &mut TcpStream) -> String {
    let mut response = Vec::new();
    while !response.ends_with(b"hello") {
        assert_ne!(client.read_buf(&mut response).await.unwrap(), 0, "the server hung up");
    }
    String::from_utf8(response).unwrap()
}

#[tokio::test]
async fn a_slow_request_head_is_cut_off_at_its_deadline() {
    let (timer, clock) = manual();
    let (mut client, server) = serve_one(&timer).await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
    until(|| timer.pending() == 1).await;
    clock.advance(30 * SECOND);

    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(!rest.starts_with(b"HTTP/1.1 200"));
    assert!(server.await.unwrap().unwrap_err().is_timeout());
    assert_eq!(timer.pending(), 0);
}

#[tokio::test]
async fn each_request_on_a_connection_has_its_full_time() {
    let (timer, clock) = manual();
    let (mut client, server) = serve_one(&timer).await;
    for _ in 0..3 {
        until(|| timer.pending() == 1).await;
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
        // Together that is far more than 30 seconds.
        clock.advance(29 * SECOND);
        client.write_all(b"\r\n").await.unwrap();
        assert!(read_response(&mut client).await.starts_with("HTTP/1.1 200"));
    }
    drop(client);
    let _ = server.await.unwrap();
    assert_eq!(timer.pending(), 0, "a closed connection leaves its timer");
}

#[test]
fn a_deadline_moves_without_another_sleep() {
    use hyper::rt::Timer as _;

    let (timer, clock) = manual();
    let dynamic: &dyn hyper::rt::Timer = &timer;
    let mut sleep = dynamic.sleep(SECOND);
    let first = std::ptr::from_ref(&*sleep).cast::<()>();
    dynamic.reset(&mut sleep, dynamic.now() + 5 * SECOND);
    assert_eq!(std::ptr::from_ref(&*sleep).cast::<()>(), first);

    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    clock.advance(4 * SECOND);
    assert!(sleep.as_mut().poll(&mut context).is_pending());
    clock.advance(SECOND);
    assert!(sleep.as_mut().poll(&mut context).is_ready());
    assert_eq!(timer.now(), clock.now());
}
