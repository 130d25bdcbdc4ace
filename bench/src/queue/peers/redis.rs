//! Redis: a sorted set of jobs by due time, a hash of payloads and one of keys, changed together by
//! scripts.
//!
//! Reserving a job moves it to the end of its lease; acknowledging removes it. Workers poll, because
//! Redis cannot notify them that a job has become due.

use std::thread::sleep;
use std::time::Instant;

use anyhow::{Result, ensure};
use redis::{Client, Connection, FromRedisValue, cmd};

use crate::queue::contender::{Caller, Contender, LEASE, PATIENCE, POLL, Pipelined};
use crate::queue::job::{Job, now_micros};

const DUE: &str = "due";
const PAYLOADS: &str = "payloads";
const KEYS: &str = "keys";

/// Arguments: due time, id, payload and key (or nothing) of each job.
const PUT: &str = "\
local due, payloads, keys = {}, {}, {}
for i = 1, #ARGV, 4 do
  due[#due + 1] = ARGV[i]
  due[#due + 1] = ARGV[i + 1]
  payloads[#payloads + 1] = ARGV[i + 1]
  payloads[#payloads + 1] = ARGV[i + 2]
  if ARGV[i + 3] ~= '' then
    keys[#keys + 1] = ARGV[i + 3]
    keys[#keys + 1] = ARGV[i + 1]
  end
end
redis.call('ZADD', KEYS[1], unpack(due))
redis.call('HSET', KEYS[2], unpack(payloads))
if #keys > 0 then redis.call('HSET', KEYS[3], unpack(keys)) end
return #payloads / 2";

/// Arguments: the time, the most jobs to reserve, and the end of the lease.
const RESERVE: &str = "\
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #ids == 0 then return {} end
local leases = {}
for i = 1, #ids do
  leases[#leases + 1] = ARGV[3]
  leases[#leases + 1] = ids[i]
end
redis.call('ZADD', KEYS[1], unpack(leases))
return {ids, redis.call('HMGET', KEYS[2], unpack(ids))}";

/// Arguments: ids.
const ACK: &str = "\
redis.call('HDEL', KEYS[2], unpack(ARGV))
return redis.call('ZREM', KEYS[1], unpack(ARGV))";

/// Argument: a key.
const CANCEL: &str = "\
local id = redis.call('HGET', KEYS[3], ARGV[1])
if not id then return 0 end
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[2], id)
return redis.call('ZREM', KEYS[1], id)";

pub(crate) struct Redis {
    client: Client,
}

impl Redis {
    /// Connects to the server on a port.
    pub(crate) fn connect(port: u16) -> Result<Self> {
        let peer = Self { client: Client::open(format!("redis://127.0.0.1:{port}/"))? };
        // While Redis loads its file, it refuses other commands.
        peer.pending()?;
        Ok(peer)
    }
}

impl Contender for Redis {
    type Caller = RedisCaller;

    fn caller(&self) -> Result<RedisCaller> {
        let mut connection = self.client.get_connection()?;
        let mut load =
            |script| cmd("SCRIPT").arg("LOAD").arg(script).query::<String>(&mut connection);
        let [put, reserve, ack, cancel] = [load(PUT)?, load(RESERVE)?, load(ACK)?, load(CANCEL)?];
        Ok(RedisCaller { connection, put, reserve, ack, cancel, next_id: random_start() })
    }

    fn pending(&self) -> Result<u64> {
        let mut connection = self.client.get_connection()?;
        Ok(cmd("ZCARD").arg(DUE).query(&mut connection)?)
    }
}

/// Returns the first id of a caller. Collisions are unlikely.
fn random_start() -> u64 {
    fastrand::u64(..) >> 8
}

pub(crate) struct RedisCaller {
    connection: Connection,
    put: String,
    reserve: String,
    ack: String,
    cancel: String,
    next_id: u64,
}

fn command(script: &str) -> redis::Cmd {
    let mut command = cmd("EVALSHA");
    command.arg(script).arg(3).arg(DUE).arg(PAYLOADS).arg(KEYS);
    command
}

fn call<T: FromRedisValue>(
    connection: &mut Connection,
    script: &str,
    arguments: impl FnOnce(&mut redis::Cmd),
) -> Result<T> {
    let mut command = command(script);
    arguments(&mut command);
    Ok(command.query(connection)?)
}

/// Adds the arguments of one job to a call of [`PUT`].
fn describe(command: &mut redis::Cmd, job: &Job, id: u64) {
    let key = job.key.as_deref().unwrap_or_default();
    command.arg(job.due).arg(id).arg(&job.payload[..]).arg(key);
}

impl Caller for RedisCaller {
    type Ticket = String;

    fn put(&mut self, jobs: Vec<Job>) -> Result<()> {
        let next_id = &mut self.next_id;
        let put: usize = call(&mut self.connection, &self.put, |command| {
            for job in &jobs {
                describe(command, job, *next_id);
                *next_id += 1;
            }
        })?;
        ensure!(put == jobs.len(), "Redis has put {put} of {} jobs", jobs.len());
        Ok(())
    }

    fn reserve(&mut self, most: usize) -> Result<Vec<(String, Vec<u8>)>> {
        let until = Instant::now() + PATIENCE;
        loop {
            let now = now_micros() / 1_000;
            let lease = now + LEASE.as_millis() as u64;
            let found: Vec<redis::Value> = call(&mut self.connection, &self.reserve, |command| {
                command.arg(now).arg(most).arg(lease);
            })?;
            if let Ok([ids, payloads]) = <[redis::Value; 2]>::try_from(found) {
                let ids: Vec<String> = redis::from_redis_value(ids)?;
                let payloads: Vec<Vec<u8>> = redis::from_redis_value(payloads)?;
                return Ok(ids.into_iter().zip(payloads).collect());
            }
            if Instant::now() >= until {
                return Ok(Vec::new());
            }
            sleep(POLL);
        }
    }

    fn ack(&mut self, ids: Vec<String>) -> Result<()> {
        let gone: usize = call(&mut self.connection, &self.ack, |command| {
            command.arg(&ids);
        })?;
        ensure!(gone == ids.len(), "Redis has acknowledged {gone} of {} jobs", ids.len());
        Ok(())
    }

    fn cancel(&mut self, key: &str) -> Result<()> {
        let gone: u64 = call(&mut self.connection, &self.cancel, |command| {
            command.arg(key);
        })?;
        ensure!(gone == 1, "Redis has no job with the key {key}");
        Ok(())
    }
}

impl Pipelined for RedisCaller {
    fn put_each(&mut self, jobs: Vec<Job>) -> Result<()> {
        let mut pipeline = redis::pipe();
        for job in &jobs {
            let mut command = command(&self.put);
            describe(&mut command, job, self.next_id);
            self.next_id += 1;
            pipeline.add_command(command);
        }
        let put: Vec<usize> = pipeline.query(&mut self.connection)?;
        let put: usize = put.into_iter().sum();
        ensure!(put == jobs.len(), "Redis has put {put} of {} jobs", jobs.len());
        Ok(())
    }
}
