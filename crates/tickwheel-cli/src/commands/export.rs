//! `export` and `import`: queues, jobs, schedules and push targets as lines of JSON, for a pipe from
//! one server to another.
//!
//! Ground rules: a line holds only what an import restores, so that an export of an import is the
//! same again. A leased job is exported as a waiting one. An export holds no secret, and an imported
//! target is paused: the server that it comes from may still deliver to it.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::Path as FilePath;

use serde::{Deserialize, Serialize};
use tickwheel_api::{
    Batch, Code, FinishedAt, FinishedState, ImportRequest, Imported, Job, JobPage, JobState,
    PutRequest, QueueList, QueueSettings, Results, Schedule, ScheduleList, ScheduleRequest,
    TargetList, TargetSettings, Timestamp, Verdict,
};
use ureq::http::Method;

use super::Context;
use crate::args::{ExportArgs, ImportArgs};
use crate::client::{Extra, Path};
use crate::failure::Failure;
use crate::output::text;

/// Jobs, and bytes of their lines, that are imported with one request.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 4 << 20;
/// What the server shows in place of a credential.
const HIDDEN: &str = "…";
/// Jobs that are listed with one request.
const PAGE: &str = "1000";

/// A line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Queue(Box<ExportedQueue>),
    Job(Box<ImportRequest>),
    Schedule(Box<ExportedSchedule>),
    Target(Box<ExportedTarget>),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportedTarget {
    name: String,
    settings: TargetSettings,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportedQueue {
    name: String,
    paused: bool,
    settings: QueueSettings,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportedSchedule {
    name: String,
    paused: bool,
    put: ScheduleRequest,
}

impl Line {
    /// Returns what identifies the line among those of its kind.
    fn name(&self) -> String {
        match self {
            Self::Queue(queue) => format!("queue {}", queue.name),
            Self::Schedule(schedule) => format!("schedule {}", schedule.name),
            Self::Target(target) => format!("target {}", target.name),
            Self::Job(job) => job.put.id.map_or_else(String::new, |id| id.to_string()),
        }
    }
}

fn exported(job: Job) -> Line {
    let state = match job.state {
        JobState::Dead => Some(FinishedState::Dead),
        JobState::Done => Some(FinishedState::Done),
        JobState::Cancelled => Some(FinishedState::Cancelled),
        JobState::Scheduled | JobState::Ready | JobState::Leased => None,
    };
    let finished = state.zip(job.finished_ms);
    Line::Job(Box::new(ImportRequest {
        put: PutRequest {
            queue: Some(job.queue),
            id: Some(job.id),
            key: job.key,
            due: Some(Timestamp::from_millis(job.due_ms)),
            priority: (job.priority != 0).then_some(job.priority),
            headers: job.headers,
            payload: job.payload,
            text: job.text,
            base64: job.base64,
            max_attempts: job.max_attempts,
            retry: job.retry,
            group: job.group,
            on_success: job.on_success,
            on_death: job.on_death,
            ..PutRequest::default()
        },
        created: Timestamp::from_millis(job.created_ms),
        attempts: job.attempts,
        last_error: job.last_error,
        finished: finished.map(|(state, at)| FinishedAt { state, at: Timestamp::from_millis(at) }),
    }))
}

fn exported_schedule(schedule: Schedule) -> Line {
    Line::Schedule(Box::new(ExportedSchedule {
        name: schedule.name,
        paused: schedule.paused,
        put: ScheduleRequest {
            queue: schedule.queue,
            cron: schedule.cron,
            timezone: schedule.timezone,
            every: schedule.every,
            misfire: Some(schedule.misfire),
            misfire_limit: schedule.misfire_limit,
            payload: schedule.payload,
            text: schedule.text,
            base64: schedule.base64,
            delay: schedule.delay,
            key: schedule.key,
            on_conflict: schedule.on_conflict,
            priority: Some(schedule.priority),
            headers: schedule.headers,
            max_attempts: schedule.max_attempts,
            retry: schedule.retry,
            group: schedule.group,
            grace: Some(schedule.grace),
        },
    }))
}

/// The destination of the lines, and the lines that it already has.
struct Lines {
    out: Box<dyn Write>,
    known: HashSet<String>,
    written: u64,
}

impl Lines {
    fn new(args: &ExportArgs) -> Result<Self, Failure> {
        let wrong = |error: io::Error| at(&args.file, &error);
        if args.file == FilePath::new("-") {
            return Ok(Self::to(Box::new(io::stdout().lock()), HashSet::new()));
        }
        if !args.resume {
            let file = File::create_new(&args.file).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Failure::Usage(format!(
                    "{} exists: name a new file, or continue it with --resume",
                    args.file.display()
                )),
                _ => at(&args.file, &error),
            })?;
            return Ok(Self::to(Box::new(BufWriter::new(file)), HashSet::new()));
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&args.file)
            .map_err(wrong)?;
        let (known, length) = known_lines(&file).map_err(wrong)?;
        // The last line may be incomplete.
        file.set_len(length).and_then(|()| file.seek(SeekFrom::End(0))).map_err(wrong)?;
        Ok(Self::to(Box::new(BufWriter::new(file)), known))
    }

    fn to(out: Box<dyn Write>, known: HashSet<String>) -> Self {
        Self { out, known, written: 0 }
    }

    fn write(&mut self, line: &Line) -> Result<(), Failure> {
        if self.known.insert(line.name()) {
            serde_json::to_writer(&mut self.out, line).map_err(io::Error::from)?;
            self.out.write_all(b"\n")?;
            self.written += u64::from(matches!(line, Line::Job(_)));
        }
        Ok(())
    }
}

