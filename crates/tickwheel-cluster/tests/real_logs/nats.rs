//! NATS `JetStream`: three servers that sync every write.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tickwheel_cluster::log::{AppendError, AppendId, Log, LogError, Nats, NatsOptions, Position};
use tickwheel_test_servers::Proxy;
use tickwheel_test_servers::nats::NatsCluster;

use crate::cases::{self, Network, Subject, Unreliable};
use crate::{Suite, link};

pub(crate) fn run(suite: &Suite, folder: &Path) {
    let names: Vec<_> = cases::all::<Stream<'_>>()
        .iter()
        .map(|(name, _)| format!("nats/{name}"))
        .chain(OWN_CASES.iter().map(|(name, _)| format!("nats/{name}")))
        .collect();
    if !names.iter().any(|name| suite.wants(name)) {
        return;
    }
    let mut servers = NatsCluster::start(folder, 3).unwrap();
    let nats = connect(&servers);
    for ((_, case), name) in cases::all::<Stream<'_>>().into_iter().zip(&names) {
        suite.run(name, || case(&Stream::create(&servers, &nats)));
    }
    for (name, case) in OWN_CASES {
        suite.run(&format!("nats/{name}"), || case(&mut servers, &nats));
    }
}

type OwnCase = (&'static str, fn(&mut NatsCluster, &Nats));

/// What only NATS can do wrong.
const OWN_CASES: &[OwnCase] = &[
    ("lazy_sync_is_refused", lazy_sync_is_refused),
    ("an_unknown_replica_is_refused", an_unknown_replica_is_refused),
    ("a_server_that_was_down_is_checked_later", a_server_that_was_down_is_checked_later),
    ("creating_twice_is_refused", creating_twice_is_refused),
    ("nodes_that_create_at_once_can_open", nodes_that_create_at_once_can_open),
    ("a_foreign_stream_is_refused", a_foreign_stream_is_refused),
    ("a_repetition_after_the_servers_forgot_its_id", a_repetition_after_the_servers_forgot_its_id),
    ("a_paused_leader_loses_nothing", a_paused_leader_loses_nothing),
    ("killed_servers_lose_nothing", killed_servers_lose_nothing),
];

fn options(servers: &NatsCluster) -> NatsOptions {
    let mut options = NatsOptions::new(servers.urls());
    options.monitors = servers.monitors();
    // Long enough for an election on a busy machine.
    options.timeout = Duration::from_secs(15);
    options
}

/// Connects, and waits until `JetStream` can create streams.
fn connect(servers: &NatsCluster) -> Nats {
    let nats = Nats::connect(options(servers)).unwrap();
    while nats.create("probe").is_err_and(|error| !matches!(error, LogError::Exists(_))) {}
    nats
}

struct Stream<'a> {
    servers: &'a NatsCluster,
    nats: &'a Nats,
    name: String,
}

impl<'a> Stream<'a> {
    fn create(servers: &'a NatsCluster, nats: &'a Nats) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("case-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        create(nats, &name);
        Self { servers, nats, name }
    }
}

/// Creates a stream; a busy cluster may need several requests.
fn create(nats: &Nats, name: &str) {
    while let Err(error) = nats.create(name) {
        if matches!(error, LogError::Exists(_)) {
            break;
        }
    }
}

