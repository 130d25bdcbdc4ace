//! Queues: list, show, set, remove, pause, resume; and bulk operations on their jobs.

use std::io::{self, BufRead, IsTerminal, Write};

use tickwheel_api::{
    Count, Counts, FinishedState, KickRequest, Kicked, Pacing, Queue, QueueList,
    QueueSettingsPatch, RemoveFinishedRequest, RetentionPatch,
};
use ureq::http::Method;

use super::job::whole_id;
use super::{Context, group};
use crate::args::{
    CancelWaitingArgs, KickArgs, PacingArgs, QueueCommand, QueueSetArgs, RemoveFinishedArgs,
};
use crate::client::{Extra, Path};
use crate::failure::Failure;
use crate::output::{self, text};
use crate::suggest;

pub(crate) fn run(context: &Context, command: QueueCommand) -> Result<(), Failure> {
    match command {
        QueueCommand::Ls => ls(context),
        QueueCommand::Show { queue } => show(context, &queue),
        QueueCommand::Set(args) => set(context, *args),
        QueueCommand::Groups(args) => group::ls(context, &args),
        QueueCommand::SetGroup(args) => group::set(context, &args),
        QueueCommand::Pause { queue } => switch(context, &queue, "pause", "paused"),
        QueueCommand::Rm { queue, force } => remove(context, &queue, force),
        QueueCommand::Resume { queue } => switch(context, &queue, "resume", "resumed"),
    }
}

/// Adds a suggestion if the queue does not exist.
pub(crate) fn explain(context: &Context, queue: &str, failure: Failure) -> Failure {
    if !failure.is_not_found() {
        return failure;
    }
    let hint = suggest::queue(&context.client, queue);
    failure.with_hint(hint)
}

/// Tells a worker that its queue does not exist, which is no error: a worker may start before the
/// first job.
pub(crate) fn not_there_yet(context: &Context, queue: &str) -> String {
    let hint = suggest::queue(&context.client, queue);
    let hint = hint.unwrap_or_else(|| "its first job creates it".to_owned());
    format!("queue {:?} does not exist yet; {hint}", text::safe(queue))
}

pub(crate) fn ls(context: &Context) -> Result<(), Failure> {
    let answer = context.client.get(&Path::new(&["queues"]))?;
    context.output.answer(&answer, |list: &QueueList| {
        if list.queues.is_empty() {
            context.output.remark("there are no queues; one comes with its first job");
        }
        output::queue::list(context.output, &list.queues)?;
        if list.queues.iter().any(|queue| queue.jobs.done + queue.jobs.cancelled > 0) {
            context.output.remark(
                "done and cancelled count the jobs that retention keeps, not all that ever were",
            );
        }
        Ok(())
    })
}

fn show(context: &Context, queue: &str) -> Result<(), Failure> {
    let answer = context.client.get(&Path::new(&["queues", queue]));
    let answer = answer.map_err(|failure| explain(context, queue, failure))?;
    context.output.answer(&answer, |queue: &Queue| output::queue::show(context.output, queue))
}

fn switch(context: &Context, queue: &str, action: &str, done: &str) -> Result<(), Failure> {
    let answer =
        context.client.post(&Path::new(&["queues", queue, action]), &serde_json::json!({}));
    let answer = answer.map_err(|failure| explain(context, queue, failure))?;
    context.output.answer(&answer, |_: &serde::de::IgnoredAny| {
        context.output.line(format!("queue {:?} is {done}", text::safe(queue)))
    })
}

fn remove(context: &Context, queue: &str, force: bool) -> Result<(), Failure> {
    let path = Path::new(&["queues", queue]);
    let path = if force { path.query("force", "true") } else { path };
    let answer = context.client.delete(&path);
    let answer = answer.map_err(|failure| explain(context, queue, failure))?;
    context.output.answer(&answer, |removed: &Count| {
        let jobs = text::count(removed.count, "job");
        context.output.line(format!("queue {:?} is removed, with {jobs}", text::safe(queue)))
    })
}

fn set(context: &Context, args: QueueSetArgs) -> Result<(), Failure> {
    let (pacing, group_pacing) = pacings(context, &args)?;
    let retention = RetentionPatch {
        done: args.keep_done,
        dead: args.keep_dead,
        cancelled: args.keep_cancelled,
    };
    let patch = QueueSettingsPatch {
        lease: args.lease,
        max_attempts: args.max_attempts,
        retry: args.retry,
        pacing,
        group_pacing,
        retention: (retention != RetentionPatch::default()).then_some(retention),
        order: args.order,
        target: if args.no_target { Some(String::new()) } else { args.target },
        fair_groups: args.fair_groups,
    };
    if patch == QueueSettingsPatch::default() {
        return Err(Failure::Usage(
            "say what to set, such as --lease 2m; `tickwheel queue set --help` lists the settings"
                .to_owned(),
        ));
    }
    let settings = Path::new(&["queues", &args.queue, "settings"]);
    let extra = Extra::default();
    let answer = context.client.call(Method::PATCH, &settings, Some(&patch), &extra)?;
    context.output.answer(&answer, |queue: &Queue| output::queue::show(context.output, queue))
}