fn at(path: &FilePath, error: &io::Error) -> Failure {
    Failure::Other(format!("{}: {error}", path.display()))
}

/// Returns the names of all complete lines of a file, and their bytes.
fn known_lines(file: &File) -> io::Result<(HashSet<String>, u64)> {
    let (mut reader, mut known, mut length) = (BufReader::new(file), HashSet::new(), 0);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let Ok(read) = serde_json::from_slice::<Line>(&line) else { break };
        if !line.ends_with(b"\n") {
            break;
        }
        known.insert(read.name());
        length += line.len() as u64;
        line.clear();
    }
    Ok((known, length))
}

pub(crate) fn export(context: &Context, args: &ExportArgs) -> Result<(), Failure> {
    let mut lines = Lines::new(args)?;
    export_targets(context, &mut lines)?;
    let list: QueueList = context.client.get(&Path::new(&["queues"]))?.read()?;
    let all = list.queues.iter().map(|queue| {
        let jobs = &queue.jobs;
        jobs.scheduled + jobs.ready + jobs.leased + jobs.dead + jobs.done + jobs.cancelled
    });
    let (all, mut seen) = (all.sum::<u64>(), 0);
    for queue in list.queues {
        let name = queue.name.clone();
        lines.write(&Line::Queue(Box::new(ExportedQueue {
            name: queue.name,
            paused: queue.paused,
            settings: queue.settings,
        })))?;
        export_jobs(context, &name, |job| {
            seen += 1;
            if seen % 1_000 == 0 {
                context.output.progress(seen.min(all.saturating_sub(1)), all);
            }
            lines.write(&exported(job))
        })?;
    }
    let schedules: ScheduleList = context.client.get(&Path::new(&["schedules"]))?.read()?;
    for schedule in schedules.schedules {
        lines.write(&exported_schedule(schedule))?;
    }
    lines.out.flush()?;
    context.output.progress(all, all);
    context.output.remark(&format!("{} exported", text::count(lines.written, "job")));
    Ok(())
}