/// Opens a log; while its servers elect a leader they do not answer.
fn open(nats: &Nats, name: &str) -> impl Log + use<> {
    loop {
        match nats.open(name) {
            Ok(log) => return log,
            Err(LogError::Unavailable(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

impl Subject for Stream<'_> {
    fn open(&self) -> Box<dyn Log> {
        Box::new(open(self.nats, &self.name))
    }

    fn open_unreliable(&self) -> Unreliable {
        let proxy = Proxy::start(self.servers.servers[0].port).unwrap();
        let mut options = options(self.servers);
        options.servers = vec![format!("nats://127.0.0.1:{}", proxy.port)];
        options.ignore_discovered_servers = true;
        options.timeout = Duration::from_millis(1500);
        options.attempt_timeout = Duration::from_millis(500);
        let nats = Nats::connect(options).unwrap();
        let log = open(&nats, &self.name);
        let set = Box::new(move |network: Network| proxy.set(link(network)));
        Unreliable { log: Box::new(log), set }
    }

    fn empty(&self) {
        let purge = format!("$JS.API.STREAM.PURGE.{}", self.name);
        request(self.nats, purge, "");
    }

    fn recreate(&self) {
        self.nats.delete(&self.name).unwrap();
        create(self.nats, &self.name);
    }
}

/// Sends a request beside the log, as an operator does, until it succeeds. Servers that were just
/// started refuse some.
fn request(nats: &Nats, subject: String, body: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    loop {
        let asking = nats.client().request(subject.clone(), body.to_owned().into());
        let Ok(answer) = runtime.block_on(asking) else { continue };
        let answer = String::from_utf8(answer.payload.to_vec()).unwrap();
        if !answer.contains(r#""error""#) {
            return answer;
        }
    }
}

fn append(log: &dyn Log, after: u64, text: &str) -> Result<Position, AppendError> {
    let record = Bytes::from(text.to_owned());
    loop {
        match log.append(Position(after), AppendId::of(&record), &record) {
            Err(error) if error.is_worth_repeating() => {}
            settled => return settled,
        }
    }
}

fn lazy_sync_is_refused(_: &mut NatsCluster, _: &Nats) {
    let folder = tempfile::tempdir().unwrap();
    let lazy = NatsCluster::start_with(folder.path(), 1, "10s").unwrap();
    let refused = Nats::connect(options(&lazy)).unwrap_err();
    assert!(matches!(refused, LogError::Unsafe(_)), "{refused:?}");
    assert!(refused.to_string().contains("sync_interval: always"), "{refused}");
    let mut allowed = options(&lazy);
    allowed.allow_lazy_sync = true;
    Nats::connect(allowed).unwrap();
}

fn an_unknown_replica_is_refused(servers: &mut NatsCluster, nats: &Nats) {
    create(nats, "unknown-replica");
    let mut one = options(servers);
    one.monitors.truncate(1);
    let nats = Nats::connect(one).unwrap();
    let refused = loop {
        match nats.open("unknown-replica") {
            Err(LogError::Unavailable(_)) => {}
            answer => break answer.map(drop),
        }
    };
    assert!(matches!(refused, Err(LogError::Unsafe(_))), "{refused:?}");
    let mut unreachable = options(servers);
    unreachable.monitors = vec!["http://127.0.0.1:1".into()];
    let refused = Nats::connect(unreachable).unwrap_err();
    assert!(refused.to_string().contains("127.0.0.1:1/varz"), "{refused}");
}

fn a_server_that_was_down_is_checked_later(servers: &mut NatsCluster, nats: &Nats) {
    create(nats, "checked-later");
    servers.kill(2).unwrap();
    // Two of three servers are checked.
    let nats = Nats::connect(options(servers)).unwrap();
    servers.restart(2).unwrap();
    // It has a replica again that takes part in a quorum.
    let info = || request(&nats, "$JS.API.STREAM.INFO.checked-later".into(), "");
    while info().contains(r#""offline":true"#) {}
    let log = open(&nats, "checked-later");
    assert_eq!(append(&log, 0, "first"), Ok(Position(1)));
}

fn nodes_that_create_at_once_can_open(servers: &mut NatsCluster, _: &Nats) {
    // Each on a connection to another server.
    let connect = |url| {
        let mut options = options(servers);
        options.servers = vec![url];
        Nats::connect(options).unwrap()
    };
    let nodes: Vec<_> = servers.urls().into_iter().map(connect).collect();
    for round in 0..20 {
        let name = format!("at-once-{round}");
        std::thread::scope(|scope| {
            for node in &nodes {
                scope.spawn(|| {
                    match node.create(&name) {
                        Ok(()) | Err(LogError::Exists(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                    node.open(&name).unwrap();
                });
            }
        });
        nodes[0].delete(&name).unwrap();
    }
}

fn creating_twice_is_refused(_: &mut NatsCluster, nats: &Nats) {
    create(nats, "twice");
    let again = nats.create("twice");
    assert!(matches!(again, Err(LogError::Exists(_))), "{again:?}");
    let missing = nats.open("missing").map(drop);
    assert!(matches!(missing, Err(LogError::Missing(_))), "{missing:?}");
    for name in ["", "a.b", "a*", "a b", "ä"] {
        assert!(nats.create(name).is_err(), "{name:?}");
    }
}

fn a_foreign_stream_is_refused(_: &mut NatsCluster, nats: &Nats) {
    let body = r#"{"name":"foreign","subjects":["foreign"],"storage":"file","num_replicas":3}"#;
    request(nats, "$JS.API.STREAM.CREATE.foreign".into(), body);
    let refused = nats.open("foreign").map(drop);
    assert!(matches!(refused, Err(LogError::Unsafe(_))), "{refused:?}");
}

/// The servers remember message ids for two minutes. This shortens that, and waits until they have
/// forgotten one.
fn a_repetition_after_the_servers_forgot_its_id(_: &mut NatsCluster, nats: &Nats) {
    create(nats, "forgetful");
    let log = open(nats, "forgetful");
    let info: serde_json::Value =
        serde_json::from_str(&request(nats, "$JS.API.STREAM.INFO.forgetful".into(), "")).unwrap();
    let mut config = info["config"].clone();
    config["duplicate_window"] = 100_000_000.into();
    request(nats, "$JS.API.STREAM.UPDATE.forgetful".into(), &config.to_string());
    append(&log, 0, "first").unwrap();
    append(&log, 1, "second").unwrap();
    let id = format!("1-{}", AppendId::of(b"first"));
    let subject = config["subjects"][0].as_str().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    loop {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Nats-Msg-Id", id.as_str());
        headers.insert("Nats-Expected-Last-Sequence", "0");
        let asking = nats.client().request_with_headers(subject.clone(), headers, "first".into());
        let answer = runtime.block_on(asking).unwrap();
        if String::from_utf8_lossy(&answer.payload).contains("wrong last sequence") {
            break;
        }
    }
    assert_eq!(append(&log, 0, "first"), Ok(Position(1)));
    let other = append(&log, 0, "another");
    assert_eq!(other, Err(AppendError::Conflict { last: Position(2) }));
}

/// The server that leads a stream.
fn leader_of(nats: &Nats, servers: &NatsCluster, name: &str) -> usize {
    loop {
        let info = request(nats, format!("$JS.API.STREAM.INFO.{name}"), "");
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        let leader = info["cluster"]["leader"].as_str();
        if let Some(index) = servers.servers.iter().position(|it| Some(&it.name[..]) == leader) {
            return index;
        }
    }
}

/// The leader hangs, the others elect a new one, and the old one continues and does not know that
/// yet. A writer that only talks to the old one is told nothing that is false.
fn a_paused_leader_loses_nothing(servers: &mut NatsCluster, nats: &Nats) {
    create(nats, "paused");
    let log = Arc::new(open(nats, "paused"));
    append(&*log, 0, "before").unwrap();
    let leader = leader_of(nats, servers, "paused");
    let mut at_leader = options(servers);
    at_leader.servers = vec![servers.urls().swap_remove(leader)];
    at_leader.ignore_discovered_servers = true;
    let stale = open(&Nats::connect(at_leader).unwrap(), "paused");

    let mut of_others = options(servers);
    of_others.servers.remove(leader);
    of_others.ignore_discovered_servers = true;
    let other = open(&Nats::connect(of_others).unwrap(), "paused");
    servers.servers[leader].process().pause().unwrap();
    assert_eq!(append(&other, 1, "by the new leader"), Ok(Position(2)));
    assert_eq!(append(&other, 2, "once more"), Ok(Position(3)));
    servers.servers[leader].process().resume().unwrap();

    let fenced = append(&stale, 1, "by the stale writer");
    assert!(matches!(fenced, Err(AppendError::Conflict { .. })), "{fenced:?}");
    assert_eq!(append(&stale, 3, "at the right place"), Ok(Position(4)));
    let records: Vec<_> = read_all(&stale, 4);
    assert_eq!(records, ["before", "by the new leader", "once more", "at the right place"]);
}

/// Reads the log up to a position.
fn read_all(log: &dyn Log, last: u64) -> Vec<Bytes> {
    let mut records = Vec::new();
    while records.len() < last as usize {
        match log.read(Position(records.len() as u64 + 1), 1 << 20) {
            Ok(entries) => records.extend(entries.into_iter().map(|entry| entry.record)),
            Err(LogError::Unavailable(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    records
}

/// All servers are killed in turn, and at last all at once, while a writer appends.
fn killed_servers_lose_nothing(servers: &mut NatsCluster, nats: &Nats) {
    create(nats, "killed");
    let log = open(nats, "killed");
    let mut appended = 0;
    let mut write = |count: u64| {
        for _ in 0..count {
            append(&log, appended, &format!("record {appended}")).unwrap();
            appended += 1;
        }
    };
    write(5);
    for index in 0..3 {
        servers.kill(index).unwrap();
        write(5);
        servers.restart(index).unwrap();
        write(5);
    }
    for index in 0..3 {
        servers.kill(index).unwrap();
    }
    for index in 0..3 {
        servers.restart(index).unwrap();
    }
    write(5);
    for (number, record) in (0..).zip(read_all(&log, appended)) {
        assert_eq!(record, format!("record {number}"));
    }
}
