//! Three nodes on three NATS servers, or on `PostgreSQL`, and the commands for them.
//!
//! The test installs these servers; `cargo xtask test cluster` runs it.

mod partitions;
#[path = "../rig/mod.rs"]
mod rig;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use tickwheel_test_servers::nats::NatsCluster;
use tickwheel_test_servers::postgresql::{PostgresqlPair, USER};

use rig::{Server, until};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The nodes, by name.
struct Nodes(Vec<(&'static str, Server)>);

impl Nodes {
    /// Starts three nodes on a log.
    fn start(log: &[&str]) -> Self {
        let start = |name| {
            let own = ["--node", name, "--cluster-create"];
            (name, Server::start_with(&[log, &own[..]].concat()))
        };
        Self(NAMES.map(start).into())
    }

    fn on_nats(nats: &NatsCluster) -> Self {
        Self::on_nats_with(nats, &[])
    }

    fn on_nats_with(nats: &NatsCluster, more: &[&str]) -> Self {
        let log = log_on(nats);
        let log: Vec<_> = log.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Self::start(&log)
    }

    /// The first node.
    fn first(&self) -> &Server {
        &self.0[0].1
    }

    fn by_name(&self, name: &str) -> &Server {
        &self.0.iter().find(|(other, _)| *other == name).expect("a name").1
    }

    fn status(&self) -> Value {
        self.first().run(&["cluster", "status", "--json"]).json()
    }

    /// Waits until all nodes follow the owners of all partitions; returns the first owner.
    fn await_rest(&self) -> String {
        let is_whole = |partition: &Value| {
            let replicas = partition["replicas"].as_array().expect("a list");
            !partition["owner"].is_null()
                && replicas.len() == self.0.len()
                && replicas.iter().all(|it| it["lag"] == 0 && it["candidate"] == true)
        };
        until(|| {
            let partitions = self.status()["partitions"].as_array().expect("a list").clone();
            !partitions.is_empty() && partitions.iter().all(is_whole)
        });
        let owner = self.status()["partitions"][0]["owner"].clone();
        owner.as_str().expect("an owner").to_owned()
    }
}

/// The settings of a node on NATS servers.
fn log_on(nats: &NatsCluster) -> [String; 4] {
    let (servers, monitors) = (nats.urls().join(","), nats.monitors().join(","));
    ["--cluster".to_owned(), servers, "--cluster-monitors".to_owned(), monitors]
}

fn start_nats(folder: &Path) -> NatsCluster {
    NatsCluster::start(folder, 3).expect("NATS starts")
}

/// Kills all NATS servers and removes their data.
fn lose_log(nats: &mut NatsCluster, folder: &Path) {
    for index in 0..3 {
        nats.kill(index).expect("it can be killed");
        let data = folder.join(&nats.servers[index].name);
        std::fs::remove_dir_all(data).expect("its data can be removed");
    }
    for index in 0..3 {
        nats.restart(index).expect("it starts again");
    }
}

fn other_than(name: &str) -> &'static str {
    NAMES.into_iter().find(|it| *it != name).expect("there are three")
}

#[test]
fn partitions_move_and_nodes_are_drained() {
    let folder = tempfile::tempdir().expect("a folder");
    let nats = start_nats(folder.path());
    let nodes = Nodes::on_nats(&nats);
    let first = nodes.await_rest();
    let node = nodes.by_name(other_than(&first));
    node.run(&["put", "mail", "hello", "--key", "k"]).code(0);
    let shown = node.run(&["cluster", "status"]).text();
    for name in NAMES {
        assert!(shown.lines().any(|line| line.starts_with(name)), "{shown}");
    }

    let second = other_than(&first);
    let moved = node.run(&["cluster", "move", "0", second]).text();
    assert_eq!(moved, format!("{second} owns partition 0\n"));
    assert_eq!(nodes.status()["partitions"][0]["owner"], second);
    let refused = node.run(&["cluster", "move", "0", "x"]);
    assert!(refused.code(3).contains("no node called \"x\" is alive"), "{refused:?}");
    node.run(&["get", "mail", "k"]).code(0);

    let drained = node.run(&["cluster", "drain", second]).text();
    assert_eq!(drained, format!("{second} owns no partition\n"));
    assert_ne!(nodes.await_rest(), second);
    let doctor = node.run(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(said.contains("3 nodes and") && said.contains("is drained"), "{said}");
    node.run(&["get", "mail", "k"]).code(0);
}

#[test]
fn every_partition_is_backed_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let nats = start_nats(&folder.path().join("nats"));
    let nodes = Nodes::on_nats(&nats);
    nodes.await_rest();
    // Creates queues in all partitions.
    let queues: Vec<_> = (0..20).map(|number| format!("queue-{number}")).collect();
    for queue in &queues {
        nodes.first().run(&["put", queue, "hello", "--key", "k", "--delay", "1h"]).code(0);
    }
    let file = folder.path().join("all.backup").display().to_string();
    nodes.first().run(&["backup", &file]).code(0);
    let partitions = nodes.status()["partitions"].as_array().expect("a list").len();
    let files: Vec<_> = match partitions {
        1 => vec![file],
        _ => (0..partitions).map(|partition| format!("{file}.{partition}")).collect(),
    };
    let mut found = 0;
    for (number, file) in files.iter().enumerate() {
        let data = folder.path().join(format!("restored-{number}"));
        rig::tickwheel(&["restore", file, "--data", &data.display().to_string()]).code(0);
        let restored = Server::start_on(&data);
        let is_there = |queue: &&String| restored.run(&["get", queue, "k"]).code == 0;
        found += queues.iter().filter(is_there).count();
    }
    assert_eq!(found, queues.len(), "each job is in one backup");
}

#[test]
fn a_cluster_is_recovered_after_its_log_was_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut nats = start_nats(folder.path());
    let nodes = Nodes::on_nats(&nats);
    nodes.await_rest();
    nodes.first().run(&["put", "mail", "hello", "--key", "k"]).code(0);
    nodes.await_rest();
    let nothing = nodes.first().run(&["cluster", "recover", "--yes"]);
    assert!(nothing.code(1).contains("nothing to recover"), "{nothing:?}");

    lose_log(&mut nats, folder.path());
    until(|| {
        let status = nodes.status();
        let partitions = status["partitions"].as_array().expect("a list");
        partitions.iter().all(|partition| {
            let replicas = partition["replicas"].as_array().expect("a list");
            replicas.len() == 3 && replicas.iter().all(|it| it["state"] == "halted")
        })
    });
    let doctor = nodes.first().run(&["doctor"]);
    doctor.code(9);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(said.contains("has no owner") && said.contains("has halted"), "{said}");

    let unconfirmed = nodes.first().run(&["cluster", "recover"]);
    assert!(unconfirmed.code(2).contains("repeat it with --yes"), "{unconfirmed:?}");
    let recovered = nodes.first().run(&["cluster", "recover", "--yes"]).text();
    assert!(recovered.contains("becomes the truth"), "{recovered}");
    assert!(recovered.contains("partition 0: generation 1 has started"), "{recovered}");
    nodes.await_rest();
    for (_, node) in &nodes.0 {
        node.run(&["get", "mail", "k"]).code(0);
    }
}

