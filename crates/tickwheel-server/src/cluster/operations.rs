//! What operators ask of a cluster: moving partitions, draining nodes, recovery after a loss.
//!
//! A request is forwarded, once, to the node that it concerns. That node answers when the operation
//! is done, or says why it is not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use tickwheel_cluster::{Owner, ReplicaError};

use super::dispatch::{Dispatcher, Whole};
use super::forward::NotForwarded;
use crate::api::{Code, DrainRequest, MoveRequest, RecoverRequest};
use crate::extract;
use crate::problem::Failure;
use crate::tokens::Scope;

/// How long the new owner of a partition may take to open it.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a node may take to give all its partitions away.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(50);
/// How often [`holds_within`] checks its condition.
const STEP: Duration = Duration::from_millis(20);

/// Hands a partition to a node, and waits until that node owns it.
pub(super) async fn hand_over(
    State(dispatcher): State<Arc<Dispatcher>>,
    request: Request,
) -> Result<Response, Failure> {
    let (request, MoveRequest { partition, to }) = dispatcher.read_order(request).await?;
    let node = &dispatcher.node;
    let Some(owner) = node.owner(partition) else { return Err(dispatcher.no_owner(partition)) };
    if owner.node != to {
        dispatcher.check_candidate(partition, &to)?;
        if let Some(answer) = dispatcher.pass_on(&request, &owner.node).await? {
            return Ok(answer);
        }
        node.hand_off(partition, Some(&to));
        let has_moved = || node.owner(partition).is_some_and(|owner| owner.node == to);
        if !holds_within(TAKEOVER_TIMEOUT, has_moved).await {
            let owner = node.owner(partition).map_or("no node".to_owned(), |owner| owner.node);
            let why = format!("{to} has not taken partition {partition} over: {owner} owns it");
            return Err(Failure::new(Code::Unavailable, why).retry_after(1));
        }
    }
    Ok(Json(dispatcher.describe()).into_response())
}

/// Moves all partitions off a node, and waits until it owns none.
pub(super) async fn drain(
    State(dispatcher): State<Arc<Dispatcher>>,
    request: Request,
) -> Result<Response, Failure> {
    let (request, order): (_, DrainRequest) = dispatcher.read_order(request).await?;
    if let Some(answer) = dispatcher.pass_on(&request, &order.node).await? {
        return Ok(answer);
    }
    let node = &dispatcher.node;
    let owned = || -> Vec<u32> {
        let is_own = |number: &u32| node.owner(*number).is_some_and(|it| it.node == order.node);
        node.partitions().into_keys().filter(is_own).collect()
    };
    for partition in owned() {
        let can_take = |beat: &tickwheel_cluster::Heartbeat| {
            let replica = beat.replicas.get(&partition);
            beat.node != order.node
                && !beat.is_draining
                && replica.is_some_and(|replica| replica.is_candidate)
        };
        if !node.nodes().iter().any(can_take) {
            let why = format!("no other node can take partition {partition} over now");
            return Err(Failure::new(Code::WrongState, why));
        }
    }
    node.drain();
    if !holds_within(DRAIN_TIMEOUT, || owned().is_empty()).await {
        let why = format!("{} still owns the partitions {:?}", order.node, owned());
        return Err(Failure::new(Code::Unavailable, why).retry_after(1));
    }
    Ok(Json(dispatcher.describe()).into_response())
}

/// Starts a new generation of a partition from the replica of a node.
pub(super) async fn recover(
    State(dispatcher): State<Arc<Dispatcher>>,
    request: Request,
) -> Result<Response, Failure> {
    let (request, RecoverRequest { partition, from }) = dispatcher.read_order(request).await?;
    let node = Arc::clone(&dispatcher.node);
    if let Some(owner) = node.owner(partition) {
        let why = format!(
            "{} owns partition {partition}, and has acknowledged jobs on its log: if that log is \
             right, remove the data of the nodes that have halted; if it is not, stop all nodes \
             that have not halted first",
            owner.node
        );
        return Err(Failure::new(Code::WrongState, why));
    }
    if let Some(answer) = dispatcher.pass_on(&request, &from).await? {
        return Ok(answer);
    }
    let recovering = tokio::task::spawn_blocking(move || node.recover(partition));
    let recovered =
        recovering.await.map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
    recovered.map_err(|error| match error {
        ReplicaError::Deposed(why) => {
            let why = format!("{from} cannot recover partition {partition}: {why}");
            Failure::new(Code::WrongState, why)
        }
        error => Failure::new(Code::Unavailable, error.to_string()).retry_after(1),
    })?;
    let node = &dispatcher.node;
    if !holds_within(TAKEOVER_TIMEOUT, || node.owner(partition).is_some()).await {
        return Err(dispatcher.no_owner(partition));
    }
    Ok(Json(dispatcher.describe()).into_response())
}

