//! Workers: reserve, ack, fail, extend, release.

use tickwheel_api::{
    AckRequest, Acked, Deliveries, ExtendRequest, Extended, FailRequest, Failed, JobState, Queue,
    ReleaseRequest, Released, ReserveRequest,
};
use ureq::http::Method;

use super::job::whole_id;
use super::{Context, queue};
use crate::args::{AckArgs, DeliveryArgs, ExtendArgs, FailArgs, ReleaseArgs, ReserveArgs};
use crate::client::{Extra, Path};
use crate::failure::Failure;
use crate::output::{self, text};

pub(crate) fn reserve(context: &Context, args: &ReserveArgs) -> Result<(), Failure> {
    let request = ReserveRequest {
        limit: Some(args.limit),
        lease: args.lease,
        wait: args.wait,
        worker: args.worker.clone(),
    };
    let extra =
        Extra { wait: args.wait.map(|wait| wait.0).unwrap_or_default(), ..Extra::default() };
    let path = Path::new(&["queues", &args.queue, "reserve"]);
    let answer = context
        .client
        .call(Method::POST, &path, Some(&request), &extra)
        .map_err(|failure| queue::explain(context, &args.queue, failure))?;
    context.output.answer(&answer, |answer: &Deliveries| {
        if answer.deliveries.is_empty() {
            context.output.remark(&why_none(context, &args.queue));
        }
        output::job::deliveries(context.output, &answer.deliveries)
    })
}

/// Explains why a worker got no job: its queue may be paused, or not exist yet.
fn why_none(context: &Context, queue: &str) -> String {
    let answer = context.client.get(&Path::new(&["queues", queue]));
    let answer = answer.and_then(|answer| answer.read::<Queue>());
    match answer {
        Ok(Queue { paused: true, .. }) => {
            let queue = text::safe(queue);
            format!("queue {queue:?} is paused: `tickwheel queue resume {queue}` resumes it")
        }
        Err(failure) if failure.is_not_found() => queue::not_there_yet(context, queue),
        _ => format!("no job of queue {:?} is ready", text::safe(queue)),
    }
}

impl DeliveryArgs {
    fn path(&self, context: &Context, action: &str) -> Result<Path, Failure> {
        let id = whole_id(context, &self.id)?;
        Ok(Path::new(&["jobs", &id.to_string(), action]))
    }
}

pub(crate) fn ack(context: &Context, args: &AckArgs) -> Result<(), Failure> {
    let request = AckRequest { token: args.delivery.lease_token, result: args.result.clone() };
    let answer = context.client.post(&args.delivery.path(context, "ack")?, &request)?;
    context.output.answer(&answer, |_: &Acked| context.output.line("done"))
}

pub(crate) fn fail(context: &Context, args: FailArgs) -> Result<(), Failure> {
    let path = args.delivery.path(context, "fail")?;
    let request = FailRequest {
        token: args.delivery.lease_token,
        error: args.error.unwrap_or_default(),
        delay: args.delay,
        dead: args.dead,
    };
    let answer = context.client.post(&path, &request)?;
    context.output.answer(&answer, |failed: &Failed| {
        context.output.line(match failed.state {
            JobState::Dead => "dead; `tickwheel kick ID` brings it back".to_owned(),
            state => format!("{state}: it is tried again"),
        })
    })
}

pub(crate) fn extend(context: &Context, args: &ExtendArgs) -> Result<(), Failure> {
    let request = ExtendRequest { token: args.delivery.lease_token, lease: args.lease };
    let answer = context.client.post(&args.delivery.path(context, "extend")?, &request)?;
    context.output.answer(&answer, |extended: &Extended| {
        let until = context.output.wall.both(extended.until_ms);
        context.output.line(format!("the lease ends {until}"))
    })
}

pub(crate) fn release(context: &Context, args: &ReleaseArgs) -> Result<(), Failure> {
    let request = ReleaseRequest { token: args.delivery.lease_token, delay: args.delay };
    let answer = context.client.post(&args.delivery.path(context, "release")?, &request)?;
    context.output.answer(&answer, |_: &Released| context.output.line("released"))
}
