//! `cargo xtask cluster`: three NATS servers and three nodes on loopback, to try a cluster with.
//!
//! Their data is in target/cluster, and the next run removes it. Ctrl-C also ends the servers and
//! nodes; if this program is killed, the kernel ends them.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use tickwheel_test_servers::free_port;
use tickwheel_test_servers::nats::NatsCluster;
use tickwheel_test_servers::node::Node;

use crate::api_check;
use crate::process::{Failure, Invocation, root};

/// The nodes and their ports. If another program uses a port, the node gets a free one.
const NODES: [(&str, u16); 3] = [("a", 7301), ("b", 7302), ("c", 7303)];

pub(crate) fn run() -> Result<(), Failure> {
    Invocation::cargo(api_check::BUILD).run()?;
    let folder = root().join("target/cluster");
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .map_err(|error| Failure::Read(folder.display().to_string(), error))?;
    }
    let nats = NatsCluster::start(&folder, 3)
        .map_err(|error| Failure::Start("nats-server".to_owned(), error))?;
    let nodes = NODES.map(|(name, port)| start(name, port, &folder, &nats));
    let nodes = nodes.into_iter().collect::<Result<Vec<_>, _>>();
    let mut nodes = nodes.map_err(|error| Failure::Start("tickwheel serve".to_owned(), error))?;
    for node in &mut nodes {
        node.await_port().map_err(|error| Failure::Start("tickwheel serve".to_owned(), error))?;
    }
    print_guide(&nats, &nodes, &folder);
    loop {
        thread::park();
    }
}

/// Starts a node on a port, or on a free one.
fn start(name: &str, port: u16, folder: &Path, nats: &NatsCluster) -> io::Result<Node> {
    let port = TcpListener::bind(("127.0.0.1", port)).map(|_| port).or_else(|_| free_port())?;
    let program = root().join("target/debug/tickwheel");
    Node::start(&program, folder, name, port, &nats.node_options(), "TERM")
}

/// Prints the addresses and some commands to try.
fn print_guide(nats: &NatsCluster, nodes: &[Node], folder: &Path) {
    println!("Three NATS servers are running; they sync every write:");
    for (server, url) in nats.servers.iter().zip(nats.urls()) {
        println!("  {}  {url}  pid {}", server.name, server.process().id());
    }
    println!("Three nodes are running; together they are one service:");
    for node in nodes {
        let id = node.process().id();
        println!("  {}   http://127.0.0.1:{}  pid {id}", node.name, node.port);
    }
    let [first, second] = [nodes[0].port, nodes[1].port];
    println!(
        "Their data and logs are in {}.\n\n\
         Put a job at one node, and take it from another:\n  \
         target/debug/tickwheel --url http://127.0.0.1:{first} put mail hello\n  \
         target/debug/tickwheel --url http://127.0.0.1:{second} reserve mail\n\
         See which node owns the queues:\n  \
         target/debug/tickwheel --url http://127.0.0.1:{second} cluster status\n\
         Kill that node with kill -9 PID, and try again: another node takes over within 5 seconds.\n\
         Ctrl-C ends everything.",
        folder.display()
    );
}
