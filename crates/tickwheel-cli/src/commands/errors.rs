//! Why jobs fail: errors by group, and another try for all jobs with the same error.

use tickwheel_api::{BulkAction, BulkRequest, BulkResponse, ErrorGroups, JobFilter};

use super::{Context, queue};
use crate::args::{KickArgs, LsArgs};
use crate::client::Path;
use crate::failure::Failure;
use crate::output::{self, text};

/// `ls --by error`: the errors of a queue, or of all.
pub(crate) fn by_error(context: &Context, args: &LsArgs) -> Result<(), Failure> {
    let path = match &args.queue {
        Some(name) => Path::new(&["queues", name, "errors"]),
        None => Path::new(&["errors"]),
    };
    let answer = context.client.get(&path.query("limit", &args.limit.to_string()));
    let answer = answer.map_err(|failure| match &args.queue {
        Some(name) => queue::explain(context, name, failure),
        None => failure,
    })?;
    context.output.answer(&answer, |errors: &ErrorGroups| {
        if errors.groups.is_empty() {
            context.output.remark("no job has failed");
        }
        output::errors::list(context.output, errors, args.queue.is_none())
    })
}

/// Sums of all steps of a bulk change.
#[derive(serde::Serialize)]
struct Sums {
    matched: u64,
    changed: u64,
    skipped: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// `kick --error`: brings dead jobs back whose error matches.
pub(crate) fn kick(context: &Context, name: &str, args: &KickArgs) -> Result<(), Failure> {
    let filter = JobFilter {
        error: args.error.clone(),
        error_group: args.error_group.clone(),
        ..JobFilter::default()
    };
    let mut request = BulkRequest { filter, ..BulkRequest::new(BulkAction::Retry) };
    request.dry_run = true;
    let found = all_steps(context, name, request.clone(), u64::MAX, None)?.matched;
    let most = args.limit.unwrap_or(u64::MAX);
    if args.dry_run {
        let matched = found.min(most);
        if context.output.json {
            return context.output.document(&Sums { matched, changed: 0, skipped: 0, why: None });
        }
        return context.output.line(format!("{} would be kicked", text::count(matched, "job")));
    }
    request.dry_run = false;
    let sums = all_steps(context, name, request, most, Some(found.min(most)))?;
    if context.output.json {
        return context.output.document(&sums);
    }
    let verb = if sums.changed == 1 { "is" } else { "are" };
    context.output.line(format!("{} {verb} ready again", text::count(sums.changed, "job")))?;
    if sums.skipped > 0 {
        let why = sums.why.map_or_else(String::new, |why| format!(": {}", text::safe(&why)));
        let skipped = text::count(sums.skipped, "job");
        return Err(Failure::Other(format!("{skipped} could not be kicked{why}")));
    }
    Ok(())
}

/// Repeats steps until none is left, or until the limit of changed jobs is reached. Shows progress
/// if the number of matching jobs is known.
fn all_steps(
    context: &Context,
    name: &str,
    mut request: BulkRequest,
    most: u64,
    all: Option<u64>,
) -> Result<Sums, Failure> {
    let path = Path::new(&["queues", name, "bulk"]);
    let mut sums = Sums { matched: 0, changed: 0, skipped: 0, why: None };
    while sums.changed < most {
        let left = (most - sums.changed).min(1_000);
        request.limit = u32::try_from(left).ok();
        let answer = context.client.post(&path, &request);
        let answer = answer.map_err(|failure| queue::explain(context, name, failure))?;
        let step: BulkResponse = answer.read()?;
        sums.matched += step.matched;
        sums.changed += step.changed;
        sums.skipped += step.skipped;
        sums.why = sums.why.or(step.why);
        if let Some(all) = all {
            context.output.progress(sums.matched.min(all), all);
        }
        request.cursor = step.next;
        if request.cursor.is_none() {
            break;
        }
    }
    Ok(sums)
}
