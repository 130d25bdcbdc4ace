//! Health, statistics, metrics and documentation.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use tickwheel_queue::Error;
use utoipa::IntoParams;

use super::queues::seen_by;
use crate::api::{Code, Delay, Health, Stats};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{PathCode, off_thread};
use crate::http::answer;
use crate::problem::Failure;
use crate::query::{Number, Params, invalid, query};
use crate::tokens::Scope;
use crate::wire::{IntoWire, activity};
use crate::{docs_page, metrics};

/// A service that takes longer to answer than this is not ready.
const PATIENCE: Duration = Duration::from_secs(5);

/// What statistics include.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StatsQuery {
    /// Adds what happened in a window up to now, such as `5m`: 10s to 1h
    #[param(value_type = Option<String>)]
    since: Option<Delay>,
}
query!(StatsQuery { since });

/// See counters since the start, and current numbers.
///
/// A token for some queues sees the number of those queues and of their jobs. The other numbers
/// concern the whole service, and are `null` without a token for all queues.
#[utoipa::path(
    get, path = "/v1/stats", tag = "system", operation_id = "getStats",
    params(StatsQuery),
    responses((status = 200, description = "The numbers", body = Stats))
)]
pub(crate) async fn stats(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<StatsQuery>,
) -> Result<Json<Stats>, Failure> {
    let queues = seen_by(&app, &caller).await?;
    let mut stats = metrics::stats(&app, &queues).await?.into_wire();
    if let Some(window) = query.since {
        let recent = app.queues().activity(window.0).await.map_err(|error| match error {
            Error::Invalid { why, .. } => invalid("since", why),
            other => other.into(),
        })?;
        stats.recent = Some(activity(&recent, app.now()));
    }
    Ok(Json(if caller.access().is_limited() { stats.of_some_queues() } else { stats }))
}

fn health(status: &str) -> Json<Health> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Json(Health { status: status.to_owned(), version })
}

/// Check that the process is alive.
#[utoipa::path(
    get, path = "/healthz", tag = "system", operation_id = "healthz", security(()),
    responses((status = 200, description = "It does", body = Health))
)]
pub(crate) async fn healthz() -> Json<Health> {
    health("ok")
}

/// Check that requests can be served: the store is open, and the service is not stopping.
#[utoipa::path(
    get, path = "/readyz", tag = "system", operation_id = "readyz", security(()),
    responses((status = 200, description = "They can", body = Health))
)]
pub(crate) async fn readyz(State(app): State<App>) -> Result<Json<Health>, Failure> {
    if app.shutdown().has_begun() {
        return Err(Error::Closed.into());
    }
    // A read checks the store, and the counters check the writer.
    let nobody = tickwheel_queue::JobId::from_bytes([0; 16]);
    let check = async {
        app.queues().get(nobody).await?;
        app.queues().stats().await
    };
    let Ok(answer) = tokio::time::timeout(PATIENCE, check).await else {
        let why = format!("the store did not answer within {PATIENCE:?}");
        return Err(Failure::new(Code::Unavailable, why).retry_after(1));
    };
    answer?;
    Ok(health("ready"))
}

/// Metrics for Prometheus. docs/SERVER.md lists them.
///
/// A token for some queues gets the metrics of those queues only.
#[utoipa::path(
    get, path = "/metrics", tag = "system", operation_id = "metrics",
    responses((status = 200, description = "The numbers", body = String,
               content_type = "text/plain; version=0.0.4; charset=utf-8"))
)]
pub(crate) async fn metrics(State(app): State<App>, caller: Caller) -> Result<Response, Failure> {
    let queues = seen_by(&app, &caller).await?;
    let text = if caller.access().is_limited() {
        metrics::text_of_queues(&queues, app.now())
    } else {
        let stats = metrics::stats(&app, &queues).await?;
        let targets = app.push().list();
        let (counts, memory) = (app.counts(), app.memory().used());
        let mut text = metrics::text(&stats, &queues, app.now(), counts, memory, &targets);
        add_partition(&app, &mut text);
        text
    };
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// Adds the metrics of the partition of a cluster that the queues are.
fn add_partition(app: &App, text: &mut String) {
    let (Some((number, status)), Some(cluster)) = (app.partition(), app.cluster()) else { return };
    metrics::add_partition(text, number, &cluster.node, &status);
    if let Some(partition) = cluster.partitions.iter().find(|it| it.partition == number) {
        metrics::add_lag(text, partition);
    }
}

/// What a backup holds.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct BackupQuery {
    /// The partition of a cluster; required if there are several
    #[param(
        value_type = Option<String>,
        pattern = "^([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$",
    )]
    partition: Option<Number<0, 255>>,
}
query!(BackupQuery { partition });

/// Download a consistent backup of everything.
///
/// It holds jobs, queues, settings, schedules and idempotency keys, for `tickwheel restore`. The
/// last block of the stream says that it is complete. A cluster with several partitions has a backup
/// for each. Needs the scope `admin` for all queues.
#[utoipa::path(
    get, path = "/v1/backup", tag = "system", operation_id = "backup",
    params(BackupQuery),
    responses(
        (status = 200, description = "The backup", body = String, content_type = "application/octet-stream"),
        (status = 404, description = "There is no such partition"),
    )
)]
pub(crate) async fn backup(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<BackupQuery>,
) -> Result<Response, Failure> {
    let partition = app.partition().map_or(0, |(number, _)| number);
    if query.partition.is_some_and(|wanted| wanted.0 != partition as usize) {
        return Err(Failure::new(Code::NotFound, "there is no such partition"));
    }
    let queues = app.queues_for(&caller, Scope::Admin)?;
    if caller.access().is_limited() {
        let why = "a backup holds all queues: use a token with the scope admin for all of them";
        return Err(Failure::new(Code::Forbidden, why));
    }
    let backup = off_thread(true, move || Ok(queues.backup()?)).await?;
    answer::backup(&app, &caller, backup)
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "system", operation_id = "openapi", security(()),
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value))
)]
pub(crate) async fn openapi(State(app): State<App>) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")];
    (headers, app.documents().openapi.clone()).into_response()
}

/// Serves a page with links, for a browser, while the dashboard is disabled.
pub(crate) async fn index() -> Response {
    page(docs_page::index().into())
}

/// This document as a page.
#[utoipa::path(
    get, path = "/docs", tag = "system", operation_id = "docs", security(()),
    responses((status = 200, description = "A page", body = String, content_type = "text/html; charset=utf-8"))
)]
pub(crate) async fn docs(State(app): State<App>) -> Response {
    page(app.documents().page.clone())
}

fn page(html: bytes::Bytes) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
    ];
    (headers, html).into_response()
}

/// See what a problem code means.
#[utoipa::path(
    get, path = "/problems/{code}", tag = "system", operation_id = "explainProblem", security(()),
    responses((status = 200, description = "A few words", body = String, content_type = "text/plain; charset=utf-8"))
)]
pub(crate) async fn problem(PathCode(code): PathCode) -> Response {
    let text = format!(
        "{code}: {title}\n\nAnswers with this code have the status {status}, unless they say \
         otherwise. Their `detail` says what was wrong, and `field` where.\n",
        title = code.title(),
        status = code.status()
    );
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}
