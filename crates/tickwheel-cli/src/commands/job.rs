//! Jobs: put, show, list, cancel, reschedule.

use serde::Serialize;
use serde_json::value::RawValue;
use tickwheel_api::{
    Batch, Cancelled, Content, FollowUp, Job, JobId, JobIds, JobPage, PutOutcome, PutRequest,
    PutResponse, RescheduleRequest, Rescheduled, Results, Verdict,
};
use ureq::http::Method;

use super::{Context, errors, queue};
use crate::args::{
    self, CancelArgs, GetArgs, GroupBy, IdArg, JobOptions, LsArgs, PutArgs, RescheduleArgs, Target,
    WhenArgs,
};
use crate::client::{Answer, Extra, Path};
use crate::failure::Failure;
use crate::output::{self, Output, text};
use crate::{payload, suggest};

/// The number of jobs per request.
const BATCH: usize = 500;

pub(crate) fn put(context: &Context, args: PutArgs) -> Result<(), Failure> {
    let bytes = payload::read(&args.payload)?;
    if args.lines || args.jsonl {
        return put_lines(context, &args, &bytes);
    }
    let carried = payload::content(&bytes, args.payload.kind)?;
    let request = PutRequest {
        key: args.key,
        on_conflict: args.on_conflict,
        id: args.id,
        target: args.target,
        max_total_delay: args.max_total_delay,
        on_success: args.on_success.map(follow_up),
        on_death: args.on_death.map(follow_up),
        ..request(carried, &args.when, args.options)
    };
    let headers = args.idempotency_key.map(|key| ("idempotency-key", key));
    let extra = Extra { headers: headers.into_iter().collect(), ..Extra::default() };
    let path = Path::new(&["queues", &args.queue, "jobs"]);
    let answer = context.client.call(Method::POST, &path, Some(&request), &extra)?;
    context
        .output
        .answer(&answer, |put: &PutResponse| context.output.line(put_line(put, context.output)))
}

fn follow_up(queue: String) -> FollowUp {
    FollowUp { queue, delay: None }
}

/// Returns the fields that all kinds of jobs share.
fn request(content: Content, when: &WhenArgs, options: JobOptions) -> PutRequest {
    let mut request = PutRequest {
        delay: when.delay,
        due: when.at,
        priority: options.priority,
        headers: options.headers.into_iter().collect(),
        max_attempts: options.max_attempts,
        retry: options.retry,
        group: options.group,
        ..PutRequest::default()
    };
    match content {
        Content::Json(json) => request.payload = Some(json),
        Content::Text(text) => request.text = Some(text),
        Content::Base64(text) => request.base64 = Some(text),
    }
    request
}

fn put_line(put: &PutResponse, output: &Output) -> String {
    let due = put.due_ms.map_or_else(String::new, |due| format!(", due {}", output.wall.both(due)));
    let what = match (put.outcome, put.replaced) {
        (PutOutcome::Created, _) | (PutOutcome::Replaced, None) => "put".to_owned(),
        (PutOutcome::Replaced, Some(old)) => format!("put in place of {old}"),
        (PutOutcome::Kept, _) => "kept: a job with this key was there".to_owned(),
    };
    format!("{}  {what}{due}", put.id)
}

/// Puts a job for each line that is not empty.
fn put_lines(context: &Context, args: &PutArgs, bytes: &[u8]) -> Result<(), Failure> {
    let lines: Vec<(usize, &[u8])> = bytes
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| (index + 1, line))
        .collect();
    let (mut put, mut kept, mut refused) = (0, 0, 0);
    for batch in lines.chunks(BATCH) {
        let items = batch.iter().map(|(number, line)| {
            line_request(args, line).map_err(|failure| at_line(*number, &failure))
        });
        let items = items.collect::<Result<Vec<_>, Failure>>()?;
        let answer = context.client.post(&Path::new(&["jobs", "batch"]), &Batch { items })?;
        let results: Results<PutResponse> = answer.read()?;
        for ((number, _), result) in batch.iter().zip(results.results) {
            match &result {
                Verdict::Ok(answer) if answer.outcome == PutOutcome::Kept => kept += 1,
                Verdict::Ok(_) => put += 1,
                Verdict::Error(_) => refused += 1,
            }
            match result {
                _ if context.output.json => context.output.document(&result)?,
                Verdict::Ok(_) => {}
                Verdict::Error(problem) => {
                    let why = Failure::refused(problem);
                    context.output.end_progress();
                    context.output.line(format!("line {number}: refused: {why}"))?;
                }
            }
        }
        context.output.progress(put + kept + refused, lines.len() as u64);
    }
    if !context.output.json {
        let kept = if kept > 0 { format!(", {kept} kept") } else { String::new() };
        context.output.line(format!("{} put{kept}", text::count(put, "job")))?;
    }
    if refused > 0 {
        let all = text::count(lines.len() as u64, "job");
        return Err(Failure::Other(format!("{refused} of {all} refused")));
    }
    Ok(())
}

