//! Put a job, schedules, and push targets.

use std::fmt::Write;

use askama::Template;
use tickwheel_api::{PutResponse, Schedule, Target, TargetState, TargetTest};

use super::render;
use crate::Frame;
use crate::texts::Texts;

/// What a put does if a live job has the key.
pub const CONFLICTS: [&str; 3] = ["replace", "keep", "reject"];
/// What a payload of the form can be.
pub const PAYLOAD_KINDS: [&str; 4] = ["auto", "json", "text", "base64"];

/// The form that puts a job, as the visitor filled it in.
///
/// ```
/// use tickwheel_page::PutForm;
///
/// let form = PutForm {
///     queue: "mail".into(),
///     payload: "it's late".into(),
///     kind: "text".into(),
///     delay: "30m".into(),
///     ..PutForm::default()
/// };
/// let commands = form.commands("http://127.0.0.1:7300");
/// assert_eq!(commands.cli, r"tickwheel put mail 'it'\''s late' --as text --delay 30m");
/// assert!(commands.curl.starts_with("curl http://127.0.0.1:7300/v1/queues/mail/jobs "));
/// ```
#[derive(Clone, Debug, Default)]
pub struct PutForm {
    /// The queue.
    pub queue: String,
    /// The delay, as in `30m`.
    pub delay: String,
    /// The due time, instead of a delay.
    pub due: String,
    /// The key.
    pub key: String,
    /// One of [`CONFLICTS`].
    pub on_conflict: String,
    /// The group.
    pub group: String,
    /// The priority.
    pub priority: String,
    /// The largest number of attempts.
    pub max_attempts: String,
    /// The payload.
    pub payload: String,
    /// One of [`PAYLOAD_KINDS`].
    pub kind: String,
    /// Headers, one in a line.
    pub headers: String,
}

/// Commands that do what a form does.
///
/// ```
/// let form = tickwheel_page::PutForm { queue: "mail".into(), ..Default::default() };
/// let commands = form.commands("https://jobs.example");
/// assert!(commands.curl.contains("https://jobs.example/v1/queues/mail/jobs"));
/// assert!(commands.cli.starts_with("tickwheel put mail"));
/// ```
#[derive(Clone, Debug)]
pub struct Commands {
    /// With curl.
    pub curl: String,
    /// With the command line of Tickwheel.
    pub cli: String,
}

impl PutForm {
    /// Returns the headers of the form, with lower-case names.
    ///
    /// # Errors
    ///
    /// If a line has no colon.
    pub fn header_lines(&self) -> Result<Vec<(String, String)>, String> {
        let lines = self.headers.lines().filter(|line| !line.trim().is_empty());
        lines
            .map(|line| {
                let (name, value) = line.split_once(':').ok_or_else(|| {
                    format!("{:?} is not a header: write it like name: value", line.trim())
                })?;
                Ok((name.trim().to_lowercase(), value.trim().to_owned()))
            })
            .collect()
    }

    /// Returns the kind of the payload: `json`, `text` or `base64`.
    pub fn payload_kind(&self) -> &str {
        match &self.kind[..] {
            "json" | "text" | "base64" => &self.kind,
            _ if serde_json::from_str::<&serde_json::value::RawValue>(&self.payload).is_ok() => {
                "json"
            }
            _ => "text",
        }
    }

