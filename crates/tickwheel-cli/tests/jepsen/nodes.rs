//! The processes: three NATS servers and three nodes, and the links between them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tickwheel_queue::store::{Directory, Disk, StoreOptions, Table};
use tickwheel_test_servers::nats::NatsCluster;
use tickwheel_test_servers::{Link, Proxy, ServerProcess, faketime, free_port};

use crate::checks::replicas::{self, Rows};
use crate::namespace::Volume;

const NAMES: [&str; 3] = ["a", "b", "c"];
/// The disk of a node.
const DISK_MEBIBYTES: u64 = 2_048;
/// How long the cluster may take to settle after the last fault.
const PATIENCE: Duration = Duration::from_secs(180);
/// How often replicas at different positions are restarted and compared again.
const COMPARISONS: u32 = 10;

pub(crate) struct Nodes {
    pub(crate) nats: NatsCluster,
    pub(crate) nodes: Vec<Node>,
    partitions: u64,
}

pub(crate) struct Node {
    name: &'static str,
    address: String,
    volume: Volume,
    log: PathBuf,
    arguments: Vec<String>,
    faketime: PathBuf,
    /// The milliseconds by which its wall clock is ahead.
    clock_offset_ms: i64,
    process: Option<ServerProcess>,
    /// Its links to the NATS servers.
    to_servers: Vec<Proxy>,
    /// The link by which other nodes reach it.
    from_nodes: Proxy,
}

impl Node {
    fn new(
        name: &'static str,
        folder: &Path,
        nats: &NatsCluster,
        partitions: u64,
    ) -> io::Result<Self> {
        let volume = Volume::mount(DISK_MEBIBYTES);
        let port = free_port()?;
        let from_nodes = Proxy::start(port)?;
        let to_servers: Vec<_> =
            nats.servers.iter().map(|it| Proxy::start(it.port)).collect::<io::Result<_>>()?;
        let servers: Vec<_> =
            to_servers.iter().map(|it| format!("nats://127.0.0.1:{}", it.port)).collect();
        let arguments = vec![
            env!("CARGO_BIN_EXE_tickwheel").to_owned(),
            "serve".to_owned(),
            format!("--listen=127.0.0.1:{port}"),
            format!("--data={}", volume.data().display()),
            format!("--cluster={}", servers.join(",")),
            format!("--cluster-monitors={}", nats.monitors().join(",")),
            format!("--node={name}"),
            format!("--node-address=http://127.0.0.1:{}", from_nodes.port),
            "--access-log=none".to_owned(),
            "--cluster-create=true".to_owned(),
            format!("--cluster-partitions={partitions}"),
        ];
        let mut node = Self {
            name,
            address: format!("http://127.0.0.1:{port}"),
            volume,
            log: folder.join(format!("{name}.log")),
            arguments,
            faketime: faketime::library()?,
            clock_offset_ms: 0,
            process: None,
            to_servers,
            from_nodes,
        };
        node.launch();
        Ok(node)
    }

    pub(crate) fn launch(&mut self) {
        let mut arguments = Vec::new();
        if self.clock_offset_ms != 0 {
            arguments.extend(faketime::environment(&self.faketime, self.clock_offset_ms));
        }
        arguments.extend(self.arguments.clone());
        let env = Path::new("env");
        let process = ServerProcess::start(&[], env, &arguments, &self.log, "KILL");
        self.process = Some(process.expect("the binary starts"));
    }

    pub(crate) fn kill(&mut self) {
        // Dropping the handle kills the process.
        self.process = None;
    }

    /// Restarts the node, with a clock that is this far ahead.
    pub(crate) fn set_clock(&mut self, offset_ms: i64) {
        self.kill();
        self.clock_offset_ms = offset_ms;
        self.launch();
    }

    pub(crate) fn process(&self) -> &ServerProcess {
        self.process.as_ref().expect("a fault that stops a process hits one that runs")
    }

    /// Stops the node as an operator does, waits until it has handed over, and restarts it.
    pub(crate) fn restart(&mut self) {
        if let Some(process) = &mut self.process {
            signal(process.id(), "TERM");
            while process.check().is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        self.launch();
    }

    pub(crate) fn wipe(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.volume.data()).expect("the data directory can be removed");
    }

    /// Shrinks its disk to the size of its files.
    pub(crate) fn fill_disk(&self) {
        // The node may write between measuring and resizing.
        while !self.resize_disk(self.used_kibibytes()) {}
    }

    pub(crate) fn grow_disk(&self) {
        assert!(self.resize_disk(DISK_MEBIBYTES << 10), "the disk can be grown");
    }

    /// Sets the size of its disk; returns `false` if its files take more.
    fn resize_disk(&self, kibibytes: u64) -> bool {
        let size = format!("remount,size={kibibytes}k");
        let mounted = Command::new("mount").args(["-o", &size]).arg(self.volume.path()).output();
        mounted.is_ok_and(|output| output.status.success())
    }

    fn used_kibibytes(&self) -> u64 {
        let used =
            Command::new("df").args(["--output=used", "-k"]).arg(self.volume.path()).output();
        let used = String::from_utf8(used.expect("df runs").stdout).expect("df prints text");
        used.lines().nth(1).and_then(|line| line.trim().parse().ok()).expect("df prints a number")
    }

    pub(crate) fn set_links(&self, link: Link) {
        self.to_servers.iter().for_each(|proxy| proxy.set(link));
    }

    pub(crate) fn set_address_link(&self, link: Link) {
        self.from_nodes.set(link);
    }

