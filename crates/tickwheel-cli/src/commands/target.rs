//! Push targets: add, list, show, set, pause, resume, rotate, remove, test.

use serde::de::IgnoredAny;
use tickwheel_api::{
    Pacing, RotateRequest, Target, TargetEvent, TargetList, TargetPatch, TargetSettings, TargetTest,
};
use ureq::http::Method;

use super::Context;
use crate::args::{TargetAddArgs, TargetCommand, TargetOptions, TargetSetArgs};
use crate::client::{Answer, Extra, Path};
use crate::events::Events;
use crate::failure::Failure;
use crate::output::{self, text};
use crate::suggest;

pub(crate) fn run(context: &Context, command: TargetCommand) -> Result<(), Failure> {
    match command {
        TargetCommand::Add(args) => add(context, *args),
        TargetCommand::Ls => ls(context),
        TargetCommand::Show { name } => {
            let answer = explained(context, &name, context.client.get(&path(&name)))?;
            shown(context, &answer)
        }
        TargetCommand::Set(args) => set(context, *args),
        TargetCommand::Pause { name } => switch(context, &name, "pause", "paused"),
        TargetCommand::Resume { name } => switch(context, &name, "resume", "resumed"),
        TargetCommand::Rotate { name, keep_old } => {
            let request = RotateRequest { keep_old: Some(keep_old) };
            let path = Path::new(&["targets", &name, "rotate"]);
            let answer = explained(context, &name, context.client.post(&path, &request))?;
            context.output.answer(&answer, |target: &Target| secret(context, target))
        }
        TargetCommand::Rm { name } => {
            let answer = explained(context, &name, context.client.delete(&path(&name)))?;
            context.output.answer(&answer, |_: &IgnoredAny| {
                context.output.line(format!("target {:?} is removed", text::safe(&name)))
            })
        }
        TargetCommand::Watch { count } => watch(context, count.unwrap_or(u64::MAX)),
        TargetCommand::Test { name } => {
            let path = Path::new(&["targets", &name, "test"]);
            let answer = context.client.post(&path, &serde_json::json!({}));
            let answer = explained(context, &name, answer)?;
            context
                .output
                .answer(&answer, |test: &TargetTest| output::target::test(context.output, test))?;
            output::target::verdict(&answer.read()?)
        }
    }
}

fn path(name: &str) -> Path {
    Path::new(&["targets", name])
}

/// Adds a suggestion if the target does not exist.
fn explained(
    context: &Context,
    name: &str,
    answer: Result<Answer, Failure>,
) -> Result<Answer, Failure> {
    answer.map_err(|failure| {
        if !failure.is_not_found() {
            return failure;
        }
        let hint = suggest::target(&context.client, name);
        failure.with_hint(hint)
    })
}

fn shown(context: &Context, answer: &Answer) -> Result<(), Failure> {
    context.output.answer(answer, |target: &Target| output::target::show(context.output, target))
}

fn secret(context: &Context, target: &Target) -> Result<(), Failure> {
    let Some(secret) = &target.secret else { return Ok(()) };
    context.output.remark("the signing secret is shown only now:");
    context.output.line(text::safe(secret))
}

fn ls(context: &Context) -> Result<(), Failure> {
    let answer = context.client.get(&Path::new(&["targets"]))?;
    context.output.answer(&answer, |list: &TargetList| {
        if list.targets.is_empty() {
            context.output.remark("there are no targets; `tickwheel target add` adds one");
        }
        output::target::list(context.output, &list.targets)
    })
}

/// Shows states and their changes until the server ends the stream.
fn watch(context: &Context, mut left: u64) -> Result<(), Failure> {
    let stream = context.client.stream(&Path::new(&["target-events"]), None)?;
    let mut events = Events::new(stream);
    while left > 0
        && let Ok(Some(event)) = events.next()
    {
        left -= 1;
        if context.output.json {
            context.output.line(text::safe(&event.data))?;
            continue;
        }
        let Ok(told) = serde_json::from_str::<TargetEvent>(&event.data) else { continue };
        let time = context.output.wall.absolute(told.at_ms);
        let probe =
            told.next_probe_ms.map(|at| format!(", next probe {}", context.output.wall.both(at)));
        let reason = told.reason.map(|reason| format!(": {}", text::safe(&reason)));
        context.output.line(format!(
            "{time}  {:<8}  {}{}{}",
            text::safe(&event.name),
            text::safe(&told.target),
            reason.unwrap_or_default(),
            probe.unwrap_or_default()
        ))?;
    }
    Ok(())
}

fn switch(context: &Context, name: &str, action: &str, done: &str) -> Result<(), Failure> {
    let path = Path::new(&["targets", name, action]);
    let answer = context.client.post(&path, &serde_json::json!({}));
    let answer = explained(context, name, answer)?;
    context.output.answer(&answer, |_: &IgnoredAny| {
        context.output.line(format!("target {:?} is {done}", text::safe(name)))
    })
}

fn add(context: &Context, args: TargetAddArgs) -> Result<(), Failure> {
    let exists = context.client.get(&path(&args.name));
    if exists.is_ok() {
        return Err(Failure::Usage(format!(
            "target {:?} exists: change it with `tickwheel target set`, or choose another name",
            text::safe(&args.name)
        )));
    }
    let patch = patch_of(args.options, &Pacing::default())?;
    let settings = patch.apply(TargetSettings::new(args.target_url));
    let answer =
        context.client.call(Method::PUT, &path(&args.name), Some(&settings), &Extra::default())?;
    context.output.answer(&answer, |target: &Target| {
        output::target::show(context.output, target)?;
        secret(context, target)
    })
}

fn set(context: &Context, args: TargetSetArgs) -> Result<(), Failure> {
    let TargetSetArgs { name, target_url, no_rate, options } = args;
    let answer = explained(context, &name, context.client.get(&path(&name)))?;
    let mut pacing = answer.read::<Target>()?.settings.pacing;
    if no_rate {
        (pacing.starts, pacing.window) = (None, None);
    }
    let mut patch = patch_of(options, &pacing)?;
    patch.url = target_url;
    if no_rate && patch.pacing.is_none() {
        patch.pacing = Some(pacing);
    }
    if patch == TargetPatch::default() {
        return Err(Failure::Usage(
            "say what to set, such as --rate 50/1s; `tickwheel target set --help` lists the \
             settings"
                .to_owned(),
        ));
    }
    let answer =
        context.client.call(Method::PATCH, &path(&name), Some(&patch), &Extra::default())?;
    shown(context, &answer)
}

/// Returns the named settings. The API replaces a pacing as a whole, so parts that are not named
/// are kept.
fn patch_of(options: TargetOptions, now: &Pacing) -> Result<TargetPatch, Failure> {
    let has_pacing = options.rate.is_some() || options.concurrency.is_some();
    let (starts, window) = match options.rate {
        Some((starts, window)) => (Some(starts), Some(window)),
        None => (now.starts, now.window),
    };
    let concurrency = options.concurrency.or(now.concurrency);
    let ca = options.target_ca.map(|file| {
        std::fs::read_to_string(&file)
            .map_err(|error| Failure::Usage(format!("{} cannot be read: {error}", file.display())))
    });
    Ok(TargetPatch {
        url: None,
        method: options.method,
        headers: (!options.headers.is_empty()).then(|| options.headers.into_iter().collect()),
        forward: (!options.forward.is_empty()).then_some(options.forward),
        timeout: options.timeout,
        ca: ca.transpose()?,
        pacing: has_pacing.then_some(Pacing { starts, window, concurrency }),
        retry: options.retry,
        max_attempts: options.max_attempts,
    })
}