/// Writes the targets before the queues that name them, without the headers that hold credentials.
fn export_targets(context: &Context, lines: &mut Lines) -> Result<(), Failure> {
    let list: TargetList = match context.client.get(&Path::new(&["targets"])) {
        Ok(answer) => answer.read()?,
        Err(Failure::Refused { problem, .. }) if matches!(problem.status, 403 | 404) => {
            context.output.remark("push targets are not exported: the token may not see them");
            return Ok(());
        }
        Err(failure) => return Err(failure),
    };
    for mut target in list.targets {
        target.settings.headers.retain(|_, value| value != HIDDEN);
        let (name, settings) = (target.name, target.settings);
        lines.write(&Line::Target(Box::new(ExportedTarget { name, settings })))?;
    }
    Ok(())
}

/// Lists all jobs of a queue. Leased jobs are among the waiting ones, as they will be once they are
/// imported.
fn export_jobs(
    context: &Context,
    queue: &str,
    mut write: impl FnMut(Job) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let place = |job: &Job| (job.due_ms, -i16::from(job.priority));
    let mut leased = Vec::new();
    for_each_job(context, queue, Some("leased"), |job| {
        leased.push(job);
        Ok(())
    })?;
    leased.sort_by_key(|job| (place(job), job.id));
    let mut leased = leased.into_iter().peekable();
    for_each_job(context, queue, None, |job| {
        if job.state == JobState::Leased {
            return Ok(());
        }
        let waits = matches!(job.state, JobState::Scheduled | JobState::Ready);
        while let Some(earlier) = leased.next_if(|it| !waits || place(it) <= place(&job)) {
            write(earlier)?;
        }
        write(job)
    })?;
    leased.try_for_each(write)
}

fn for_each_job(
    context: &Context,
    queue: &str,
    state: Option<&str>,
    mut visit: impl FnMut(Job) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut path = Path::new(&["queues", queue, "jobs"]).query("limit", PAGE);
    if let Some(state) = state {
        path = path.query("state", state);
    }
    let mut next: Option<String> = None;
    loop {
        let page = match &next {
            None => context.client.get(&path)?,
            Some(next) => context.client.get(&path.clone().query("page", next))?,
        };
        let page: JobPage = page.read()?;
        for id in &page.damaged {
            context.output.remark(&format!("{id} cannot be read, and is not exported"));
        }
        page.jobs.into_iter().try_for_each(&mut visit)?;
        next = page.next;
        if next.is_none() {
            return Ok(());
        }
    }
}

/// The result of an import.
#[derive(Default, Serialize)]
struct Tally {
    imported: u64,
    already_there: u64,
    refused: u64,
    queues: u64,
    schedules: u64,
    targets: u64,
}

struct Import<'a> {
    context: &'a Context<'a>,
    tally: Tally,
    /// Jobs of the next request, with their line numbers.
    batch: Vec<(u64, ImportRequest)>,
    bytes: usize,
}

pub(crate) fn import(context: &Context, args: &ImportArgs) -> Result<(), Failure> {
    let input: Box<dyn BufRead> = if args.file == FilePath::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&args.file)
            .map_err(|error| Failure::Usage(format!("{}: {error}", args.file.display())))?;
        Box::new(BufReader::new(file))
    };
    let mut import = Import { context, tally: Tally::default(), batch: Vec::new(), bytes: 0 };
    for (index, line) in input.split(b'\n').enumerate() {
        let (line, number) = (line?, index as u64 + 1);
        if line.is_empty() {
            continue;
        }
        let read: Line = serde_json::from_slice(&line).map_err(|error| {
            let how = match number {
                1 => "this is not an export; `tickwheel restore` reads a backup",
                _ => "everything before it is imported, and the import can be repeated",
            };
            Failure::Usage(format!("line {number}: {error}; {how}"))
        })?;
        match read {
            Line::Queue(queue) => import.queue(&queue)?,
            Line::Schedule(schedule) => import.schedule(&schedule)?,
            Line::Target(target) => import.target(&target)?,
            Line::Job(job) => import.job(number, *job, line.len())?,
        }
    }
    import.send()?;
    import.report()
}