    /// Returns the body of the request that puts the job. Lines of the form that make no sense are
    /// in it as they are, so that the server says what is wrong.
    pub fn body(&self) -> String {
        let mut fields = Vec::new();
        let text = |text: &str| serde_json::Value::from(text).to_string();
        match self.payload_kind() {
            "json" => fields.push(("payload", self.payload.trim().to_owned())),
            kind => {
                fields
                    .push((if kind == "base64" { "base64" } else { "text" }, text(&self.payload)));
            }
        }
        let texts = [
            ("delay", &self.delay),
            ("due", &self.due),
            ("key", &self.key),
            ("group", &self.group),
        ];
        fields.extend(
            texts
                .iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| (*name, text(value))),
        );
        if !self.key.is_empty() && !matches!(&self.on_conflict[..], "" | "replace") {
            fields.push(("on_conflict", text(&self.on_conflict)));
        }
        for (name, value) in [("priority", &self.priority), ("max_attempts", &self.max_attempts)] {
            if !value.is_empty() {
                let is_number = value.parse::<i64>().is_ok();
                fields.push((name, if is_number { value.clone() } else { text(value) }));
            }
        }
        if let Ok(headers) = self.header_lines()
            && !headers.is_empty()
        {
            let object: serde_json::Map<_, _> =
                headers.into_iter().map(|(name, value)| (name, value.into())).collect();
            fields.push(("headers", serde_json::Value::Object(object).to_string()));
        }
        let fields: Vec<_> =
            fields.into_iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        format!("{{{}}}", fields.join(", "))
    }

    /// Returns commands that put the same job, with the server at `origin`.
    pub fn commands(&self, origin: &str) -> Commands {
        let queue = if self.queue.is_empty() { "QUEUE" } else { &self.queue };
        let curl = format!(
            "curl {} -H 'content-type: application/json' -d {}",
            quoted(&format!("{origin}/v1/queues/{queue}/jobs")),
            quoted(&self.body())
        );
        let mut cli = format!("tickwheel put {} {}", quoted(queue), quoted(&self.payload));
        match self.payload_kind() {
            "base64" => {
                cli = format!(
                    "echo {} | base64 -d | tickwheel put {} - --as bytes",
                    quoted(&self.payload),
                    quoted(queue)
                );
            }
            kind => {
                cli.push_str(" --as ");
                cli.push_str(kind);
            }
        }
        let conflict = match &self.on_conflict[..] {
            "replace" => "",
            _ if self.key.is_empty() => "",
            other => other,
        };
        let options = [
            ("--delay", &self.delay[..]),
            ("--at", &self.due),
            ("--key", &self.key),
            ("--on-conflict", conflict),
            ("--group", &self.group),
            ("--priority", &self.priority),
            ("--max-attempts", &self.max_attempts),
        ];
        for (name, value) in options.iter().filter(|(_, value)| !value.is_empty()) {
            let _ = write!(cli, " {name} {}", quoted(value));
        }
        for (name, value) in self.header_lines().unwrap_or_default() {
            let _ = write!(cli, " --header {}", quoted(&format!("{name}={value}")));
        }
        Commands { curl, cli }
    }
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The form that puts a job.
///
/// ```
/// use tickwheel_page::{Frame, PutForm, PutView};
/// let frame = Frame::at("/put", 0);
/// let html = PutView::new(&frame, PutForm::default(), vec!["mail".into()]).html();
/// assert!(html.contains("<option value=\"mail\">"));
/// ```
#[derive(Debug, Template)]
#[template(path = "put.html")]
pub struct PutView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    form: PutForm,
    queues: Vec<String>,
    commands: Option<Commands>,
    put: Option<PutResponse>,
    problem: Option<String>,
}

impl<'a> PutView<'a> {
    /// Returns the page; `queues` are names to choose from.
    pub fn new(frame: &'a Frame, form: PutForm, queues: Vec<String>) -> Self {
        let t = frame.language.texts();
        Self { f: frame, t, form, queues, commands: None, put: None, problem: None }
    }

    /// Shows commands that do the same, with the server at `origin`.
    #[must_use]
    pub fn with_commands(self, origin: &str) -> Self {
        Self { commands: Some(self.form.commands(origin)), ..self }
    }

    /// Shows the job that was put.
    #[must_use]
    pub fn with_job(self, put: PutResponse) -> Self {
        Self { put: Some(put), ..self }
    }

    /// Shows why the job was refused.
    #[must_use]
    pub fn with_problem(self, problem: String) -> Self {
        Self { problem: Some(problem), ..self }
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}

/// A time at which a schedule puts a job.
///
/// ```
/// use tickwheel_page::{CronCheck, Frame, Run, ScheduleCheckView};
///
/// let run = Run { due_ms: 1_000, in_zone: "Thu 1970-01-01 01:00:01 CET".into() };
/// let check = CronCheck { explanation: "Every second".into(), runs: vec![run] };
/// let html = ScheduleCheckView::new(&Frame::at("/schedules/check", 0), Ok(check)).html();
/// assert!(html.contains("01:00:01 CET") && html.contains("in 1 s"));
/// ```
#[derive(Clone, Debug)]
pub struct Run {
    /// In milliseconds since 1970.
    pub due_ms: u64,
    /// In the time zone of the schedule.
    pub in_zone: String,
}

/// A schedule with its next runs.
///
/// ```
/// # let schedule: tickwheel_api::Schedule = serde_json::from_str(r#"{"name": "beat",
/// #   "queue": "mail", "explanation": "Every 1h", "every": "1h", "misfire": "once", "text": "x",
/// #   "priority": 0, "grace": "1m", "paused": true, "fired": 7,
/// #   "created": "1970-01-01T00:00:00.000Z", "created_ms": 0}"#)?;
/// use tickwheel_page::{Frame, ScheduleForm, ScheduleRow, SchedulesView};
///
/// let rows = vec![ScheduleRow { schedule, runs: Vec::new() }];
/// let frame = Frame::at("/schedules", 0);
/// let html = SchedulesView::new(&frame, rows, ScheduleForm::default(), Vec::new()).html();
/// assert!(html.contains("Every 1h") && html.contains("/schedules/beat/resume"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScheduleRow {
    /// The schedule.
    pub schedule: Schedule,
    /// Its next runs.
    pub runs: Vec<Run>,
}

/// The form of a new schedule, as the visitor filled it in.
///
/// ```
/// use tickwheel_page::{Frame, ScheduleForm, SchedulesView};
///
/// let form = ScheduleForm { cron: "0 25 * * *".into(), ..ScheduleForm::default() };
/// let frame = Frame::at("/schedules", 0);
/// let page = SchedulesView::new(&frame, Vec::new(), form, Vec::new());
/// let html = page.with_problem("the hour field cannot have 25".into()).html();
/// assert!(html.contains("cannot have 25") && html.contains("value=\"0 25 * * *\""));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScheduleForm {
    /// The name.
    pub name: String,
    /// The queue.
    pub queue: String,
    /// A cron expression, or empty.
    pub cron: String,
    /// Its time zone; UTC if empty.
    pub timezone: String,
    /// A period, instead of a cron expression.
    pub every: String,
    /// The payload of its jobs.
    pub payload: String,
}

