//! Groups of a queue: list, set.

use tickwheel_api::{Group, GroupPage, GroupPatch, Pacing};
use ureq::http::Method;

use super::{Context, queue};
use crate::args::{GroupsArgs, SetGroupArgs};
use crate::client::{Extra, Path};
use crate::failure::Failure;
use crate::output::{self, text};
use crate::suggest;

pub(crate) fn ls(context: &Context, args: &GroupsArgs) -> Result<(), Failure> {
    let prefix = args.prefix.as_deref();
    let mut all = page(context, &args.queue, prefix, args.limit, args.page.as_deref())?;
    while let Some(next) = all.next.take_if(|_| args.all) {
        let more = page(context, &args.queue, prefix, args.limit, Some(&next))?;
        all.groups.extend(more.groups);
        all.next = more.next;
    }
    if context.output.json {
        return context.output.document(&all);
    }
    if all.groups.is_empty() {
        let hint = suggest::queue(&context.client, &args.queue).map(|hint| format!("; {hint}"));
        let (queue, hint) = (text::safe(&args.queue), hint.unwrap_or_default());
        context.output.remark(&format!("queue {queue:?} has no such groups{hint}"));
    }
    output::queue::groups(context.output, &all)
}

fn page(
    context: &Context,
    name: &str,
    prefix: Option<&str>,
    limit: u32,
    after: Option<&str>,
) -> Result<GroupPage, Failure> {
    let mut path = Path::new(&["queues", name, "groups"]).query("limit", &limit.to_string());
    for (filter, value) in [("prefix", prefix), ("page", after)] {
        if let Some(value) = value {
            path = path.query(filter, value);
        }
    }
    let answer = context.client.get(&path);
    answer.map_err(|failure| queue::explain(context, name, failure))?.read()
}

pub(crate) fn set(context: &Context, args: &SetGroupArgs) -> Result<(), Failure> {
    let paused = (args.pause || args.resume).then_some(args.pause);
    let patch = GroupPatch { paused, pacing: pacing(context, args)? };
    if patch == GroupPatch::default() {
        return Err(Failure::Usage(
            "say what to set, such as --concurrency 2 or --pause; `tickwheel queue set-group \
             --help` lists the settings"
                .to_owned(),
        ));
    }
    // Limits create the queue, as its settings do; pausing needs one that exists.
    if patch.pacing.is_none() {
        let found = context.client.get(&Path::new(&["queues", &args.queue]));
        if let Err(failure) = found.map_err(|failure| queue::explain(context, &args.queue, failure))
            && failure.is_not_found()
        {
            return Err(failure);
        }
    }
    let group = Path::new(&["queues", &args.queue, "groups", &args.group]);
    let answer = context.client.call(Method::PATCH, &group, Some(&patch), &Extra::default())?;
    context.output.answer(&answer, |group: &Group| {
        let page = GroupPage { groups: vec![group.clone()], next: None };
        output::queue::groups(context.output, &page)
    })
}

/// Returns the limits of the group, if they change. The API replaces them as a whole, so parts that
/// are not named are read first.
#[allow(clippy::option_option, reason = "no change differs from the limits of the queue")]
fn pacing(context: &Context, args: &SetGroupArgs) -> Result<Option<Option<Pacing>>, Failure> {
    if args.queue_pacing {
        return Ok(Some(None));
    }
    if args.no_pacing {
        return Ok(Some(Some(Pacing::default())));
    }
    let named = Pacing { starts: args.starts, window: args.window, concurrency: args.concurrency };
    if named == Pacing::default() {
        return Ok(None);
    }
    let mut now = Pacing::default();
    if named.starts.is_none() || named.concurrency.is_none() {
        let page = page(context, &args.queue, Some(&args.group), 1, None)?;
        let group = page.groups.into_iter().find(|group| group.name == args.group);
        now = group.and_then(|group| group.pacing).unwrap_or_default();
    }
    Ok(Some(Some(Pacing {
        starts: named.starts.or(now.starts),
        window: named.window.or(now.window),
        concurrency: named.concurrency.or(now.concurrency),
    })))
}
