//! `PostgreSQL` with a synchronous standby.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tickwheel_cluster::log::{
    AppendError, AppendId, Log, LogError, Position, Postgres, PostgresLog, PostgresOptions,
};
use tickwheel_test_servers::Proxy;
use tickwheel_test_servers::postgresql::{PostgresqlPair, STANDBY, USER};

use crate::cases::{self, Network, Subject, Unreliable};
use crate::{Suite, link};

pub(crate) fn run(suite: &Suite, folder: &Path) {
    let names: Vec<_> = cases::all::<Stream<'_>>()
        .iter()
        .map(|(name, _)| format!("postgres/{name}"))
        .chain(OWN_CASES.iter().map(|(name, _)| format!("postgres/{name}")))
        .collect();
    if !names.iter().any(|name| suite.wants(name)) {
        return;
    }
    let mut pair = PostgresqlPair::start(folder).unwrap();
    let postgres = Postgres::connect(options(pair.primary.port)).unwrap();
    for ((_, case), name) in cases::all::<Stream<'_>>().into_iter().zip(&names) {
        suite.run(name, || case(&Stream::create(&pair, &postgres)));
    }
    for (name, case) in OWN_CASES {
        suite.run(&format!("postgres/{name}"), || case(&mut pair, &postgres));
    }
}

type OwnCase = (&'static str, fn(&mut PostgresqlPair, &Postgres));

/// What only `PostgreSQL` can do wrong. The last case ends the primary.
const OWN_CASES: &[OwnCase] = &[
    ("creating_twice_is_refused", creating_twice_is_refused),
    ("a_missing_record_is_noticed", a_missing_record_is_noticed),
    ("a_server_without_standby_is_refused", a_server_without_standby_is_refused),
    ("an_append_waits_for_the_standby", an_append_waits_for_the_standby),
    ("a_cancelled_wait_is_no_acknowledgement", a_cancelled_wait_is_no_acknowledgement),
    ("a_fail_over_loses_nothing", a_fail_over_loses_nothing),
];

fn url(port: u16) -> String {
    format!("postgresql://{USER}@127.0.0.1:{port}/postgres")
}

fn options(port: u16) -> PostgresOptions {
    let mut options = PostgresOptions::new(url(port));
    // Long enough for a busy machine.
    options.timeout = Duration::from_secs(15);
    options
}

/// Options for cases in which the server does not answer.
fn impatient(port: u16) -> PostgresOptions {
    let mut options = options(port);
    options.timeout = Duration::from_millis(1500);
    options.attempt_timeout = Duration::from_millis(500);
    options
}

struct Stream<'a> {
    pair: &'a PostgresqlPair,
    postgres: &'a Postgres,
    name: String,
}

impl<'a> Stream<'a> {
    fn create(pair: &'a PostgresqlPair, postgres: &'a Postgres) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("case {}", COUNT.fetch_add(1, Ordering::Relaxed));
        create(postgres, &name);
        Self { pair, postgres, name }
    }
}

/// Creates a log; at first the standby may still be connecting.
fn create(postgres: &Postgres, name: &str) {
    while let Err(error) = postgres.create(name) {
        match error {
            LogError::Unavailable(_) => {}
            LogError::Exists(_) => break,
            error => panic!("{error:?}"),
        }
    }
}