impl Import<'_> {
    fn exists(&self, path: &Path) -> Result<bool, Failure> {
        match self.context.client.get(path) {
            Ok(_) => Ok(true),
            Err(failure) if failure.is_not_found() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Adds a target that is paused, with a signing secret of its own. An existing one stays
    /// unchanged.
    fn target(&mut self, target: &ExportedTarget) -> Result<(), Failure> {
        let (client, name) = (&self.context.client, &target.name);
        let path = Path::new(&["targets", name]);
        if self.exists(&path)? {
            return Ok(());
        }
        client.call(Method::PUT, &path, Some(&target.settings), &Extra::default())?;
        client.post(&Path::new(&["targets", name, "pause"]), &serde_json::json!({}))?;
        self.tally.targets += 1;
        let name = text::safe(name);
        self.context.output.remark(&format!(
            "target {name:?} is added, paused and without secrets: `tickwheel target rotate {name}` \
             shows a new signing secret, `tickwheel target set {name} --header NAME=VALUE` adds \
             credentials, `tickwheel target resume {name}` starts deliveries"
        ));
        Ok(())
    }

    /// Creates a queue with its settings. An existing one keeps its own.
    fn queue(&mut self, queue: &ExportedQueue) -> Result<(), Failure> {
        let (client, name) = (&self.context.client, &queue.name);
        if self.exists(&Path::new(&["queues", name]))? {
            return Ok(());
        }
        let settings = Path::new(&["queues", name, "settings"]);
        client.call(Method::PUT, &settings, Some(&queue.settings), &Extra::default())?;
        if queue.paused {
            client.post(&Path::new(&["queues", name, "pause"]), &serde_json::json!({}))?;
        }
        self.tally.queues += 1;
        Ok(())
    }

    /// Adds a schedule after all jobs before it. An existing one stays unchanged.
    fn schedule(&mut self, schedule: &ExportedSchedule) -> Result<(), Failure> {
        self.send()?;
        let path = Path::new(&["schedules", &schedule.name]);
        if self.exists(&path)? {
            return Ok(());
        }
        let client = &self.context.client;
        client.call(Method::PUT, &path, Some(&schedule.put), &Extra::default())?;
        if schedule.paused {
            let pause = Path::new(&["schedules", &schedule.name, "pause"]);
            client.post(&pause, &serde_json::json!({}))?;
        }
        self.tally.schedules += 1;
        Ok(())
    }

    fn job(&mut self, number: u64, job: ImportRequest, bytes: usize) -> Result<(), Failure> {
        if self.batch.len() == BATCH || (self.bytes + bytes > BATCH_BYTES && self.bytes > 0) {
            self.send()?;
        }
        self.batch.push((number, job));
        self.bytes += bytes;
        Ok(())
    }

    fn send(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.bytes = 0;
        let (numbers, items): (Vec<u64>, Vec<ImportRequest>) = self.batch.drain(..).unzip();
        let path = Path::new(&["jobs", "batch", "import"]);
        let answer = self.context.client.post(&path, &Batch { items })?;
        let results: Results<Imported> = answer.read()?;
        for (number, result) in numbers.into_iter().zip(results.results) {
            match result {
                Verdict::Ok(_) => self.tally.imported += 1,
                Verdict::Error(problem) if problem.code == Code::IdExists => {
                    self.tally.already_there += 1;
                }
                Verdict::Error(problem) => {
                    self.tally.refused += 1;
                    let why = Failure::refused(problem);
                    self.context.output.remark(&format!("line {number}: refused: {why}"));
                }
            }
        }
        Ok(())
    }

    fn report(self) -> Result<(), Failure> {
        let (output, tally) = (self.context.output, self.tally);
        if output.json {
            output.document(&tally)?;
        } else {
            let there = match tally.already_there {
                0 => String::new(),
                number => format!(", {} already there", text::grouped(number)),
            };
            output.line(format!(
                "{} imported{there}; {} and {} added",
                text::count(tally.imported, "job"),
                text::count(tally.queues, "queue"),
                text::count(tally.schedules, "schedule"),
            ))?;
        }
        if tally.refused > 0 {
            return Err(Failure::Other(format!("{} refused", text::count(tally.refused, "job"))));
        }
        Ok(())
    }
}
