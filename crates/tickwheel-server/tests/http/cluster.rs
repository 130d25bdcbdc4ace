//! A cluster of three services, on a simulated log and with real HTTP between them.

use std::sync::Arc;

use serde_json::{Value, json};
use tickwheel_cluster::log::{Log, SimulatedLog};
use tickwheel_cluster::{Layout, LocalNetwork};
use tickwheel_server::config::{Cluster, NatsSecurity};
use tickwheel_server::tokens::{Scope, TokenStore};
use tickwheel_server::{ClusterBackend, Config, Server};

use crate::client::{Request, Service, config, token};
use crate::tls;

pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];

pub(crate) struct Rig {
    logs: Vec<SimulatedLog>,
    network: LocalNetwork,
}

impl Rig {
    fn new() -> Self {
        Self::with_partitions(1)
    }

    pub(crate) fn with_partitions(count: u64) -> Self {
        let logs = (1..=count).map(SimulatedLog::new).collect();
        Self { logs, network: LocalNetwork::new() }
    }

    pub(crate) async fn start(&self, name: &str, folder: tempfile::TempDir) -> Service {
        self.start_with(name, folder, |_| {}).await
    }

    async fn start_with(
        &self,
        name: &str,
        folder: tempfile::TempDir,
        change: impl FnOnce(&mut Config),
    ) -> Service {
        let mut config = config(folder.path());
        config.cluster = Some(Cluster {
            servers: Vec::new(),
            monitors: Vec::new(),
            name: "test".into(),
            create: true,
            partitions: None,
            allow_lazy_sync: false,
            node: name.into(),
            address: None,
            node_ca: None,
            nats: NatsSecurity::default(),
        });
        change(&mut config);
        let connect = |log: &SimulatedLog| -> Arc<dyn Log> { Arc::new(log.connect()) };
        let backend = ClusterBackend {
            layout: Layout::even(self.logs.len() as u32).unwrap(),
            logs: self.logs.iter().map(connect).collect(),
            transport: Box::new(self.network.connect(name)),
        };
        Service::run(folder, Server::bind_on(config, Some(backend)).await.unwrap())
    }

    pub(crate) async fn start_all(&self) -> Vec<Service> {
        let mut nodes = Vec::new();
        for name in NAMES {
            nodes.push(self.start(name, tempfile::tempdir().unwrap()).await);
        }
        nodes
    }
}

/// Returns the partition as a node sees it.
async fn partition(node: &Service) -> Value {
    node.get("/v1/cluster").await.json()["partitions"][0].clone()
}

