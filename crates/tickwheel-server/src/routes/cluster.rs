//! The cluster that the service is a node of. A node answers these routes before anything else does;
//! see [`cluster`](crate::cluster). What is here describes them, and answers for a service of its own.

use axum::Json;
use axum::extract::State;

use crate::api::{Cluster, Code, DrainRequest, MoveRequest, RecoverRequest};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::Body;
use crate::problem::Failure;
use crate::tokens::Scope;

fn not_a_node() -> Failure {
    let why = "this server is not a node of a cluster: start it with `--cluster` to make it one";
    Failure::new(Code::NotFound, why)
}

/// See the nodes of the cluster, and what they do with the partitions.
#[utoipa::path(
    get, path = "/v1/cluster", tag = "cluster", operation_id = "getCluster",
    responses(
        (status = 200, description = "The cluster as this node sees it", body = Cluster),
        (status = 404, description = "The server is not a node of a cluster"),
    )
)]
pub(crate) async fn get(State(app): State<App>, caller: Caller) -> Result<Json<Cluster>, Failure> {
    caller.has(Scope::Read)?;
    app.cluster().map(Json).ok_or_else(not_a_node)
}

/// Move a partition to a node.
///
/// The owner hands it over, and the answer comes when the node has taken it over. Needs the scope
/// `admin` for all queues.
#[utoipa::path(
    post, path = "/v1/cluster/move", tag = "cluster", operation_id = "movePartition",
    request_body = MoveRequest,
    responses(
        (status = 200, description = "The cluster after that", body = Cluster),
        (status = 404, description = "No such node or partition, or not a cluster"),
        (status = 409, description = "The node cannot own the partition now"),
    )
)]
pub(crate) async fn hand_over(
    caller: Caller,
    Body(_order): Body<MoveRequest>,
) -> Result<Json<Cluster>, Failure> {
    refuse(&caller)
}

/// Move all partitions off a node, before it is stopped.
///
/// They move one after the other; the answer comes when the node owns none. Until the node is
/// started again, it takes a partition only if no other node can. Needs the scope `admin` for all
/// queues.
#[utoipa::path(
    post, path = "/v1/cluster/drain", tag = "cluster", operation_id = "drainNode",
    request_body = DrainRequest,
    responses(
        (status = 200, description = "The cluster after that", body = Cluster),
        (status = 404, description = "No such node, or not a cluster"),
        (status = 409, description = "No other node can take a partition over"),
    )
)]
pub(crate) async fn drain(
    caller: Caller,
    Body(_order): Body<DrainRequest>,
) -> Result<Json<Cluster>, Failure> {
    refuse(&caller)
}

/// Start a new generation of a partition whose log lost records.
///
/// The replica of the named node, which must have halted, becomes the truth. **What is left of the
/// log is deleted.** Replicas that have applied as much continue; others get their rows from this
/// one. Needs the scope `admin` for all queues.
#[utoipa::path(
    post, path = "/v1/cluster/recover", tag = "cluster", operation_id = "recoverPartition",
    request_body = RecoverRequest,
    responses(
        (status = 200, description = "The cluster after that", body = Cluster),
        (status = 404, description = "No such node, or not a cluster"),
        (status = 409, description = "The partition has an owner, or the replica has not halted"),
    )
)]
pub(crate) async fn recover(
    caller: Caller,
    Body(_order): Body<RecoverRequest>,
) -> Result<Json<Cluster>, Failure> {
    refuse(&caller)
}

fn refuse(caller: &Caller) -> Result<Json<Cluster>, Failure> {
    caller.has(Scope::Admin)?;
    Err(not_a_node())
}