    fn status(&self) -> Option<Value> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(2)))
            .build()
            .into();
        let text = agent.get(format!("{}/v1/cluster", self.address)).call().ok()?;
        let text = text.into_body().read_to_string().ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Waits until the node follows the log or owns the partition.
    pub(crate) fn await_service(&mut self) {
        let end = Instant::now() + PATIENCE;
        let name = self.name;
        let follows = |replica: &Value| {
            let state = replica["state"].as_str();
            replica["trouble"].is_null() && matches!(state, Some("owner" | "standby"))
        };
        let serves = |status: Value| {
            let replicas = partitions(&status).filter_map(|it| it["replicas"].as_array()).flatten();
            let mut own = replicas.filter(|it| it["node"] == name).peekable();
            own.peek().is_some() && own.all(follows)
        };
        while !self.status().is_some_and(serves) {
            assert!(Instant::now() < end, "node {} does not serve: {:?}", self.name, self.status());
            self.restart_if_ended();
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Restarts a node that has ended because it found no NATS server when it started.
    fn restart_if_ended(&mut self) {
        if self.process.as_mut().is_some_and(|process| process.check().is_err()) {
            self.launch();
        }
    }

    /// Returns the rows of one partition; `partitions` is the number of all.
    fn rows(&self, partition: u64, partitions: u64) -> Rows {
        let data = self.volume.data();
        let folder = match partitions {
            1 => data.join("queue"),
            _ => data.join("partitions").join(partition.to_string()),
        };
        let store = Directory::new(folder).open(&StoreOptions::default());
        let store = store.expect("the store of a killed node can be opened");
        let mut rows = Rows::new();
        for (number, table) in (0..).zip(Table::ALL) {
            for row in store.scan(table, &[], &[u8::MAX; 64]) {
                let (key, value) = row.expect("a readable row");
                rows.insert((number, key.to_vec()), value.to_vec());
            }
        }
        rows
    }
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), process.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -{name} {process}");
}

impl Nodes {
    pub(crate) fn start(folder: &Path, partitions: u64) -> Self {
        let nats = NatsCluster::start_with_links(&folder.join("nats"), 3);
        let nats = nats.expect("the NATS servers start");
        let nodes =
            NAMES.map(|name| Node::new(name, folder, &nats, partitions).expect("a node starts"));
        Self { nats, nodes: nodes.into(), partitions }
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    /// Returns the index of the node that owns the first partition, if a node knows it.
    pub(crate) fn owner(&self) -> Option<usize> {
        let status = self.nodes.iter().find_map(Node::status)?;
        let owner = &partitions(&status).next()?["owner"];
        NAMES.iter().position(|name| owner == *name)
    }

    pub(crate) fn restart_ended(&mut self) {
        self.nodes.iter_mut().for_each(Node::restart_if_ended);
    }

    /// Waits until all nodes know the same owner and have applied the same records.
    pub(crate) fn await_rest(&mut self) {
        let end = Instant::now() + PATIENCE;
        loop {
            self.restart_ended();
            let status: Vec<_> = self.nodes.iter().filter_map(Node::status).collect();
            if status.len() == 3
                && status.iter().all(|it| is_at_rest(it) && owners(it) == owners(&status[0]))
            {
                return;
            }
            if Instant::now() > end {
                self.print_logs();
                panic!("the cluster does not come to rest: {status:#?}");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Prints the ends of the nodes' logs.
    pub(crate) fn print_logs(&self) {
        for node in &self.nodes {
            let log = std::fs::read_to_string(&node.log).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            println!("{}: {:#?}", node.name, &lines[lines.len().saturating_sub(40)..]);
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        let status = self.nodes.iter().find_map(Node::status).unwrap_or_default();
        partitions(&status).filter_map(|partition| partition["epoch"].as_u64()).sum()
    }

    /// Kills all nodes once they have settled, and compares the rows on their disks.
    pub(crate) fn compare_rows(&mut self) -> Vec<String> {
        let mut position = (0, tickwheel_queue::store::replication::POSITION_KEY.to_vec());
        position.0 = (0..).zip(Table::ALL).find(|it| it.1 == Table::Index).expect("a table").0;
        for _ in 0..COMPARISONS {
            self.await_rest();
            self.nodes.iter_mut().for_each(Node::kill);
            let rows = |number: u64| -> Vec<_> {
                let of = |node: &Node| (node.name, node.rows(number, self.partitions));
                self.nodes.iter().map(of).collect()
            };
            let all: Vec<_> = (0..self.partitions).map(rows).collect();
            let is_at_one_position = |rows: &Vec<(&str, Rows)>| {
                let first = rows[0].1.get(&position);
                first.is_some() && rows.iter().all(|(_, rows)| rows.get(&position) == first)
            };
            if all.iter().all(is_at_one_position) {
                return all.iter().flat_map(|rows| replicas::compare(rows)).collect();
            }
            // A node was killed before it had applied the last record.
            self.nodes.iter_mut().for_each(Node::launch);
        }
        vec![format!("the replicas were never at the same position in {COMPARISONS} attempts")]
    }
}

/// Returns `true` if each partition has an owner, and all three replicas have applied the same
/// records.
fn is_at_rest(status: &Value) -> bool {
    let is_whole = |partition: &Value| {
        let replicas = partition["replicas"].as_array();
        let is_equal =
            |replica: &Value| replica["lag"] == 0 && replica["epoch"] == partition["epoch"];
        !partition["owner"].is_null()
            && replicas.is_some_and(|it| it.len() == 3 && it.iter().all(is_equal))
    };
    partitions(status).next().is_some() && partitions(status).all(is_whole)
}

/// Returns the owner and the position of each partition.
fn owners(status: &Value) -> Vec<(Value, Value)> {
    partitions(status).map(|it| (it["owner"].clone(), it["position"].clone())).collect()
}

fn partitions(status: &Value) -> impl Iterator<Item = &Value> {
    status["partitions"].as_array().into_iter().flatten()
}