/// What a cron expression means.
///
/// ```
/// use tickwheel_page::{CronCheck, Frame, ScheduleCheckView};
///
/// let check = CronCheck { explanation: "At 09:00 every day, UTC".into(), runs: Vec::new() };
/// let html = ScheduleCheckView::new(&Frame::at("/schedules/check", 0), Ok(check)).html();
/// assert!(html.contains("At 09:00 every day"));
/// ```
#[derive(Clone, Debug)]
pub struct CronCheck {
    /// In words.
    pub explanation: String,
    /// The next times.
    pub runs: Vec<Run>,
}

/// All schedules.
///
/// ```
/// use tickwheel_page::{Frame, ScheduleForm, SchedulesView};
/// let frame = Frame::at("/schedules", 0);
/// let html = SchedulesView::new(&frame, Vec::new(), ScheduleForm::default(), Vec::new()).html();
/// assert!(html.contains("There is no schedule yet."));
/// ```
#[derive(Debug, Template)]
#[template(path = "schedules.html")]
pub struct SchedulesView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    schedules: Vec<ScheduleRow>,
    form: ScheduleForm,
    queues: Vec<String>,
    check: Option<Result<CronCheck, String>>,
    problem: Option<String>,
}

impl<'a> SchedulesView<'a> {
    /// Returns the page with a form; `queues` are names to choose from.
    pub fn new(
        frame: &'a Frame,
        schedules: Vec<ScheduleRow>,
        form: ScheduleForm,
        queues: Vec<String>,
    ) -> Self {
        let t = frame.language.texts();
        Self { f: frame, t, schedules, form, queues, check: None, problem: None }
    }

    /// Shows what the expression of the form means, or why it means nothing.
    #[must_use]
    pub fn with_check(self, check: Result<CronCheck, String>) -> Self {
        Self { check: Some(check), ..self }
    }

    /// Shows why the schedule was refused.
    #[must_use]
    pub fn with_problem(self, problem: String) -> Self {
        Self { problem: Some(problem), ..self }
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}

/// What a cron expression means, for a script that shows it while the visitor types.
///
/// ```
/// use tickwheel_page::{Frame, ScheduleCheckView};
/// let frame = Frame::at("/schedules/check", 0);
/// let html = ScheduleCheckView::new(&frame, Err("<b> is not a day".into())).html();
/// assert!(html.contains("&#60;b&#62; is not a day"));
/// ```
#[derive(Debug, Template)]
#[template(path = "check.html")]
pub struct ScheduleCheckView<'a> {
    f: &'a Frame,
    check: Result<CronCheck, String>,
}

impl<'a> ScheduleCheckView<'a> {
    /// Returns the answer.
    pub fn new(frame: &'a Frame, check: Result<CronCheck, String>) -> Self {
        Self { f: frame, check }
    }

    /// Returns the answer as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}

/// The push targets.
///
/// ```
/// use tickwheel_page::{Frame, TargetsView};
/// let html = TargetsView::new(&Frame::at("/targets", 0), Vec::new()).html();
/// assert!(html.contains("There is no push target yet."));
/// ```
#[derive(Debug, Template)]
#[template(path = "targets.html")]
pub struct TargetsView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    targets: Vec<Target>,
}

impl<'a> TargetsView<'a> {
    /// Returns the page.
    pub fn new(frame: &'a Frame, targets: Vec<Target>) -> Self {
        Self { f: frame, t: frame.language.texts(), targets }
    }

    #[allow(clippy::unused_self, reason = "templates call methods")]
    fn is_off(&self, target: &Target) -> bool {
        matches!(target.state, TargetState::Paused | TargetState::Held | TargetState::Stopped)
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}

/// A test request to a push target, with its answer.
///
/// ```
/// # let test: tickwheel_api::TargetTest = serde_json::from_str(r#"{
/// #   "id": "0190163d-8694-739b-aea5-966c26f8ad91", "method": "POST", "url": "https://x.example/",
/// #   "request_headers": [], "request_body": "{}", "duration_ms": 12, "verdict": "done",
/// #   "status": 200}"#)?;
/// use tickwheel_page::{Frame, TargetTestView};
/// let html = TargetTestView::new(&Frame::at("/targets/partner/test", 0), "partner", &test).html();
/// assert!(html.contains("Test of partner"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Template)]
#[template(path = "target_test.html")]
pub struct TargetTestView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    name: &'a str,
    test: &'a TargetTest,
}

impl<'a> TargetTestView<'a> {
    /// Returns the page.
    pub fn new(frame: &'a Frame, name: &'a str, test: &'a TargetTest) -> Self {
        Self { f: frame, t: frame.language.texts(), name, test }
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}