/// Waits until `holds` returns `true`. Returns `false` if the timeout passes first.
async fn holds_within(timeout: Duration, holds: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while !holds() {
        if started.elapsed() > timeout {
            return false;
        }
        tokio::time::sleep(STEP).await;
    }
    true
}

impl Dispatcher {
    /// Reads the request of an operator, who needs the scope `admin` for all queues.
    async fn read_order<T: DeserializeOwned>(
        &self,
        request: Request,
    ) -> Result<(Whole, T), Failure> {
        let gate = self.common.gate();
        gate.check_browser(request.method(), request.headers())?;
        let caller = gate.admit(request.headers())?;
        caller.has(Scope::Admin)?;
        if caller.access().is_limited() {
            let why = "the cluster concerns all queues, and this token is restricted to some";
            return Err(Failure::new(Code::Forbidden, why));
        }
        extract::need_json(extract::is_json(request.headers()))?;
        let whole = self.read(request).await?;
        let order = extract::parse(&whole.body)?;
        Ok((whole, order))
    }

    /// Forwards a request to the node that it concerns. Returns `None` if that is this node.
    async fn pass_on(&self, request: &Whole, to: &str) -> Result<Option<Response>, Failure> {
        if to == self.node.name() {
            return Ok(None);
        }
        let Some(beat) = self.node.nodes().into_iter().find(|beat| beat.node == to) else {
            let why = format!("no node called {to:?} is alive: see `tickwheel cluster status`");
            return Err(Failure::new(Code::NotFound, why));
        };
        if request.is_forwarded() {
            let why = "the nodes do not agree about the owner now: repeat the request";
            return Err(Failure::new(Code::Unavailable, why).retry_after(1));
        }
        let to = Owner { node: beat.node, address: beat.address, epoch: 0 };
        match self.forward(&to, 0, request).await {
            Ok(answer) => Ok(Some(answer)),
            Err(NotForwarded::Unsent) => {
                let why = format!("{} is not reached at {}", to.node, to.address);
                Err(Failure::new(Code::Unavailable, why).retry_after(1))
            }
            Err(NotForwarded::Unanswered(why)) => {
                let why = format!("{} did not answer: {why}", to.node);
                Err(Failure::new(Code::OutcomeUnknown, why))
            }
        }
    }

    /// Refuses a node that cannot own a partition.
    fn check_candidate(&self, partition: u32, name: &str) -> Result<(), Failure> {
        let nodes = self.node.nodes();
        let Some(beat) = nodes.iter().find(|beat| beat.node == name) else {
            let why = format!("no node called {name:?} is alive: see `tickwheel cluster status`");
            return Err(Failure::field(Code::NotFound, "/to", why));
        };
        let replica = beat.replicas.get(&partition);
        if replica.is_some_and(|replica| replica.is_candidate) {
            return Ok(());
        }
        let trouble = replica.and_then(|replica| replica.trouble.clone());
        let trouble = trouble.unwrap_or_else(|| "its replica is not complete".to_owned());
        let why = format!("{name} cannot own partition {partition} now: {trouble}");
        Err(Failure::field(Code::WrongState, "/to", why))
    }

    fn no_owner(&self, partition: u32) -> Failure {
        if self.node.partitions().contains_key(&partition) {
            let why = format!("partition {partition} has no owner now: see `tickwheel doctor`");
            return Failure::new(Code::Unavailable, why).retry_after(1);
        }
        let why = format!("there is no partition {partition}");
        Failure::field(Code::NotFound, "/partition", why)
    }
}
