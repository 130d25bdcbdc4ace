//! Sign in, problems, and questions before an action.

use askama::Template;

use super::render;
use crate::Frame;
use crate::texts::Texts;

/// The page that asks for a token.
///
/// ```
/// use tickwheel_page::{Frame, LoginView};
/// let frame = Frame::at("/login", 0);
/// let html = LoginView::new(&frame, "/queues", true).html();
/// assert!(html.contains("type=\"password\"") && html.contains("not valid"));
/// ```
#[derive(Debug, Template)]
#[template(path = "login.html")]
pub struct LoginView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    next: &'a str,
    wrong: bool,
}

impl<'a> LoginView<'a> {
    /// Returns the page. After signing in, the visitor goes to `next`; `wrong` says that the token
    /// just given is not valid.
    pub fn new(frame: &'a Frame, next: &'a str, wrong: bool) -> Self {
        Self { f: frame, t: frame.language.texts(), next, wrong }
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}

/// The page that says why something did not work.
///
/// ```
/// use tickwheel_page::{Frame, ProblemView};
/// let frame = Frame::at("/jobs", 0);
/// let html = ProblemView::new(&frame, 404, "Not found", "no job <b>", None, "/jobs").html();
/// assert!(html.contains("no job &#60;b&#62;"));
/// ```
#[derive(Debug, Template)]
#[template(path = "problem.html")]
pub struct ProblemView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    status: u16,
    title: &'a str,
    detail: &'a str,
    request_id: Option<&'a str>,
    back: &'a str,
}

impl<'a> ProblemView<'a> {
    /// Returns the page for an HTTP status, with a link back.
    pub fn new(
        frame: &'a Frame,
        status: u16,
        title: &'a str,
        detail: &'a str,
        request_id: Option<&'a str>,
        back: &'a str,
    ) -> Self {
        Self { f: frame, t: frame.language.texts(), status, title, detail, request_id, back }
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}

/// The page that asks before it does something to many jobs: it names their number.
///
/// ```
/// use tickwheel_page::{ConfirmView, Frame};
///
/// let frame = Frame::at("/queues/mail/confirm", 0);
/// let page = ConfirmView::of_queue(&frame, "remove-dead", "mail", 1200).unwrap();
/// assert!(page.html().contains("Remove 1\u{202f}200 dead jobs of mail for ever?"));
/// assert!(ConfirmView::of_queue(&frame, "explode", "mail", 1).is_none());
/// ```
#[derive(Debug, Template)]
#[template(path = "confirm.html")]
pub struct ConfirmView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    title: String,
    question: String,
    action: String,
    fields: Vec<(String, String)>,
    button: &'static str,
    back: String,
}

impl<'a> ConfirmView<'a> {
    /// Returns the question before an action on the jobs of a queue, if there is such an action.
    pub fn of_queue(frame: &'a Frame, action: &str, queue: &str, jobs: u64) -> Option<Self> {
        let t = frame.language.texts();
        let title = match action {
            "kick" => t.kick_dead,
            "remove-dead" => t.remove_dead,
            "remove-done" => t.remove_done,
            "remove-cancelled" => t.remove_cancelled,
            "cancel-waiting" => t.cancel_waiting,
            "remove" => t.remove_queue,
            _ => return None,
        };
        let question = t.question(action).replace("{n}", &frame.n(jobs)).replace("{queue}", queue);
        let fields = vec![("expected".to_owned(), jobs.to_string())];
        let (action, back) = (format!("/queues/{queue}/{action}"), format!("/queues/{queue}"));
        Some(Self {
            f: frame,
            t,
            title: title.to_owned(),
            question,
            action,
            fields,
            button: title,
            back,
        })
    }

    /// Returns the question before a schedule is removed.
    pub fn of_schedule(frame: &'a Frame, schedule: &str) -> Self {
        let t = frame.language.texts();
        Self {
            f: frame,
            t,
            title: t.remove.to_owned(),
            question: frame.fill(t.ask_remove_schedule, schedule),
            action: format!("/schedules/{schedule}/remove"),
            fields: Vec::new(),
            button: t.remove,
            back: "/schedules".to_owned(),
        }
    }

    /// Returns the question before an action on many jobs. `fields` describe the jobs, and `jobs` is
    /// their number, or a lower bound if `is_partial`.
    pub fn of_jobs(
        frame: &'a Frame,
        action: &str,
        jobs: u64,
        is_partial: bool,
        fields: Vec<(String, String)>,
        back: String,
    ) -> Option<Self> {
        let t = frame.language.texts();
        let title = match action {
            "retry" => t.retry,
            "run" => t.run_now,
            "reschedule" => t.reschedule,
            "cancel" => t.cancel,
            _ => return None,
        };
        let number = if is_partial { frame.fill(t.at_least, frame.n(jobs)) } else { frame.n(jobs) };
        let question = t.question(&format!("bulk-{action}")).replace("{n}", &number);
        let action = "/jobs/bulk/run".to_owned();
        Some(Self {
            f: frame,
            t,
            title: title.to_owned(),
            question,
            action,
            fields,
            button: t.confirm,
            back,
        })
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}
