//! The processes: three NATS servers and three nodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tickwheel_queue::store::{Directory, Disk, StoreOptions, Table};
use tickwheel_test_servers::nats::NatsCluster;

const NAMES: [&str; 3] = ["a", "b", "c"];
/// How long the cluster may take to come to rest after the last fault.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Nodes {
    nats: NatsCluster,
    nodes: Vec<Node>,
}

struct Node {
    name: &'static str,
    address: String,
    folder: PathBuf,
    arguments: Vec<String>,
    child: Child,
}

/// Whom a fault hits.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    Node,
    Server,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    fn launch(&mut self) {
        self.child = spawn(self.name, &self.folder, &self.arguments);
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(name: &str, folder: &Path, arguments: &[String]) -> Child {
    let log = folder.with_file_name(format!("{name}.log"));
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log");
    Command::new(env!("CARGO_BIN_EXE_tickwheel"))
        .arg("serve")
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the binary starts")
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), process.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -{name} {process}");
}

impl Nodes {
    pub(crate) fn start(folder: &Path) -> Self {
        let nats = NatsCluster::start(&folder.join("nats"), 3).expect("the NATS servers start");
        let mut nodes = Vec::new();
        for name in NAMES {
            let port = std::net::TcpListener::bind("127.0.0.1:0")
                .and_then(|listener| listener.local_addr())
                .expect("a free port")
                .port();
            let data = folder.join(name);
            let listen = format!("127.0.0.1:{port}");
            let arguments: Vec<_> = [
                ("--listen", listen.clone()),
                ("--data", data.display().to_string()),
                ("--cluster", nats.urls().join(",")),
                ("--cluster-monitors", nats.monitors().join(",")),
                ("--node", name.to_owned()),
                ("--access-log", "none".to_owned()),
            ]
            .into_iter()
            .flat_map(|(flag, value)| [flag.to_owned(), value])
            .chain(["--cluster-create".to_owned()])
            .collect();
            let child = spawn(name, &data, &arguments);
            let address = format!("http://{listen}");
            nodes.push(Node { name, address, folder: data, arguments, child });
        }
        Self { nats, nodes }
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    /// Kills or stops a process, and starts or continues it after a while.
    pub(crate) fn inflict(
        &mut self,
        target: Target,
        index: usize,
        kills: bool,
        random: &mut fastrand::Rng,
    ) {
        let pause = Duration::from_millis(random.u64(200..6_000));
        match (target, kills) {
            (Target::Node, true) => {
                self.nodes[index].kill();
                std::thread::sleep(pause / 3);
                self.nodes[index].launch();
            }
            (Target::Node, false) => {
                let process = self.nodes[index].child.id();
                signal(process, "STOP");
                std::thread::sleep(pause);
                signal(process, "CONT");
            }
            (Target::Server, true) => {
                self.nats.kill(index).expect("it can be killed");
                std::thread::sleep(pause / 3);
                self.nats.restart(index).expect("it starts again");
            }
            (Target::Server, false) => {
                let process = self.nats.servers[index].process().id();
                signal(process, "STOP");
                std::thread::sleep(pause);
                signal(process, "CONT");
            }
        }
        self.restart_ended();
    }

    /// A node that found no NATS server when it started has ended.
    fn restart_ended(&mut self) {
        for node in &mut self.nodes {
            if node.child.try_wait().is_ok_and(|status| status.is_some()) {
                node.launch();
            }
        }
    }

    fn status(address: &str) -> Option<Value> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(2)))
            .build()
            .into();
        let text = agent.get(format!("{address}/v1/cluster")).call().ok()?;
        let text = text.into_body().read_to_string().ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Waits until all nodes know one owner and have applied the same.
    pub(crate) fn await_rest(&mut self) {
        let end = Instant::now() + PATIENCE;
        loop {
            self.restart_ended();
            let status: Vec<_> =
                self.nodes.iter().filter_map(|node| Self::status(&node.address)).collect();
            if status.len() == 3
                && status.iter().all(|it| is_at_rest(it) && owners(it) == owners(&status[0]))
            {
                return;
            }
            if Instant::now() > end {
                for node in &self.nodes {
                    let log = node.folder.with_file_name(format!("{}.log", node.name));
                    let log = std::fs::read_to_string(log).unwrap_or_default();
                    let tail: Vec<_> = log.lines().rev().take(15).collect();
                    println!("{}: {tail:#?}", node.name);
                }
                panic!("the cluster does not come to rest: {status:#?}");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        let status = self.nodes.iter().find_map(|node| Self::status(&node.address));
        let epochs = |status: &Value| {
            let partitions = status["partitions"].as_array().into_iter().flatten();
            partitions.filter_map(|partition| partition["epoch"].as_u64()).sum()
        };
        status.as_ref().map_or(0, epochs)
    }

    /// Kills all nodes at rest, and compares what they have on disk.
    pub(crate) fn compare_rows(&mut self) -> Vec<String> {
        self.await_rest();
        for node in &mut self.nodes {
            node.kill();
        }
        let rows: Vec<_> = self.nodes.iter().map(|node| rows(&node.folder)).collect();
        let mut wrong = Vec::new();
        for (node, other) in self.nodes.iter().zip(&rows).skip(1) {
            let same_end = other.get(&POSITION) == rows[0].get(&POSITION);
            if same_end && *other != rows[0] {
                wrong.push(format!("the rows of {} and {} differ", self.nodes[0].name, node.name));
            }
        }
        wrong
    }
}

/// Each partition has an owner, and all three replicas have applied the same.
fn is_at_rest(status: &Value) -> bool {
    let is_whole = |partition: &Value| {
        let replicas = partition["replicas"].as_array();
        let is_equal =
            |replica: &Value| replica["lag"] == 0 && replica["epoch"] == partition["epoch"];
        !partition["owner"].is_null()
            && replicas.is_some_and(|it| it.len() == 3 && it.iter().all(is_equal))
    };
    let partitions = status["partitions"].as_array();
    partitions.is_some_and(|partitions| !partitions.is_empty() && partitions.iter().all(is_whole))
}

/// The owner and the position of each partition.
fn owners(status: &Value) -> Vec<(Value, Value)> {
    let partitions = status["partitions"].as_array().into_iter().flatten();
    partitions.map(|it| (it["owner"].clone(), it["position"].clone())).collect()
}

type Key = (Table, Vec<u8>);

/// The row with the position in the log.
static POSITION: std::sync::LazyLock<Key> = std::sync::LazyLock::new(|| {
    (Table::Index, tickwheel_queue::store::replication::POSITION_KEY.to_vec())
});

fn rows(folder: &Path) -> BTreeMap<Key, Vec<u8>> {
    let store = Directory::new(folder.join("queue")).open(&StoreOptions::default());
    let store = store.expect("the store of a killed node can be opened");
    let mut rows = BTreeMap::new();
    for table in Table::ALL {
        for row in store.scan(table, &[], &[u8::MAX; 64]) {
            let (key, value) = row.expect("a readable row");
            rows.insert((table, key.to_vec()), value.to_vec());
        }
    }
    rows
}