#[test]
fn a_cluster_runs_on_postgresql() {
    // PostgreSQL runs as another user, which must be able to reach its folder.
    let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir();
    let folder = folder.expect("a folder");
    let pair = PostgresqlPair::start(&folder.path().join("pair")).expect("PostgreSQL starts");
    let url = format!("postgres://{USER}@127.0.0.1:{}/postgres", pair.primary.port);
    let mut nodes = Nodes::start(&["--cluster", &url]);
    let owner = nodes.await_rest();
    for (index, (_, node)) in nodes.0.iter().enumerate() {
        node.run(&["put", "mail", "hello", "--key", &index.to_string()]).code(0);
    }
    // The owner dies with its disk.
    let index = nodes.0.iter().position(|(name, _)| *name == owner).expect("a name");
    let (_, killed) = nodes.0.remove(index);
    drop(killed);
    assert_ne!(nodes.await_rest(), owner);
    for key in ["0", "1", "2"] {
        nodes.first().run(&["get", "mail", key]).code(0);
    }
    // Another node returns with an empty disk, and gets the partition.
    let name = NAMES[index];
    let settings = ["--cluster", &url, "--node", name];
    nodes.0.push((name, Server::start_with(&settings)));
    nodes.await_rest();
    let moved = nodes.first().run(&["cluster", "move", "0", name]).text();
    assert_eq!(moved, format!("{name} owns partition 0\n"));
    nodes.by_name(name).run(&["get", "mail", "0"]).code(0);
}