fn at_line(number: usize, failure: &Failure) -> Failure {
    Failure::Usage(format!("line {number}: {failure}; lines of earlier batches are put"))
}

/// Returns the job that a line stands for.
fn line_request(args: &PutArgs, line: &[u8]) -> Result<PutRequest, Failure> {
    let queue = Some(args.queue.clone());
    if !args.jsonl {
        let carried = payload::content(line, args.payload.kind)?;
        let target = args.target.clone();
        return Ok(PutRequest {
            queue,
            target,
            ..request(carried, &args.when, args.options.clone())
        });
    }
    let mut job: PutRequest =
        serde_json::from_slice(line).map_err(|error| Failure::Usage(error.to_string()))?;
    let JobOptions { priority, headers, max_attempts, retry, group } = args.options.clone();
    // The options of the command are the defaults of each line.
    if job.delay.is_none() && job.due.is_none() {
        (job.delay, job.due) = (args.when.delay, args.when.at);
    }
    job.queue = job.queue.or(queue);
    job.priority = job.priority.or(priority);
    job.max_attempts = job.max_attempts.or(max_attempts);
    job.retry = job.retry.or(retry);
    job.group = job.group.or(group);
    job.target = job.target.or_else(|| args.target.clone());
    for (name, value) in headers {
        job.headers.entry(name).or_insert(value);
    }
    Ok(job)
}

/// Completes an id that may be short. The error for an ambiguous one lists the jobs.
pub(crate) fn whole_id(context: &Context, id: &IdArg) -> Result<JobId, Failure> {
    let short = match id {
        IdArg::Whole(id) => return Ok(*id),
        IdArg::Short(short) => short,
    };
    let found: JobIds = context.client.get(&Path::new(&["ids", short]))?.read()?;
    match &found.ids[..] {
        [id] => Ok(*id),
        [] => Err(Failure::NotFound(format!("there is no job with the id {short}"))),
        ids => {
            let lines: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let what = "is ambiguous: give more digits of one of these ids";
            Err(Failure::Usage(format!("{short} {what}\n  {}", lines.join("\n  "))))
        }
    }
}

impl Target {
    fn id(&self) -> Result<IdArg, Failure> {
        args::id(&self.job).map_err(|error| {
            let how = "to name a job by its key, give its queue and its key";
            Failure::Usage(format!("{}; {how}", text::safe(&error)))
        })
    }

    /// Returns the path of the job, with the operation.
    fn path(&self, context: &Context, action: Option<&str>) -> Result<Path, Failure> {
        let id;
        let segments: Vec<&str> = if let Some(key) = &self.key {
            vec!["queues", &self.job, "keys", key]
        } else {
            id = whole_id(context, &self.id()?)?.to_string();
            vec!["jobs", &id]
        };
        Ok(Path::new(&segments.into_iter().chain(action).collect::<Vec<_>>()))
    }

