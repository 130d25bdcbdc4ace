//! Starting and stopping.

use std::time::Duration;

use serde_json::json;
use tickwheel_server::{Server, StartError};
use tokio::net::TcpStream;

use crate::client::{Answer, Client, PATIENCE, Request, Service, config};

#[tokio::test]
async fn what_is_in_flight_is_answered_before_the_end() {
    let service = Service::start().await;
    service.put_text("q", "kept").await;
    let mut waiting = service.connect().await;
    let reserve = Request::new("POST", "/v1/queues/empty/reserve").json(&json!({"wait": "60s"}));
    waiting.write(&reserve.bytes()).await;
    let (mut reading, headers) = stalled(&service).await;
    service.in_flight(1).await;
    service.shutdown.begin();
    let answer = waiting.answer(false).await.unwrap();
    assert_eq!((answer.status, answer.json()), (200, json!({"deliveries": []})));
    let page = reading.rest(200, headers, false).await.json();
    assert!(page["jobs"].as_array().is_some_and(|jobs| !jobs.is_empty()));
    let service = Service::on(service.stop().await, |_| {}).await;
    assert_eq!(service.get("/v1/queues/q").await.json()["jobs"]["ready"], 1);
    service.stop().await;
}

/// Returns a client that has requested more than the connection's buffers hold, and does not read
/// it yet.
async fn stalled(service: &Service) -> (Client<TcpStream>, Vec<(String, String)>) {
    for _ in 0..16 {
        let job = json!({"text": "x".repeat(1_000_000), "delay": "1h"});
        assert_eq!(service.post("/v1/queues/large/jobs", job).await.status, 201);
    }
    let mut client = service.connect().await;
    client.write(&Request::new("GET", "/v1/queues/large/jobs").bytes()).await;
    let (status, headers) = client.head().await.expect("an answer");
    assert_eq!(status, 200);
    (client, headers)
}

#[tokio::test]
async fn whoever_waits_for_its_client_does_not_delay_the_end() {
    let service = Service::start().await;
    let silent = service.connect().await;
    let mut idle = service.connect().await;
    assert_eq!(idle.send(Request::new("GET", "/healthz")).await.status, 200);
    let mut half_head = service.connect().await;
    half_head.write(b"GET /healthz HTTP/1.1\r\nhost: lo").await;
    let mut half_body = service.connect().await;
    let put = Request::new("POST", "/v1/queues/q/jobs").json(&json!({"text": "half"})).bytes();
    half_body.write(&put[..put.len() - 3]).await;
    service.in_flight(1).await;
    service.shutdown.begin();
    let refused = half_body.answer(false).await.expect("an answer");
    refused.problem(503, "unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    for mut client in [silent, idle, half_head, half_body] {
        client.closed().await;
    }
    // Stopping takes less time than the limits for headers and bodies and the grace period.
    let service = Service::on(service.stop().await, |_| {}).await;
    assert_eq!(service.get("/v1/queues").await.json(), json!({"queues": []}));
    service.stop().await;
}

#[tokio::test]
async fn a_second_signal_hurries() {
    let service = Service::start().await;
    let (mut client, _) = stalled(&service).await;
    service.shutdown.begin();
    // Sends the second signal. Without it, the client would have 30 seconds to read.
    service.stop().await;
    client.closed().await;
}

#[tokio::test]
async fn whoever_takes_too_long_is_dropped_after_the_grace() {
    let service = Service::with(|config| config.shutdown_grace = Duration::from_millis(200)).await;
    let _stalled = stalled(&service).await;
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
    // An existing directory keeps its mode.
    std::fs::create_dir(folder.path().join("old")).unwrap();
    let before = mode("old");
    drop(Server::bind(config(&folder.path().join("old"))).await.unwrap());
    assert_eq!(mode("old"), before);
}

/// Repeats a request until the answer has this status.
async fn await_status(service: &Service, path: &str, status: u16) -> Answer {
    let asking = async {
        loop {
            let answer = service.get(path).await;
            if answer.status == status {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("the status changes")
}

#[tokio::test]
#[cfg(unix)]
async fn a_service_whose_volume_is_gone_is_not_ready_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (data, aside) = (folder.path().join("data"), folder.path().join("aside"));
    let service = Service::with(|config| config.data.clone_from(&data)).await;
    let id = service.put_text("q", "kept").await;
    // The volume is unmounted, which leaves the empty directory that it was mounted on.
    std::fs::rename(&data, &aside).unwrap();
    std::fs::create_dir(&data).unwrap();
    await_status(&service, "/readyz", 503).await;
    let put = service.post("/v1/queues/q/jobs", json!({"text": "lost"})).await;
    assert_eq!(put.status, 503);
    // Long enough for an attempt to open the store again.
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let ready = service.get("/readyz").await;
        assert_eq!(ready.status, 503, "{}", ready.body);
    }
    let detail = service.get("/readyz").await.body;
    assert!(detail.contains("found no directory"), "{detail}");
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "nothing was created");
    std::fs::remove_dir(&data).unwrap();
    std::fs::rename(&aside, &data).unwrap();
    await_status(&service, "/readyz", 200).await;
    assert_eq!(service.get(&format!("/v1/jobs/{id}")).await.status, 200);
    service.stop().await;
}

/// A body often arrives after its head, in a packet of its own. An answer that comes before it would
/// end the connection, and with it the next request of the client.
#[tokio::test]
async fn a_connection_outlives_a_refusal_whose_body_arrives_late() {
    let service = Service::start().await;
    for (method, path) in [
        ("POST", "/v1/queues/none/resume"),
        ("POST", "/v1/queues/none/cancel-waiting"),
        ("POST", "/v1/nowhere"),
        ("DELETE", "/v1/queues/none"),
    ] {
        let mut client = service.connect().await;
        let request = Request::new(method, path).json(&json!({})).bytes();
        let (head, body) = request.split_at(request.len() - 2);
        client.write(head).await;
        service.in_flight(1).await;
        client.write(body).await;
        client.answer(false).await.expect("an answer").problem(404, "not-found");
        assert_eq!(client.send(Request::new("GET", "/v1/queues")).await.status, 200, "{path}");
    }
    service.stop().await;
}
