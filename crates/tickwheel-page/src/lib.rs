//! The dashboard of Tickwheel: templates, assets and texts.
//!
//! The server reads what a page shows, through the same functions as the API, and this crate turns
//! it into HTML. It performs no I/O and knows no HTTP.
//!
//! | module | what it holds |
//! |---|---|
//! | `assets` | style, scripts and the icon, compressed at build time |
//! | `frame` | what every page shares: language, theme, time format, rights, notice |
//! | `texts` | the texts of the page, one table for each language |
//! | `show` | numbers, durations and hostile text in a readable form |
//! | `payload` | payloads as indented JSON, text or a hex dump |
//! | `settings` | retries, rates and retention as one line of a form |
//! | `views` | one struct for each page, with its template |
//!
//! Ground rules:
//! * Templates escape every value; no template marks a value as safe.
//! * Text that comes from a client goes through [`plain`], which makes control characters and marks
//!   of the writing direction visible.
//! * Every page is readable, and every action possible, without JavaScript. Scripts only refresh
//!   numbers, draw charts and the wheel, and save clicks.
#![forbid(unsafe_code)]

mod assets;
mod frame;
mod payload;
mod settings;
mod show;
mod texts;
mod views;

pub use assets::{ASSETS, Asset, VERSION, asset, asset_path};
pub use frame::{Frame, Language, Notice, Rights, Theme, TimeFormat};
pub use payload::{PayloadKind, PayloadView, indented};
pub use settings::{
    format_keep, format_pacing, format_retry, parse_keep, parse_pacing, parse_retry,
};
pub use show::{count, duration, micros, plain, rate, short_id, size};
pub use texts::Texts;
pub use views::{
    BulkProgress, BulkView, CONFLICTS, Commands, ConfirmView, CronCheck, ErrorRow, ErrorsView,
    JOB_STATES, JobFilter, JobRow, JobView, JobsView, LoginView, OverviewView, PAYLOAD_KINDS,
    ProblemView, PutForm, PutView, QueueSort, QueueView, QueuesView, Run, ScheduleCheckView,
    ScheduleForm, ScheduleRow, SchedulesView, TargetTestView, TargetsView, WheelView, path_with,
};

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
