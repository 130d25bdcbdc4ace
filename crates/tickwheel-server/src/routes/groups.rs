//! Groups of a queue.

use axum::Json;
use axum::extract::State;
use tickwheel_queue::GroupList;
use utoipa::IntoParams;

use crate::api::{Group, GroupPage, GroupPatch};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Body, PathGroup, QueueName};
use crate::problem::Failure;
use crate::query::{Number, Params, query};
use crate::tokens::Scope;
use crate::wire::{IntoWire, group_patch_of};

/// Which groups are listed.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct GroupQuery {
    /// Only groups whose name begins with this
    #[param(max_length = 512)]
    prefix: Option<String>,
    /// The maximum number of groups in a page; defaults to 100
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<Number<1, { GroupList::MAX_LIMIT }>>,
    /// `next` of the page before
    page: Option<String>,
}
query!(GroupQuery { prefix, limit, page });

/// List the groups of a queue that have live jobs or settings.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/groups", tag = "queues", operation_id = "listGroups",
    params(GroupQuery),
    responses((status = 200, description = "A page of groups, by name", body = GroupPage))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    QueueName(queue): QueueName,
    Params(query): Params<GroupQuery>,
) -> Result<Json<GroupPage>, Failure> {
    caller.may(Scope::Read, &queue)?;
    let list = GroupList {
        prefix: query.prefix.unwrap_or_default(),
        limit: query.limit.map_or(100, |limit| limit.0),
        after: query.page,
        ..GroupList::of(queue)
    };
    let page = app.queues_for(&caller, Scope::Read)?.groups(list).await?;
    Ok(Json(page.into_wire()))
}

/// Change settings of a group: pause or resume it, or give it limits of its own.
///
/// A queue that does not exist is created.
#[utoipa::path(
    patch, path = "/v1/queues/{queue}/groups/{group}", tag = "queues",
    operation_id = "patchGroup",
    request_body = GroupPatch,
    responses((status = 200, description = "The group as it is now", body = Group))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    caller: Caller,
    QueueName(queue): QueueName,
    PathGroup(group): PathGroup,
    Body(patch): Body<GroupPatch>,
) -> Result<Json<Group>, Failure> {
    caller.may(Scope::Admin, &queue)?;
    let queues = app.queues_for(&caller, Scope::Admin)?;
    let patch = group_patch_of(&patch)?;
    let settings = queues.patch_group(queue.clone(), group.clone(), patch).await?;
    // No other name with this prefix comes first.
    let list = GroupList { prefix: group.clone(), limit: 1, ..GroupList::of(queue) };
    let found = queues.groups(list).await?.groups.pop().filter(|found| found.name == group);
    let (waiting, running, held) =
        found.map_or((0, 0, 0), |found| (found.waiting, found.running, found.held));
    let pacing = settings.pacing.map(IntoWire::into_wire);
    let paused = settings.paused;
    Ok(Json(Group { name: group, paused, pacing, waiting, running, held }))
}