/// Waits until all nodes know the same owner, and returns its name.
async fn owner(nodes: &[Service]) -> String {
    loop {
        let mut known = Vec::new();
        for node in nodes {
            known.push(partition(node).await["owner"].clone());
        }
        if let Some(Value::String(name)) = known.first()
            && known.iter().all(|other| *other == known[0])
        {
            return name.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Waits until all nodes know that every node could own the partition.
async fn await_candidates(nodes: &[Service]) {
    for node in nodes {
        loop {
            let seen = partition(node).await;
            let replicas = seen["replicas"].as_array();
            let is_candidate = |replica: &Value| replica["candidate"] == true;
            if replicas.is_some_and(|it| it.len() == nodes.len() && it.iter().all(is_candidate)) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
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
    // The owner's problems are forwarded unchanged.
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
    // The node returns with an empty disk and catches up.
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
    await_candidates(&nodes).await;
    let id = nodes[first].put_text("mail", "hello").await;
    let target = NAMES[(first + 1) % 3];
    // The last node passes the request on to the owner.
    let last = &nodes[(first + 2) % 3];
    let moved = last.post("/v1/cluster/move", json!({"partition": 0, "to": target})).await;
    assert_eq!(moved.status, 200, "{moved:?}");
    assert_eq!(moved.json()["partitions"][0]["owner"], target);
    assert_eq!(owner(&nodes).await, target);
    let job = nodes[first].get(&format!("/v1/jobs/{id}")).await;
    assert_eq!(job.status, 200, "{job:?}");
    // Moving the partition to its owner does nothing.
    let again = last.post("/v1/cluster/move", json!({"partition": 0, "to": target})).await;
    assert_eq!(again.json()["partitions"][0]["epoch"], moved.json()["partitions"][0]["epoch"]);
    for (order, field) in [
        (json!({"partition": 0, "to": "x"}), "/to"),
        (json!({"partition": 9, "to": target}), "/partition"),
    ] {
        let refused = last.post("/v1/cluster/move", order).await;
        assert_eq!(refused.problem(404, "not-found").as_deref(), Some(field));
    }
    last.post("/v1/cluster/move", json!({"to": target})).await.problem(422, "missing-field");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_drained_owns_nothing() {
    let mut nodes = Rig::new().start_all().await;
    let first = owner(&nodes).await;
    await_candidates(&nodes).await;
    let id = nodes[0].put_text("mail", "hello").await;
    let other = &nodes[(index(&first) + 1) % 3];
    let drained = other.post("/v1/cluster/drain", json!({"node": first})).await;
    assert_eq!(drained.status, 200, "{drained:?}");
    let second = owner(&nodes).await;
    assert_ne!(second, first);
    let seen = nodes[index(&first)].get("/v1/cluster").await.json();
    assert_eq!(seen["nodes"][index(&first)]["draining"], true, "{seen}");
    // A drained node is the last to take over, but it does so if it is the only one.
    let last = nodes.remove(index(&first));
    for node in nodes {
        node.stop().await;
    }
    let job = last.get(&format!("/v1/jobs/{id}")).await;
    assert_eq!(job.status, 200, "{job:?}");
    last.post("/v1/cluster/drain", json!({"node": first})).await.problem(409, "wrong-state");
    last.post("/v1/cluster/drain", json!({"node": "x"})).await.problem(404, "not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_is_recovered_from_a_replica_after_its_log_was_lost() {
    let rig = Rig::new();
    let nodes = rig.start_all().await;
    let first = owner(&nodes).await;
    let id = nodes[0].put_text("mail", "hello").await;
    let recover = json!({"partition": 0, "from": first});
    let refused = nodes[0].post("/v1/cluster/recover", recover.clone()).await;
    refused.problem(409, "wrong-state");

    rig.logs[0].recreate();
    loop {
        let seen = partition(&nodes[0]).await;
        let replicas = seen["replicas"].as_array().unwrap();
        if replicas.len() == 3 && replicas.iter().all(|it| it["state"] == "halted") {
            assert!(replicas[0]["trouble"].as_str().unwrap().contains("created again"), "{seen}");
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    // Any node passes the request on.
    let recovered = nodes[(index(&first) + 1) % 3].post("/v1/cluster/recover", recover).await;
    assert_eq!(recovered.status, 200, "{recovered:?}");
    assert_eq!(recovered.json()["partitions"][0]["generation"], 1);
    for node in &nodes {
        let job = node.get(&format!("/v1/jobs/{id}")).await;
        assert_eq!(job.status, 200, "{job:?}");
    }
    // The other replicas continue on the new stream.
    loop {
        let seen = partition(&nodes[0]).await;
        let replicas = seen["replicas"].as_array().unwrap();
        let follows = |it: &Value| it["generation"] == 1 && it["lag"] == 0;
        if replicas.len() == 3 && replicas.iter().all(follows) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_one_node_is_valid_on_all() {
    let rig = Rig::new();
    let mut nodes = rig.start_all().await;
    owner(&nodes).await;
    let status = async |node: &Service, token: &str| {
        node.send(Request::new("GET", "/v1/cluster").token(token)).await.status
    };
    let answers = async |nodes: &[Service], token: &str, wanted: u16| {
        for node in nodes {
            while status(node, token).await != wanted {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    };
    let stays = token(&nodes[0].folder, "stays", &[Scope::Admin], &["*"]);
    let goes = token(&nodes[1].folder, "goes", &[Scope::Admin], &["*"]);
    for node in &nodes {
        while TokenStore::new(node.folder.path()).list().unwrap().len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    answers(&nodes, &stays, 200).await;
    answers(&nodes, &goes, 200).await;
    TokenStore::new(nodes[2].folder.path()).remove("goes").unwrap();
    answers(&nodes, &goes, 401).await;

    // A node that lost its disk gets all tokens back, including those that were created on it.
    drop(nodes.remove(0).stop().await);
    nodes.push(rig.start("a", tempfile::tempdir().unwrap()).await);
    answers(&nodes, &stays, 200).await;
    let found = TokenStore::new(nodes[2].folder.path());
    while found.list().unwrap().len() != 1 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(found.list().unwrap()[0].name, "stays");
    assert_eq!(status(&nodes[0], &goes).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_serve_tls_forward_over_it() {
    let pem = tempfile::tempdir().unwrap();
    let trusted = tls::certify(pem.path());
    let rig = Rig::new();
    let mut nodes = Vec::new();
    for name in NAMES {
        let change = |config: &mut Config| {
            config.tls = Some(tls::files(pem.path()));
            config.cluster.as_mut().unwrap().node_ca = Some(pem.path().join("cert.pem"));
        };
        nodes.push(rig.start_with(name, tempfile::tempdir().unwrap(), change).await);
    }
    // One node is the owner, and the others forward requests.
    for node in &nodes {
        let put = Request::new("POST", "/v1/queues/mail/jobs").json(&json!({"text": "hello"}));
        let answer = tls::connect(node, &trusted).await.unwrap().send(put).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let status = Request::new("GET", "/v1/cluster");
    let seen = tls::connect(&nodes[0], &trusted).await.unwrap().send(status).await.json();
    assert!(seen["nodes"][0]["address"].as_str().unwrap().starts_with("https://"), "{seen}");
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
    for operation in ["move", "drain", "recover"] {
        let path = format!("/v1/cluster/{operation}");
        node.post(&path, json!({})).await.problem(401, "unauthorized");
        let asking = Request::new("POST", &path).token(&reader).json(&json!({}));
        node.send(asking).await.problem(403, "forbidden");
    }
    assert_eq!(node.get("/healthz").await.status, 200);
}
