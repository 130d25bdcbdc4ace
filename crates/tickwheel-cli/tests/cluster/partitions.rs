//! Three nodes with four partitions on three NATS servers.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::rig::{Server, tickwheel, until};
use crate::{NAMES, Nodes, log_on, start_nats};

const PARTITIONS: usize = 4;

/// The owners of all partitions, once all replicas follow and each node owns about as many.
fn owners(nodes: &Nodes) -> Vec<String> {
    let mut found = Vec::new();
    let is_whole = |partition: &Value| {
        let replicas = partition["replicas"].as_array().expect("a list");
        let follows = |it: &Value| it["lag"] == 0 && it["candidate"] == true;
        replicas.len() == nodes.0.len() && replicas.iter().all(follows)
    };
    until(|| {
        let status = nodes.status();
        let partitions = status["partitions"].as_array().expect("a list");
        let owner = |it: &Value| it["owner"].as_str().unwrap_or_default().to_owned();
        found = partitions.iter().map(owner).collect();
        let count = |name: &str| found.iter().filter(|it| *it == name).count();
        let counts: Vec<_> = nodes.0.iter().map(|(name, _)| count(name)).collect();
        found.len() == PARTITIONS
            && !found.iter().any(String::is_empty)
            && partitions.iter().all(is_whole)
            && counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0) < 2
    });
    found
}

fn queues() -> Vec<String> {
    (0..24).map(|number| format!("queue-{number:02}")).collect()
}

/// The position of the events now.
fn position(node: &Server) -> String {
    let mut stream = TcpStream::connect(node.address()).expect("a connection");
    let request = b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request).expect("it is read");
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("a line"));
    let id = lines.find_map(|line| line.strip_prefix("id: ").map(str::to_owned));
    id.expect("a position")
}

/// Events after a position: each with its queue and the position after it.
fn events(node: &Server, after: &str, count: usize) -> Vec<(String, String)> {
    let count = count.to_string();
    let watch = ["watch", "--json", "--event", "put", "--since", after, "--count", &count];
    let event = |line: &str| {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        (text("queue"), text("id"))
    };
    node.run(&watch).text().lines().map(event).collect()
}

#[test]
fn a_cluster_with_several_partitions_survives_the_loss_of_a_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let nats = start_nats(folder.path());
    let mut nodes = Nodes::on_nats_with(&nats, &["--cluster-partitions", "4"]);
    let spread: BTreeSet<_> = owners(&nodes).into_iter().collect();
    assert_eq!(spread.len(), 3, "each node owns a partition");

    let queues = queues();
    for (index, queue) in queues.iter().enumerate() {
        let node = &nodes.0[index % 3].1;
        node.run(&["put", queue, "hello", "--key", "k", "--delay", "1h"]).code(0);
    }
    let jobs = |node: &Server| {
        let shown = node.run(&["queue", "ls", "--json"]).text();
        queues.iter().filter(|queue| shown.contains(&format!("\"{queue}\""))).count()
    };
    for (name, node) in &nodes.0 {
        assert_eq!(jobs(node), queues.len(), "{name} lists all queues");
        let stats = node.run(&["stats", "--json"]).json();
        assert_eq!(stats["pending"], 24, "{stats}");
    }
    let doctor = nodes.first().run(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(said.contains("3 nodes and 4 partitions"), "{said}");

    // The owner of the first partition dies with its disk.
    let owner = owners(&nodes).remove(0);
    let index = nodes.0.iter().position(|(name, _)| *name == owner).expect("a name");
    let (name, mut killed) = nodes.0.remove(index);
    killed.signal("KILL");
    killed.wait();
    drop(killed);
    let left: BTreeSet<_> = owners(&nodes).into_iter().collect();
    assert!(!left.contains(&owner), "{left:?}");
    for (index, queue) in queues.iter().enumerate() {
        nodes.0[index % 2].1.run(&["get", queue, "k"]).code(0);
    }
    assert_eq!(nodes.first().run(&["stats", "--json"]).json()["pending"], 24);

    // Another one comes in its place, without a word about the number of partitions.
    let log = log_on(&nats);
    let log: Vec<_> = log.iter().map(String::as_str).chain(["--node", name]).collect();
    nodes.0.push((name, Server::start_with(&log)));
    assert!(owners(&nodes).contains(&owner), "it gets its share");
    nodes.by_name(name).run(&["get", &queues[0], "k"]).code(0);

    // Partitions move and nodes are drained one by one.
    let to = NAMES.into_iter().find(|it| *it != owners(&nodes)[3]).expect("another");
    nodes.first().run(&["cluster", "move", "3", to]).code(0);
    nodes.first().run(&["cluster", "drain", name]).code(0);
    // A node that had not heard of it yet may give it a partition; it passes that one on.
    until(|| {
        let status = nodes.status();
        let owned = status["partitions"].as_array().expect("a list").iter();
        owned.into_iter().all(|it| it["owner"] != *name)
    });
    nodes.by_name(name).run(&["get", &queues[0], "k"]).code(0);
}

#[test]
fn events_of_all_partitions_are_followed_and_resumed() {
    let folder = tempfile::tempdir().expect("a folder");
    let nats = start_nats(folder.path());
    let nodes = Nodes::on_nats_with(&nats, &["--cluster-partitions", "4"]);
    owners(&nodes);
    let queues = queues();
    let start = position(&nodes.0[1].1);
    for queue in &queues {
        nodes.first().run(&["put", queue, "hello"]).code(0);
    }
    let seen = events(&nodes.0[1].1, &start, 8);
    let last = &seen.last().expect("an event").1;
    assert_eq!(last.split('.').count(), PARTITIONS, "{last}");
    // The rest, from another node, each once.
    let rest = events(&nodes.0[2].1, last, queues.len() - seen.len());
    let all: BTreeSet<_> = seen.into_iter().chain(rest).map(|(queue, _)| queue).collect();
    assert_eq!(all, queues.into_iter().collect());
}

#[test]
fn a_node_that_is_told_another_number_of_partitions_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let nats = start_nats(&folder.path().join("nats"));
    let log = log_on(&nats);
    let log: Vec<_> = log.iter().map(String::as_str).collect();
    let serve = |data: &str, more: &[&str]| {
        let data = folder.path().join(data).display().to_string();
        let own = ["serve", "--listen", "127.0.0.1:0", "--data", &data, "--node", "a"];
        tickwheel(&[&own[..], &log, more].concat())
    };
    let missing = serve("x", &["--cluster-partitions", "3"]);
    assert!(missing.code(1).contains("does not exist"), "{missing:?}");
    let wrong = serve("x", &["--cluster-partitions", "257"]);
    assert!(wrong.code(2).contains("between 1 and 256"), "{wrong:?}");

    let first = Server::start_with(
        &[&log[..], &["--node", "b", "--cluster-create", "--cluster-partitions", "3"]].concat(),
    );
    let other = serve("x", &["--cluster-partitions", "2", "--cluster-create"]);
    assert!(other.code(1).contains("created with 3 partitions"), "{other:?}");
    // The data of a cluster with another number belongs elsewhere.
    let data = folder.path().join("old");
    std::fs::create_dir_all(data.join("queue")).expect("a folder");
    let other = serve("old", &[]);
    assert!(other.code(1).contains("belongs to a cluster with 1 partitions"), "{other:?}");
    drop(first);
}
