//! Push targets.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;
use tickwheel_page::{TargetTestView, TargetsView};

use super::answer::{audit, changed, html, no_such_action};
use super::form::Form;
use super::visitor::Visitor;
use crate::api::TargetList;
use crate::app::App;
use crate::extract;
use crate::problem::Failure;
use crate::routes;

pub(super) async fn list(State(app): State<App>, visitor: Visitor) -> Result<Response, Failure> {
    let found: TargetList = match &visitor.fleet {
        Some(fleet) => fleet.get("/v1/targets").await?,
        None => routes::targets::list(State(app), visitor.caller).await?.0,
    };
    Ok(html(TargetsView::new(&visitor.frame, found.targets).html()))
}

pub(super) async fn act(
    State(app): State<App>,
    Visitor { caller, frame, .. }: Visitor,
    Path((name, action)): Path<(String, String)>,
    _form: Form,
) -> Result<Response, Failure> {
    let target = extract::target_name(&name)?;
    let state = State(app);
    let done = match &action[..] {
        "pause" => {
            let _ = routes::targets::pause(state, caller.clone(), target).await?;
            "paused"
        }
        "resume" => {
            let _ = routes::targets::resume(state, caller.clone(), target).await?;
            "resumed"
        }
        "test" => {
            let Json(test) = routes::targets::test(state, caller.clone(), target).await?;
            audit(&caller, "target.test", &name, 1);
            return Ok(html(TargetTestView::new(&frame, &name, &test).html()));
        }
        other => return Err(no_such_action(other)),
    };
    Ok(changed(&caller, &format!("target.{action}"), &name, 1, "/targets", done))
}