/// Returns the pacing of the queue and of its groups, if either changes. The API replaces a pacing
/// as a whole, so parts that are not named are read first.
fn pacings(
    context: &Context,
    args: &QueueSetArgs,
) -> Result<(Option<Pacing>, Option<Pacing>), Failure> {
    let PacingArgs { starts, window, concurrency, no_pacing, .. } = args.pacing;
    let PacingArgs { group_starts, group_window, group_concurrency, no_group_pacing, .. } =
        args.pacing;
    let named = Pacing { starts, window, concurrency };
    let group_named =
        Pacing { starts: group_starts, window: group_window, concurrency: group_concurrency };
    let nothing = Pacing::default();
    let is_partial = |pacing: &Pacing| {
        *pacing != nothing && (pacing.starts.is_none() || pacing.concurrency.is_none())
    };
    let (now, group_now) = if is_partial(&named) || is_partial(&group_named) {
        match context.client.get(&Path::new(&["queues", &args.queue])) {
            Ok(answer) => {
                let settings = answer.read::<Queue>()?.settings;
                (settings.pacing, settings.group_pacing)
            }
            Err(failure) if failure.is_not_found() => Default::default(),
            Err(failure) => return Err(failure),
        }
    } else {
        Default::default()
    };
    let merge = |named: Pacing, now: Pacing, is_none: bool| {
        if is_none {
            return Some(Pacing::default());
        }
        (named != Pacing::default()).then(|| Pacing {
            starts: named.starts.or(now.starts),
            window: named.window.or(now.window),
            concurrency: named.concurrency.or(now.concurrency),
        })
    };
    Ok((merge(named, now, no_pacing), merge(group_named, group_now, no_group_pacing)))
}

pub(crate) fn kick(context: &Context, args: &KickArgs) -> Result<(), Failure> {
    if let Some(id) = &args.id {
        let id = whole_id(context, id)?;
        let path = Path::new(&["jobs", &id.to_string(), "kick"]);
        let answer = context.client.post(&path, &serde_json::json!({}))?;
        return context.output.answer(&answer, |_: &Kicked| context.output.line("ready again"));
    }
    let queue = args.queue.as_deref().unwrap_or_default();
    if args.error.is_some() || args.error_group.is_some() || args.dry_run {
        return super::errors::kick(context, queue, args);
    }
    let request = KickRequest { limit: args.limit };
    counted(context, queue, "kick", &request, |count| {
        let verb = if count == 1 { "is" } else { "are" };
        format!("{} {verb} ready again", text::count(count, "job"))
    })
}

pub(crate) fn remove_finished(context: &Context, args: &RemoveFinishedArgs) -> Result<(), Failure> {
    let what = |jobs: &Counts| {
        let (number, state) = match args.state {
            FinishedState::Dead => (jobs.dead, "dead"),
            FinishedState::Done => (jobs.done, "done"),
            FinishedState::Cancelled => (jobs.cancelled, "cancelled"),
        };
        let older = args.older_than.map(|age| format!(", if older than {age}"));
        format!(
            "Remove {}{}",
            text::count(number, &format!("{state} job")),
            older.unwrap_or_default()
        )
    };
    let is_wanted = args.yes || is_confirmed(context, &args.queue, "removes finished jobs", what)?;
    if !is_wanted {
        context.output.remark("nothing was done");
        return Ok(());
    }
    let request = RemoveFinishedRequest { state: args.state, older_than: args.older_than };
    counted(context, &args.queue, "remove-finished", &request, |count| {
        format!("{} removed", text::count(count, "job"))
    })
}

pub(crate) fn cancel_waiting(context: &Context, args: &CancelWaitingArgs) -> Result<(), Failure> {
    let what = |jobs: &Counts| {
        format!("Cancel {}", text::count(jobs.scheduled + jobs.ready, "waiting job"))
    };
    let is_wanted =
        args.yes || is_confirmed(context, &args.queue, "cancels all waiting jobs", what)?;
    if !is_wanted {
        context.output.remark("nothing was done");
        return Ok(());
    }
    counted(context, &args.queue, "cancel-waiting", &serde_json::json!({}), |count| {
        format!("{} cancelled", text::count(count, "job"))
    })
}

/// Asks at the terminal whether to do `what`. Without a terminal, `--yes` is required.
fn is_confirmed(
    context: &Context,
    queue: &str,
    effect: &str,
    what: impl FnOnce(&Counts) -> String,
) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || context.output.json {
        return Err(Failure::Usage(format!(
            "this {effect} of queue {:?}: repeat it with --yes",
            text::safe(queue)
        )));
    }
    let answer = context.client.get(&Path::new(&["queues", queue]));
    let jobs = answer.map_err(|failure| explain(context, queue, failure))?.read::<Queue>()?.jobs;
    write!(io::stderr(), "{} of queue {:?}? [y/N] ", what(&jobs), text::safe(queue))?;
    io::stderr().flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn counted(
    context: &Context,
    queue: &str,
    action: &str,
    request: &impl serde::Serialize,
    tell: impl FnOnce(u64) -> String,
) -> Result<(), Failure> {
    let answer = context.client.post(&Path::new(&["queues", queue, action]), request);
    let answer = answer.map_err(|failure| explain(context, queue, failure))?;
    context.output.answer(&answer, |answer: &Count| context.output.line(tell(answer.count)))
}
