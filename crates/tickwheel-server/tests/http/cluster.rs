//! Three services that are one: on a simulated log, with real HTTP between them.

use serde_json::{Value, json};
use tickwheel_cluster::LocalNetwork;
use tickwheel_cluster::log::SimulatedLog;
use tickwheel_server::config::Cluster;
use tickwheel_server::tokens::Scope;
use tickwheel_server::{ClusterBackend, Server};

use crate::client::{Request, Service, config, token};

const NAMES: [&str; 3] = ["a", "b", "c"];

struct Rig {
    log: SimulatedLog,
    network: LocalNetwork,
}

impl Rig {
    fn new() -> Self {
        Self { log: SimulatedLog::new(1), network: LocalNetwork::new() }
    }

    async fn start(&self, name: &str, folder: tempfile::TempDir) -> Service {
        let mut config = config(folder.path());
        config.cluster = Some(Cluster {
            servers: Vec::new(),
            monitors: Vec::new(),
            name: "test".into(),
            create: true,
            allow_lazy_sync: false,
            node: name.into(),
            address: None,
        });
        let backend = ClusterBackend {
            log: std::sync::Arc::new(self.log.connect()),
            transport: Box::new(self.network.connect(name)),
        };
        Service::run(folder, Server::bind_on(config, Some(backend)).await.unwrap())
    }

    async fn start_all(&self) -> Vec<Service> {
        let mut nodes = Vec::new();
        for name in NAMES {
            nodes.push(self.start(name, tempfile::tempdir().unwrap()).await);
        }
        nodes
    }
}

/// Waits until all nodes know the same owner; its name.
async fn owner(nodes: &[Service]) -> String {
    loop {
        let mut known = Vec::new();
        for node in nodes {
            known.push(node.get("/v1/cluster").await.json()["owner"].clone());
        }
        if let Some(Value::String(name)) = known.first()
            && known.iter().all(|other| *other == known[0])
        {
            return name.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

fn index(name: &str) -> usize {
    NAMES.iter().position(|other| *other == name).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_serves_the_whole_api() {
    let nodes = Rig::new().start_all().await;
    let owner = index(&owner(&nodes).await);
    let other = (owner + 1) % 3;
    for node in &nodes {
        let id = node.put_text("mail", "hello").await;
        for reader in &nodes {
            let job = reader.get(&format!("/v1/jobs/{id}")).await;
            assert_eq!((job.status, &job.json()["text"]), (200, &json!("hello")), "{job:?}");
        }
    }
    let (id, token) = nodes[other].reserve_one("mail").await;
    let ack = json!({"token": token});
    let acked = nodes[owner].post(&format!("/v1/jobs/{id}/ack"), ack).await;
    assert_eq!(acked.status, 200, "{acked:?}");
    let list = nodes[other].get("/v1/queues/mail/jobs").await;
    assert_eq!(list.json()["jobs"].as_array().map(Vec::len), Some(2), "{list:?}");
    // Problems come from the owner as they are.
    let missing = nodes[other].get(&format!("/v1/jobs/{id}/nothing")).await;
    missing.problem(404, "not-found");
    let wrong = nodes[other].post("/v1/queues/mail/jobs", json!({"dealy": "1s"})).await;
    wrong.problem(422, "unknown-field");
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_is_forwarded() {
    let nodes = Rig::new().start_all().await;
    let owner = index(&owner(&nodes).await);
    let (worker, client) = (&nodes[(owner + 1) % 3], &nodes[(owner + 2) % 3]);
    let put = async {
        nodes[owner].in_flight(1).await;
        client.put_text("mail", "late").await
    };
    let ((delivered, _), id) = tokio::join!(worker.reserve_one("mail"), put);
    assert_eq!(delivered, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_its_node() {
    let rig = Rig::new();
    let mut nodes = rig.start_all().await;
    let first = index(&owner(&nodes).await);
    let id = nodes[first].put_text("mail", "hello").await;
    let folder = nodes.remove(first).stop().await;
    let job = nodes[0].get(&format!("/v1/jobs/{id}")).await;
    assert_eq!(job.status, 200, "{job:?}");
    // The node returns, without its disk, and follows.
    drop(folder);
    nodes.push(rig.start(NAMES[first], tempfile::tempdir().unwrap()).await);
    owner(&nodes).await;
    let job = nodes[2].get(&format!("/v1/jobs/{id}")).await;
    assert_eq!(job.status, 200, "{job:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_forwarded_once() {
    let nodes = Rig::new().start_all().await;
    let name = owner(&nodes).await;
    let other = &nodes[(index(&name) + 1) % 3];
    let request = Request::new("GET", "/v1/stats").header("tickwheel-forwarded-by", "x");
    let answer = other.send(request).await;
    assert_eq!((answer.status, answer.header("tickwheel-owner")), (421, Some(&*name)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_partition_moves_when_it_is_asked_to() {
    let nodes = Rig::new().start_all().await;
    let first = index(&owner(&nodes).await);
    let id = nodes[first].put_text("mail", "hello").await;
    let target = NAMES[(first + 1) % 3];
    // The last node forwards the request to the owner.
    let moved = nodes[(first + 2) % 3].post("/v1/cluster/move", json!({"to": target})).await;
    assert_eq!(moved.status, 202, "{moved:?}");
    while owner(&nodes).await != target {
        tokio::task::yield_now().await;
    }
    let job = nodes[first].get(&format!("/v1/jobs/{id}")).await;
    assert_eq!(job.status, 200, "{job:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_a_cluster_needs_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let reader = token(&folder, "reader", &[Scope::Read], &["*"]);
    let node = Rig::new().start("a", folder).await;
    node.get("/v1/cluster").await.problem(401, "unauthorized");
    let get = Request::new("GET", "/v1/cluster").token(&reader);
    let status = node.send(get).await;
    assert_eq!((status.status, &status.json()["node"]), (200, &json!("a")));
    let moving = Request::new("POST", "/v1/cluster/move").token(&reader).json(&json!({}));
    node.send(moving).await.problem(403, "forbidden");
    assert_eq!(node.get("/healthz").await.status, 200);
}
