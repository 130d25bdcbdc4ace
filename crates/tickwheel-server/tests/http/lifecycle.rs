//! Starting and stopping.

use std::time::{Duration, Instant};

use serde_json::json;
use tickwheel_server::{Server, StartError};

use crate::client::{Request, Service, config};

#[tokio::test]
async fn what_is_in_flight_is_answered_before_the_end() {
    let service = Service::start().await;
    service.put_text("q", "kept").await;
    let mut waiting = service.connect().await;
    let reserve = Request::new("POST", "/v1/queues/empty/reserve").json(&json!({"wait": "60s"}));
    waiting.write(&reserve.bytes()).await;
    let mut half = service.connect().await;
    let put = Request::new("POST", "/v1/queues/q/jobs").json(&json!({"text": "half"})).bytes();
    half.write(&put[..put.len() - 3]).await;
    let mut idle = service.connect().await;
    assert_eq!(idle.send(Request::new("GET", "/healthz")).await.status, 200);
    tokio::time::sleep(Duration::from_millis(100)).await;
    service.shutdown.begin();
    let answer = waiting.answer(false).await.unwrap();
    assert_eq!((answer.status, answer.json()), (200, json!({"deliveries": []})));
    idle.closed().await;
    half.write(&put[put.len() - 3..]).await;
    assert_eq!(half.answer(false).await.unwrap().status, 201);
    let service = Service::on(service.stop().await, |_| {}).await;
    assert_eq!(service.get("/v1/queues/q").await.json()["jobs"]["ready"], 2);
    service.stop().await;
}

#[tokio::test]
async fn a_second_signal_hurries() {
    let service = Service::start().await;
    let mut half = service.connect().await;
    let put = Request::new("POST", "/v1/queues/q/jobs").json(&json!({"text": "half"})).bytes();
    half.write(&put[..put.len() - 3]).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let started = Instant::now();
    service.shutdown.begin();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let folder = service.stop().await;
    assert!(started.elapsed() < Duration::from_secs(10));
    half.closed().await;
    let service = Service::on(folder, |_| {}).await;
    assert_eq!(service.get("/v1/queues").await.json(), json!({"queues": []}));
    service.stop().await;
}

#[tokio::test]
async fn whoever_takes_too_long_is_dropped_after_the_grace() {
    let service = Service::with(|config| config.shutdown_grace = Duration::from_millis(200)).await;
    let mut half = service.connect().await;
    half.write(b"POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n")
        .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    service.stop().await;
}

#[tokio::test]
async fn jobs_and_leases_survive_a_restart() {
    let service = Service::start().await;
    let id = service.put_text("q", "x").await;
    let (_, token) = service.reserve_one("q").await;
    let service = Service::on(service.stop().await, |_| {}).await;
    let acked = service.post(&format!("/v1/jobs/{id}/ack"), json!({"token": token})).await;
    assert_eq!(acked.status, 200);
    service.stop().await;
}

#[tokio::test]
async fn what_hinders_the_start_is_said() {
    let service = Service::start().await;
    let other = tempfile::tempdir().unwrap();
    let mut used = config(other.path());
    used.listen = service.address;
    let error = Server::bind(used).await.unwrap_err();
    assert!(matches!(error, StartError::Listen(..)));
    assert!(error.to_string().contains("is in use"), "{error}");
    let locked = Server::bind(config(service.folder.path())).await.unwrap_err();
    assert!(matches!(locked, StartError::Queue(_)), "{locked}");
    assert!(locked.to_string().contains("is open already"), "{locked}");
    std::fs::write(other.path().join("tokens.json"), "nonsense").unwrap();
    let damaged = Server::bind(config(other.path())).await.unwrap_err();
    assert!(matches!(damaged, StartError::Tokens(_)), "{damaged}");
    let file = other.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(Server::bind(config(&file.join("data"))).await.is_err());
    service.stop().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_data_directory_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let mode = |name: &str| {
        std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777
    };
    drop(Server::bind(config(&folder.path().join("new"))).await.unwrap());
    assert_eq!(mode("new"), 0o700);
    // One that is there stays as it is.
    std::fs::create_dir(folder.path().join("old")).unwrap();
    let before = mode("old");
    drop(Server::bind(config(&folder.path().join("old"))).await.unwrap());
    assert_eq!(mode("old"), before);
}
