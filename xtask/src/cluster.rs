//! `cargo xtask cluster`: three NATS servers and three nodes on loopback, to try a cluster with.
//!
//! Their data is in target/cluster and is removed by the next run. Ctrl-C reaches the servers and
//! the nodes too, and the kernel ends them with this program in any case.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use tickwheel_test_servers::nats::NatsCluster;
use tickwheel_test_servers::{ServerProcess, free_port};

use crate::api_check;
use crate::process::{Failure, Invocation, root};

/// The nodes, and the ports that they get if no other program has them.
const NODES: [(&str, u16); 3] = [("a", 7301), ("b", 7302), ("c", 7303)];

/// A running node.
struct Node {
    name: &'static str,
    port: u16,
    process: ServerProcess,
}

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
fn start(name: &'static str, port: u16, folder: &Path, nats: &NatsCluster) -> io::Result<Node> {
    let port = TcpListener::bind(("127.0.0.1", port)).map(|_| port).or_else(|_| free_port())?;
    let arguments = [
        "serve".to_owned(),
        format!("--listen=127.0.0.1:{port}"),
        format!("--data={}", folder.join(format!("node-{name}")).display()),
        format!("--node={name}"),
        format!("--cluster={}", nats.urls().join(",")),
        format!("--cluster-monitors={}", nats.monitors().join(",")),
        "--cluster-create=true".to_owned(),
    ];
    let program = root().join("target/debug/tickwheel");
    let log = folder.join(format!("node-{name}.log"));
    let process = ServerProcess::start(&[], &program, &arguments, &log, "TERM")?;
    Ok(Node { name, port, process })
}

impl Node {
    fn await_port(&mut self) -> io::Result<()> {
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            self.process.check()?;
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Prints what runs, and what to try.
fn print_guide(nats: &NatsCluster, nodes: &[Node], folder: &Path) {
    println!("Three NATS servers run, which sync every write:");
    for (server, url) in nats.servers.iter().zip(nats.urls()) {
        println!("  {}  {url}  pid {}", server.name, server.process().id());
    }
    println!("Three nodes run, which are one service:");
    for Node { name, port, process } in nodes {
        println!("  {name}   http://127.0.0.1:{port}  pid {}", process.id());
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