fn open(postgres: &Postgres, name: &str) -> PostgresLog {
    loop {
        match postgres.open(name) {
            Ok(log) => return log,
            Err(LogError::Unavailable(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

impl Subject for Stream<'_> {
    fn open(&self) -> Box<dyn Log> {
        Box::new(open(self.postgres, &self.name))
    }

    fn open_unreliable(&self) -> Unreliable {
        let proxy = Proxy::start(self.pair.primary.port).unwrap();
        let postgres = Postgres::connect(impatient(proxy.port)).unwrap();
        let log = open(&postgres, &self.name);
        let set = Box::new(move |network: Network| proxy.set(link(network)));
        Unreliable { log: Box::new(log), set }
    }

    fn empty(&self) {
        let name = &self.name;
        execute(
            self.pair.primary.port,
            &format!(
                "delete from tickwheel.record where log = '{name}';
                 update tickwheel.log set first = last + 1 where name = '{name}'"
            ),
        );
    }

    fn recreate(&self) {
        self.postgres.delete(&self.name).unwrap();
        self.postgres.create(&self.name).unwrap();
    }
}

/// Runs statements beside the log, as an operator does, and returns the values of the first column.
fn execute(port: u16, statements: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(&url(port), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let messages = client.simple_query(statements).await.unwrap();
        let first_column = |message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        messages.into_iter().filter_map(first_column).collect()
    })
}

fn append_once(log: &dyn Log, after: u64, text: &str) -> Result<Position, AppendError> {
    let record = Bytes::from(text.to_owned());
    log.append(Position(after), AppendId::of(&record), &record)
}

fn append(log: &dyn Log, after: u64, text: &str) -> Result<Position, AppendError> {
    loop {
        match append_once(log, after, text) {
            Err(error) if error.is_worth_repeating() => {}
            settled => return settled,
        }
    }
}

fn creating_twice_is_refused(_: &mut PostgresqlPair, postgres: &Postgres) {
    create(postgres, "twice");
    let again = postgres.create("twice");
    assert!(matches!(again, Err(LogError::Exists(_))), "{again:?}");
    let missing = postgres.open("missing").map(drop);
    assert!(matches!(missing, Err(LogError::Missing(_))), "{missing:?}");
    let unreadable = Postgres::connect(PostgresOptions::new("postgresql://a:b:c"));
    assert!(unreadable.is_err());
}

fn a_missing_record_is_noticed(pair: &mut PostgresqlPair, postgres: &Postgres) {
    create(postgres, "hole");
    let log = open(postgres, "hole");
    for after in 0..4 {
        append(&log, after, &after.to_string()).unwrap();
    }
    let delete = "delete from tickwheel.record where log = 'hole' and position = 3";
    execute(pair.primary.port, delete);
    assert_eq!(log.read(Position(1), 1 << 20).unwrap().len(), 2);
    let missing = log.read(Position(3), 1 << 20);
    assert!(matches!(missing, Err(LogError::Damaged(_))), "{missing:?}");
}

fn a_server_without_standby_is_refused(pair: &mut PostgresqlPair, postgres: &Postgres) {
    create(postgres, "alone");
    let log = open(postgres, "alone");
    append(&log, 0, "before").unwrap();
    let port = pair.primary.port;
    let set = |names: &str| {
        execute(port, &format!("alter system set synchronous_standby_names = '{names}'"));
        execute(port, "select pg_reload_conf()");
        while execute(port, "show synchronous_standby_names") != [names] {}
    };
    execute(port, &format!("alter role {USER} set synchronous_commit = off"));
    assert_eq!(append(&log, 1, "a role's setting changes nothing"), Ok(Position(2)));
    execute(port, &format!("alter role {USER} reset synchronous_commit"));
    set("");
    let refused = Postgres::connect(options(port)).unwrap_err();
    assert!(matches!(refused, LogError::Unsafe(_)), "{refused:?}");
    // Connections that are open notice it as well.
    let refused = loop {
        match append_once(&log, 2, "alone") {
            Err(AppendError::Failed(LogError::Unavailable(_))) => {}
            answer => break answer,
        }
    };
    assert!(matches!(refused, Err(AppendError::Failed(LogError::Unsafe(_)))), "{refused:?}");
    let mut lazy = options(port);
    lazy.allow_lazy_sync = true;
    let allowed = open(&Postgres::connect(lazy).unwrap(), "alone");
    assert_eq!(append(&allowed, 2, "alone, as allowed"), Ok(Position(3)));
    set(STANDBY);
    assert_eq!(append(&log, 3, "with a standby again"), Ok(Position(4)));
}

fn an_append_waits_for_the_standby(pair: &mut PostgresqlPair, postgres: &Postgres) {
    create(postgres, "waiting");
    let log = open(&Postgres::connect(impatient(pair.primary.port)).unwrap(), "waiting");
    append(&log, 0, "before").unwrap();
    pair.standby.process().pause().unwrap();
    let waiting = append_once(&log, 1, "waits");
    assert!(matches!(waiting, Err(AppendError::Unknown(_))), "{waiting:?}");
    // It is not visible before it is replicated.
    assert_eq!(log.state().unwrap().last, Position(1));
    pair.standby.process().resume().unwrap();
    assert_eq!(append(&log, 1, "waits"), Ok(Position(2)));
    assert_eq!(append(&log, 2, "after"), Ok(Position(3)));
}

/// An operator cancels the wait for the standby. `PostgreSQL` then reports success.
fn a_cancelled_wait_is_no_acknowledgement(pair: &mut PostgresqlPair, postgres: &Postgres) {
    create(postgres, "cancelled");
    let mut patient = options(pair.primary.port);
    patient.attempt_timeout = Duration::from_secs(3);
    patient.timeout = Duration::from_secs(4);
    let log = open(&Postgres::connect(patient).unwrap(), "cancelled");
    append(&log, 0, "before").unwrap();
    let port = pair.primary.port;
    pair.standby.process().pause().unwrap();
    let answer = std::thread::scope(|scope| {
        let appending = scope.spawn(|| append_once(&log, 1, "cancelled"));
        let cancel = "select pg_cancel_backend(pid) from pg_stat_activity
            where wait_event = 'SyncRep' and application_name = 'tickwheel'";
        let mut is_cancelled = false;
        while !is_cancelled && !appending.is_finished() {
            is_cancelled = !execute(port, cancel).is_empty();
        }
        assert!(is_cancelled, "the append has ended before its wait was cancelled");
        appending.join().unwrap()
    });
    assert!(matches!(answer, Err(AppendError::Unknown(_))), "{answer:?}");
    pair.standby.process().resume().unwrap();
    assert_eq!(append(&log, 1, "cancelled"), Ok(Position(2)));
}

fn a_fail_over_loses_nothing(pair: &mut PostgresqlPair, postgres: &Postgres) {
    create(postgres, "fail-over");
    let (primary, standby) = (pair.primary.port, pair.standby.port);
    let mut both = impatient(primary);
    both.url = format!("postgresql://{USER}@127.0.0.1:{primary},127.0.0.1:{standby}/postgres");
    // The new primary has no standby.
    both.allow_lazy_sync = true;
    let log = open(&Postgres::connect(both).unwrap(), "fail-over");
    for after in 0..20 {
        append(&log, after, &after.to_string()).unwrap();
    }
    pair.primary.kill().unwrap();
    let lost = append_once(&log, 20, "20");
    assert!(lost.is_err(), "{lost:?}");
    // As an operator does after the loss of a server: the standby waits for no other.
    execute(standby, "alter system set synchronous_standby_names = ''");
    execute(standby, "select pg_reload_conf()");
    execute(standby, "select pg_promote()");
    assert_eq!(append(&log, 20, "20"), Ok(Position(21)));
    let records = log.read(Position(1), 1 << 20).unwrap();
    assert_eq!(records.len(), 21);
    for (number, entry) in records.iter().enumerate() {
        assert_eq!(entry.record, number.to_string());
    }
}
