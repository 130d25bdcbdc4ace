//! `/v1/cluster`: what the nodes know of each other.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tickwheel_cluster::State as PartitionState;

use super::PARTITION;
use super::dispatch::Dispatcher;
use crate::api::Code;
use crate::problem::Failure;
use crate::tokens::Scope;

/// Returns the nodes that are alive, the owner, and what this node does with the partition.
pub(super) async fn get(
    State(dispatcher): State<Arc<Dispatcher>>,
    headers: HeaderMap,
) -> Result<Json<Value>, Failure> {
    dispatcher.common.gate().admit(&headers)?.has(Scope::Read)?;
    let node = &dispatcher.node;
    let nodes: Vec<Value> = node
        .nodes()
        .into_iter()
        .filter_map(|beat| {
            let replica = beat.replicas.get(&PARTITION)?;
            Some(json!({
                "name": beat.node,
                "address": beat.address,
                "owner": replica.is_owner,
                "candidate": replica.is_candidate,
                "epoch": replica.epoch,
                "position": replica.position.0,
                "synced": replica.synced.0,
            }))
        })
        .collect();
    let own = node.partitions().remove(&PARTITION);
    let state = own.as_ref().map(|status| match &status.state {
        PartitionState::Owner { .. } => ("owner", None),
        PartitionState::NeedsSeed(why) => ("seeding", Some(why.clone())),
        PartitionState::Halted(why) => ("halted", Some(why.clone())),
        _ => ("standby", status.trouble.clone()),
    });
    let (state, trouble) = state.unwrap_or(("starting", None));
    Ok(Json(json!({
        "node": node.name(),
        "state": state,
        "trouble": trouble,
        "owner": node.owner(PARTITION).map(|owner| owner.node),
        "generation": own.as_ref().map(|status| status.tip.generation),
        "epoch": own.as_ref().map(|status| status.tip.epoch),
        "commit": own.as_ref().map(|status| status.tip.commit),
        "position": own.as_ref().map(|status| status.tip.position.0),
        "appends": own.as_ref().map(|status| status.counters.appends),
        "repeated_appends": own.as_ref().map(|status| status.counters.repeated),
        "takeovers": own.as_ref().map(|status| status.counters.takeovers),
        "nodes": nodes,
    })))
}

/// Where the partition shall go.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Move {
    /// A node; any if `None`.
    to: Option<String>,
}

/// Asks the owner to hand the partition over.
pub(super) async fn hand_off(
    State(dispatcher): State<Arc<Dispatcher>>,
    request: Request,
) -> Result<Response, Failure> {
    dispatcher.common.gate().admit(request.headers())?.has(Scope::Admin)?;
    if dispatcher.other_owner().is_some() {
        return dispatcher.answer(request).await;
    }
    let body = dispatcher.read(request).await?.body;
    let Move { to } = serde_json::from_slice(&body)
        .map_err(|error| Failure::new(Code::MalformedJson, error.to_string()))?;
    dispatcher.node.hand_off(PARTITION, to.as_deref());
    Ok(StatusCode::ACCEPTED.into_response())
}

/// Says that the node runs, owner or not.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}
