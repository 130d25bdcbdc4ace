//! `cargo xtask cluster`: three NATS servers on loopback, to try a cluster with.
//!
//! Their data is in target/cluster and is removed by the next run. Ctrl-C reaches the servers too,
//! and the kernel ends them with this program in any case.

use std::fs;
use std::thread;

use tickwheel_test_servers::nats::NatsCluster;

use crate::process::{Failure, root};

pub(crate) fn run() -> Result<(), Failure> {
    let folder = root().join("target/cluster");
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .map_err(|error| Failure::Read(folder.display().to_string(), error))?;
    }
    let cluster = NatsCluster::start(&folder, 3)
        .map_err(|error| Failure::Start("nats-server".to_owned(), error))?;
    println!("Three NATS servers run, which sync every write:");
    for (server, (url, monitor)) in
        cluster.servers.iter().zip(cluster.urls().iter().zip(cluster.monitors()))
    {
        println!("  {}  {url}  {monitor}/varz  pid {}", server.name, server.process().id());
    }
    println!("Their data and logs are in {}.", folder.display());
    println!("To see a server fail: kill -9 PID, or kill -STOP PID and kill -CONT PID.");
    println!("Ctrl-C ends them.");
    loop {
        thread::park();
    }
}
