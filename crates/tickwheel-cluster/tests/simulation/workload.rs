//! Clients that put, cancel, reserve, acknowledge, fail, extend and read, at any node.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tickwheel_cluster::State as PartitionState;
use tickwheel_queue::{Error, JobId, Lease, NewJob, Queues, Retry};

use crate::history::{Event, Outcome, Span};
use crate::world::{NODES, Node, World, lock};

const QUEUE: &str = "jobs";
const LEASE_MS: u64 = 8_000;

/// What an operation gave.
enum Value {
    Nothing,
    Deliveries(Vec<Lease>),
}

type Operation = Pin<Box<dyn Future<Output = Result<Value, Error>>>>;

/// What the clients remember.
#[derive(Default)]
pub(crate) struct Clients {
    jobs: Vec<JobId>,
    leases: Vec<Lease>,
}

impl Clients {
    /// Performs some operations at a node, in one group.
    pub(crate) fn act(&mut self, world: &Arc<World>) {
        let number = world.random(NODES as u64) as usize;
        let mut sent: Vec<(Option<Event>, Operation)> = Vec::new();
        let queues = world.run(number, |node| {
            let partition = node.partition.as_ref()?;
            partition.queue().map(|queue| queue.queues.clone())
        });
        let Some(queues) = queues.flatten() else { return };
        if world.one_in(4) {
            self.read(world, number);
        }
        for _ in 0..=world.random(4) {
            sent.push(self.operation(world, &queues));
        }
        drop(queues);
        let time = world.now_ms();
        let mut results: Vec<Option<Result<Value, Error>>> = sent.iter().map(|_| None).collect();
        world.run(number, |node| {
            poll(&mut sent, &mut results);
            for _ in 0..4 {
                step(node);
                poll(&mut sent, &mut results);
            }
        });
        // After a crash, the rest of the answers is never given, or says that nothing is known.
        poll(&mut sent, &mut results);
        for ((event, _), result) in sent.into_iter().zip(results) {
            self.note(world, time, event, result);
        }
    }

    fn operation(&mut self, world: &Arc<World>, queues: &Queues) -> (Option<Event>, Operation) {
        let queues = queues.clone();
        let any = |list: &[Lease]| {
            (!list.is_empty()).then(|| list[world.random(list.len() as u64) as usize])
        };
        match (world.random(10), any(&self.leases)) {
            (0..=3, _) => {
                let id = self.new_id(world);
                let key = world.one_in(3).then(|| world.random(4) as u32);
                let delay_ms = if world.one_in(2) { 0 } else { world.random(20_000) };
                let payload = vec![b'x'; world.random(900) as usize];
                let job = NewJob::new(QUEUE, payload).id(id).max_attempts(1_000);
                let job = job.delay(Duration::from_millis(delay_ms));
                let job = match key {
                    Some(key) => job.key(format!("key-{key}")),
                    None => job,
                };
                let put = async move { queues.put(job).await.map(|_| Value::Nothing) };
                (Some(Event::Put { id, key, delay_ms }), Box::pin(put))
            }
            (4, _) if !self.jobs.is_empty() => {
                let id = self.jobs[world.random(self.jobs.len() as u64) as usize];
                let cancel = async move { queues.cancel(id).await.map(|_| Value::Nothing) };
                (Some(Event::Cancel { id }), Box::pin(cancel))
            }
            (5, Some(lease)) => {
                let ack = async move { queues.ack(lease).await.map(|()| Value::Nothing) };
                (Some(Event::Ack { id: lease.id, token: lease.token }), Box::pin(ack))
            }
            (6, Some(lease)) => {
                let retry = Retry::After(Duration::from_millis(world.random(3_000)));
                let fail =
                    async move { queues.fail(lease, "no", retry).await.map(|_| Value::Nothing) };
                (Some(Event::Fail { id: lease.id }), Box::pin(fail))
            }
            (7, Some(lease)) => {
                let length = Duration::from_millis(LEASE_MS);
                let extend =
                    async move { queues.extend(lease, length).await.map(|_| Value::Nothing) };
                let event = Event::Extend { id: lease.id, token: lease.token, lease_ms: LEASE_MS };
                (Some(event), Box::pin(extend))
            }
            _ => {
                let jobs = 1 + world.random(3) as usize;
                let reserve = async move {
                    let lease = Duration::from_millis(LEASE_MS);
                    let deliveries = queues.reserve(QUEUE, jobs, lease).await?;
                    let leases = deliveries.iter().map(|delivery| delivery.lease).collect();
                    Ok(Value::Deliveries(leases))
                };
                (None, Box::pin(reserve))
            }
        }
    }

    fn new_id(&mut self, world: &World) -> JobId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(self.jobs.len() as u64).to_be_bytes());
        bytes[8..].copy_from_slice(&world.random(u64::MAX).to_be_bytes());
        bytes[6] = 0x70;
        bytes[7] = self.jobs.len() as u8;
        bytes[8] = 0x80;
        let id = JobId::from_bytes(bytes);
        self.jobs.push(id);
        id
    }

    fn note(
        &mut self,
        world: &World,
        sent: u64,
        event: Option<Event>,
        result: Option<Result<Value, Error>>,
    ) {
        let span = Span { sent, answered: world.now_ms() };
        let mut history = lock(&world.history);
        match (event, result) {
            (None, Some(Ok(Value::Deliveries(leases)))) => {
                for lease in leases {
                    let Lease { id, token, .. } = lease;
                    let event = Event::Delivered { id, token, lease_ms: LEASE_MS };
                    history.note(span, event, Outcome::Done);
                    self.leases.push(lease);
                }
            }
            (None, _) => {}
            (Some(event), result) => {
                let outcome = match result {
                    Some(Ok(_)) => Outcome::Done,
                    Some(Err(Error::Failed(_) | Error::Closed)) | None => Outcome::Unknown,
                    Some(Err(_)) => Outcome::Refused,
                };
                history.note(span, event, outcome);
            }
        }
        if self.leases.len() > 20 {
            self.leases.remove(0);
        }
    }

    /// Reads a job at a node that proves its ownership before and after.
    fn read(&mut self, world: &Arc<World>, number: usize) {
        if self.jobs.is_empty() {
            return;
        }
        let id = self.jobs[world.random(self.jobs.len() as u64) as usize];
        let sent = world.now_ms();
        let found = world.run(number, |node| {
            let partition = node.partition.as_ref()?;
            partition.fence().ok()?;
            let job = partition.queue()?.queues.get(id).wait().ok()?;
            let age = tickwheel_cluster::MAX_READ_AGE;
            let is_fresh = partition.replica().lock().is_fresh(age);
            is_fresh.then(|| job.map(|job| job.state))
        });
        if let Some(Some(found)) = found {
            let event = Event::Read { id, found };
            let span = Span { sent, answered: world.now_ms() };
            lock(&world.history).note(span, event, Outcome::Done);
        }
    }
}

fn step(node: &mut Node) {
    if let Some(partition) = &mut node.partition
        && matches!(partition.state(), PartitionState::Owner { .. })
        && let Some(queue) = partition.queue_mut()
    {
        queue.stepper.step();
    }
}

fn poll(sent: &mut [(Option<Event>, Operation)], results: &mut [Option<Result<Value, Error>>]) {
    let mut context = Context::from_waker(Waker::noop());
    for ((_, operation), result) in sent.iter_mut().zip(results) {
        if result.is_none()
            && let Poll::Ready(ready) = operation.as_mut().poll(&mut context)
        {
            *result = Some(ready);
        }
    }
}
