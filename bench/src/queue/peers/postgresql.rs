//! PostgreSQL: a table of jobs with an index by due time, reserved with `FOR UPDATE SKIP LOCKED`.
//!
//! Reserving a job moves it to the end of its lease; acknowledging deletes it. Workers poll: a
//! notification could tell them about a put, but not that a job has become due.

use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use postgres::{Client, Config, NoTls, Statement};

use crate::queue::contender::{Caller, Contender, LEASE, PATIENCE, POLL};
use crate::queue::job::{Job, now_micros};

const TABLE: &str = "
CREATE TABLE IF NOT EXISTS jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    due bigint NOT NULL,
    key text,
    payload bytea NOT NULL
);
CREATE INDEX IF NOT EXISTS jobs_due ON jobs (due);
CREATE UNIQUE INDEX IF NOT EXISTS jobs_key ON jobs (key) WHERE key IS NOT NULL;";

const PUT: &str = "INSERT INTO jobs (due, key, payload) VALUES ($1, $2, $3)";
const PUT_ALL: &str = "INSERT INTO jobs (due, key, payload) \
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[])";
const RESERVE: &str = "UPDATE jobs SET due = $3 WHERE id IN (\
    SELECT id FROM jobs WHERE due <= $1 ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) \
    RETURNING id, payload";
const ACK: &str = "DELETE FROM jobs WHERE id = ANY($1)";
const CANCEL: &str = "DELETE FROM jobs WHERE key = $1";

pub(crate) struct Postgresql {
    config: Config,
}

impl Postgresql {
    /// Connects to the server on a port.
    pub(crate) fn connect(port: u16, user: &str) -> Result<Self> {
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user(user).dbname("postgres");
        config.connect(NoTls)?.batch_execute(TABLE)?;
        Ok(Self { config })
    }
}

impl Contender for Postgresql {
    type Caller = PostgresqlCaller;

    fn caller(&self) -> Result<PostgresqlCaller> {
        let mut client = self.config.connect(NoTls)?;
        let mut prepare = |text| client.prepare(text);
        let [put, put_all, reserve, ack, cancel] =
            [prepare(PUT)?, prepare(PUT_ALL)?, prepare(RESERVE)?, prepare(ACK)?, prepare(CANCEL)?];
        Ok(PostgresqlCaller { client, put, put_all, reserve, ack, cancel })
    }

    fn pending(&self) -> Result<u64> {
        let row = self.config.connect(NoTls)?.query_one("SELECT count(*) FROM jobs", &[])?;
        Ok(row.get::<_, i64>(0).cast_unsigned())
    }
}

pub(crate) struct PostgresqlCaller {
    client: Client,
    put: Statement,
    put_all: Statement,
    reserve: Statement,
    ack: Statement,
    cancel: Statement,
}

impl Caller for PostgresqlCaller {
    type Ticket = i64;

    fn put(&mut self, mut jobs: Vec<Job>) -> Result<()> {
        let asked = jobs.len() as u64;
        let put = if asked == 1 {
            let Job { due, key, payload, .. } = jobs.pop().context("there is one")?;
            self.client.execute(&self.put, &[&due.cast_signed(), &key, &payload])?
        } else {
            let due: Vec<i64> = jobs.iter().map(|job| job.due.cast_signed()).collect();
            let keys: Vec<Option<&str>> = jobs.iter().map(|job| job.key.as_deref()).collect();
            let payloads: Vec<&[u8]> = jobs.iter().map(|job| &job.payload[..]).collect();
            self.client.execute(&self.put_all, &[&due, &keys, &payloads])?
        };
        ensure!(put == asked, "PostgreSQL has put {put} of {asked} jobs");
        Ok(())
    }

    fn reserve(&mut self, most: usize) -> Result<Vec<(i64, Vec<u8>)>> {
        let until = Instant::now() + PATIENCE;
        let most = i64::try_from(most)?;
        loop {
            let now = (now_micros() / 1_000).cast_signed();
            let lease = now + LEASE.as_millis() as i64;
            let rows = self.client.query(&self.reserve, &[&now, &most, &lease])?;
            if !rows.is_empty() || Instant::now() >= until {
                return Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect());
            }
            sleep(POLL);
        }
    }

    fn ack(&mut self, ids: Vec<i64>) -> Result<()> {
        let gone = self.client.execute(&self.ack, &[&ids])?;
        ensure!(gone == ids.len() as u64, "PostgreSQL has deleted {gone} of {} jobs", ids.len());
        Ok(())
    }

    fn cancel(&mut self, key: &str) -> Result<()> {
        let gone = self.client.execute(&self.cancel, &[&key])?;
        ensure!(gone == 1, "PostgreSQL has no job with the key {key}");
        Ok(())
    }
}