    /// The job with this key that finished last, if one is kept.
    fn finished(&self, context: &Context) -> Result<Option<Answer>, Failure> {
        let Some(key) = &self.key else { return Ok(None) };
        let mut newest = None;
        let mut after: Option<String> = None;
        loop {
            let mut path = Path::new(&["queues", &self.job, "jobs"]).query("key", key);
            if let Some(after) = &after {
                path = path.query("page", after);
            }
            let page: JobPage = context.client.get(&path)?.read()?;
            let found = page.jobs.iter().map(|job| (job.finished_ms, job.id));
            newest = found.chain(newest).max_by_key(|(finished, _)| *finished);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let Some((_, id)) = newest else { return Ok(None) };
        context.output.remark("no live job has this key: this is the last one that finished");
        context.client.get(&Path::new(&["jobs", &id.to_string()])).map(Some)
    }

    /// Adds a suggestion if the job does not exist.
    fn explain(&self, context: &Context, failure: Failure) -> Failure {
        let Some(key) = self.key.as_ref().filter(|_| failure.is_not_found()) else {
            return failure;
        };
        let hint = suggest::key(&context.client, &self.job, key);
        failure.with_hint(hint)
    }
}

pub(crate) fn get(context: &Context, args: &GetArgs) -> Result<(), Failure> {
    let answer = match context.client.get(&args.target.path(context, None)?) {
        Err(failure) if failure.is_not_found() => match args.target.finished(context)? {
            Some(answer) => answer,
            None => return Err(args.target.explain(context, failure)),
        },
        answer => answer?,
    };
    if args.payload {
        let carried = payload::of(&answer.read::<Job>()?);
        let bytes = carried.map(Content::into_bytes).transpose().map_err(Failure::Other)?;
        return context.output.raw(&bytes.unwrap_or_default());
    }
    context.output.answer(&answer, |job: &Job| output::job::show(context.output, job))
}

pub(crate) fn cancel(context: &Context, args: &CancelArgs) -> Result<(), Failure> {
    let answer = context
        .client
        .delete(&args.target.path(context, None)?)
        .map_err(|failure| args.target.explain(context, failure))?;
    context.output.answer(&answer, |cancelled: &Cancelled| {
        context.output.line(format!("cancelled; it was {}", cancelled.was))
    })
}

pub(crate) fn reschedule(context: &Context, args: &RescheduleArgs) -> Result<(), Failure> {
    let path = args.target.path(context, Some("reschedule"))?;
    let request = RescheduleRequest { delay: args.when.delay, due: args.when.at };
    let answer = context
        .client
        .post(&path, &request)
        .map_err(|failure| args.target.explain(context, failure))?;
    context.output.answer(&answer, |moved: &Rescheduled| {
        context.output.line(format!("due {}", context.output.wall.both(moved.due_ms)))
    })
}

/// The unchanged jobs of a page.
#[derive(Serialize, serde::Deserialize)]
struct RawPage {
    jobs: Vec<Box<RawValue>>,
    next: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<JobId>,
    #[serde(default, skip_serializing_if = "is_zero")]
    gaps: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

pub(crate) fn ls(context: &Context, args: &LsArgs) -> Result<(), Failure> {
    if args.by == Some(GroupBy::Error) {
        return errors::by_error(context, args);
    }
    let Some(name) = &args.queue else {
        return queue::ls(context);
    };
    let mut pages = vec![page(context, name, args, args.page.as_deref())?];
    while let Some(next) = pages.last().and_then(|page| page.next.clone()).filter(|_| args.all) {
        pages.push(page(context, name, args, Some(&next))?);
    }
    let next = pages.last().and_then(|page| page.next.clone());
    let damaged = pages.iter().flat_map(|page| page.damaged.iter().copied()).collect();
    let gaps = pages.iter().map(|page| page.gaps).sum();
    let jobs = pages.into_iter().flat_map(|page| page.jobs).collect();
    let all = RawPage { jobs, next, damaged, gaps };
    if context.output.json {
        return context.output.document(&all);
    }
    let read = |job: &RawValue| {
        serde_json::from_str(job.get()).map_err(|error| Failure::Other(error.to_string()))
    };
    let jobs = all.jobs.iter().map(|job| read(job)).collect::<Result<_, _>>()?;
    let page = JobPage { jobs, next: all.next, damaged: all.damaged, gaps: all.gaps };
    if page.jobs.is_empty() {
        let hint = suggest::queue(&context.client, name).map(|hint| format!("; {hint}"));
        let hint = hint.unwrap_or_default();
        context.output.remark(&format!("queue {:?} has no such jobs{hint}", text::safe(name)));
    }
    output::job::list(context.output, &page)
}

fn page(
    context: &Context,
    name: &str,
    args: &LsArgs,
    after: Option<&str>,
) -> Result<RawPage, Failure> {
    let mut path = Path::new(&["queues", name, "jobs"]).query("limit", &args.limit.to_string());
    let filters = [
        ("state", args.state.map(|state| state.to_string())),
        ("due_from", args.due_from.map(|time| time.to_string())),
        ("due_to", args.due_to.map(|time| time.to_string())),
        ("key_prefix", args.key_prefix.clone()),
        ("key", args.key.clone()),
        ("error", args.error.clone()),
        ("error_group", args.error_group.clone()),
        ("page", after.map(str::to_owned)),
    ];
    for (filter, value) in filters {
        if let Some(value) = value {
            path = path.query(filter, &value);
        }
    }
    let answer = context.client.get(&path);
    answer.map_err(|failure| queue::explain(context, name, failure))?.read()
}
