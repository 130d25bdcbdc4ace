//! What every page shares.

use std::borrow::Borrow;

use askama::Template;
use askama::filters::HtmlSafe;
use tickwheel_api::rfc3339;

use crate::texts::{self, Texts};
use crate::{asset_path, show};

/// A language of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Simplified Chinese.
    Chinese,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 2] = [Self::English, Self::Chinese];

    /// Returns its code, as HTML has it.
    pub const fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-CN",
        }
    }

    /// Returns the language with a code.
    pub fn of_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.code() == code)
    }

    /// Returns the language that a header `Accept-Language` prefers; English if it names none.
    pub fn preferred(accept: &str) -> Self {
        let known = |tag: &str| {
            let tag = tag.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            match tag.split('-').next() {
                Some("zh") => Some(Self::Chinese),
                Some("en") => Some(Self::English),
                _ => None,
            }
        };
        accept.split(',').find_map(known).unwrap_or_default()
    }

    /// Returns its texts.
    pub const fn texts(self) -> &'static Texts {
        match self {
            Self::English => &texts::EN,
            Self::Chinese => &texts::ZH,
        }
    }
}

/// The colours of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// As the system has it.
    #[default]
    Auto,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

impl Theme {
    /// All themes.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Light, Self::Dark];

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// Returns the theme with a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.as_str() == name)
    }
}

/// How the page writes points in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// As a distance from now.
    #[default]
    Relative,
    /// In the browser's time zone. Without JavaScript, in UTC.
    Local,
    /// In UTC.
    Utc,
}

impl TimeFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Relative, Self::Local, Self::Utc];

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Relative => "relative",
            Self::Local => "local",
            Self::Utc => "utc",
        }
    }

    /// Returns the format with a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }
}

/// What the visitor may do. The server decides again at each action; this only hides buttons.
///
/// ```
/// use tickwheel_page::{Frame, Rights, ScheduleForm, SchedulesView};
///
/// let reader = Frame { rights: Rights::default(), ..Frame::at("/schedules", 0) };
/// let html = SchedulesView::new(&reader, Vec::new(), ScheduleForm::default(), Vec::new()).html();
/// assert!(!html.contains("New schedule"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// May put, cancel and reschedule jobs.
    pub produce: bool,
    /// May change settings, pause, retry and remove.
    pub admin: bool,
    /// May see all queues, and so the push targets.
    pub all_queues: bool,
}

impl Rights {
    /// Everything.
    pub const ALL: Self = Self { produce: true, admin: true, all_queues: true };
}

/// What the last action did.
///
/// ```
/// use tickwheel_page::{Language, Notice};
///
/// assert!(Notice::of(Language::English, "removed", Some(3)).is_some());
/// assert!(Notice::of(Language::English, "your account is closed", None).is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice(String);

impl Notice {
    /// Returns the notice of an action with the number of things that it changed. Unknown actions
    /// have none, so an address cannot make the page say anything of its own.
    pub fn of(language: Language, action: &str, number: Option<u64>) -> Option<Self> {
        let text = language.texts().done(action)?;
        Some(Self(text.replace("{n}", &show::count(number.unwrap_or(1)))))
    }
}

/// What every page shares.
///
/// ```
/// use tickwheel_page::{Frame, Language, LoginView};
///
/// let frame = Frame { language: Language::Chinese, ..Frame::at("/login", 0) };
/// let html = LoginView::new(&frame, "/queues", false).html();
/// assert!(html.contains("lang=\"zh-CN\"") && html.contains("令牌"));
/// ```
#[derive(Clone, Debug)]
pub struct Frame {
    /// The language.
    pub language: Language,
    /// The colours.
    pub theme: Theme,
    /// How times are written.
    pub times: TimeFormat,
    /// Path and query of the page.
    pub path: String,
    /// The time of the server, in milliseconds since 1970.
    pub now_ms: u64,
    /// The name of the visitor's token, if there is one.
    pub token: Option<String>,
    /// What the visitor may do.
    pub rights: Rights,
    /// What the last action did.
    pub notice: Option<Notice>,
}

/// A number that templates show, by value or by reference.
pub(crate) trait Number {
    /// Returns the number.
    fn get(&self) -> u64;
}

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl Number for $kind {
            fn get(&self) -> u64 {
                u64::try_from(*self).unwrap_or(u64::MAX)
            }
        }
    )*};
}

numbers!(u8, u32, u64, usize);

impl<T: Number + ?Sized> Number for &T {
    fn get(&self) -> u64 {
        (**self).get()
    }
}

impl Frame {
    /// Returns the frame of a page at a path, for a visitor who may do everything.
    pub fn at(path: impl Into<String>, now_ms: u64) -> Self {
        Self {
            language: Language::default(),
            theme: Theme::default(),
            times: TimeFormat::default(),
            path: path.into(),
            now_ms,
            token: None,
            rights: Rights::ALL,
            notice: None,
        }
    }
}

/// What templates call.
#[allow(clippy::unused_self, clippy::needless_pass_by_value, reason = "templates call methods")]
impl Frame {
    pub(crate) fn asset(&self, name: &str) -> String {
        asset_path(name)
    }

    /// Whether the page belongs to a section of the navigation.
    pub(crate) fn is_in(&self, section: &str) -> bool {
        let path = self.path.split('?').next().unwrap_or_default();
        let rest = path.strip_prefix(section);
        rest.is_some_and(|rest| rest.is_empty() || (section != "/" && rest.starts_with('/')))
    }

    pub(crate) fn notice_text(&self) -> Option<&str> {
        self.notice.as_ref().map(|notice| &notice.0[..])
    }

    pub(crate) fn n(&self, number: impl Number) -> String {
        show::count(number.get())
    }

    pub(crate) fn span(&self, millis: impl Number) -> String {
        show::duration(millis.get())
    }

    pub(crate) fn us(&self, micros: impl Number) -> String {
        show::micros(micros.get())
    }

    pub(crate) fn rate(&self, rate: impl Borrow<f64>) -> String {
        show::rate(*rate.borrow())
    }

    pub(crate) fn size(&self, bytes: impl Number) -> String {
        show::size(bytes.get())
    }

    pub(crate) fn plain(&self, text: impl AsRef<str>) -> String {
        show::plain(text.as_ref())
    }

    pub(crate) fn line(&self, text: impl AsRef<str>) -> String {
        show::first_line(text.as_ref(), 160)
    }

    pub(crate) fn state(&self, state: impl ToString) -> &'static str {
        self.language.texts().state(&state.to_string())
    }

    /// Returns a text with its placeholder filled.
    pub(crate) fn fill(&self, text: &str, value: impl AsRef<str>) -> String {
        text.replace("{}", value.as_ref())
    }

    /// Returns a point in time as an element.
    pub(crate) fn time(&self, millis: impl Number) -> TimeView {
        let millis = millis.get();
        let exact = rfc3339(millis);
        let absolute = format!("{} {} UTC", &exact[..10], &exact[11..19]);
        let text = match self.times {
            TimeFormat::Relative => self.distance(millis),
            TimeFormat::Local | TimeFormat::Utc => absolute.clone(),
        };
        TimeView { millis, exact, absolute, text }
    }

    fn distance(&self, millis: u64) -> String {
        let texts = self.language.texts();
        let distance = show::duration(millis.abs_diff(self.now_ms) / 1_000 * 1_000);
        match millis.abs_diff(self.now_ms) {
            0..1_000 => texts.now.to_owned(),
            _ if millis > self.now_ms => self.fill(texts.time_in, distance),
            _ => self.fill(texts.time_ago, distance),
        }
    }
}

/// A point in time as an element that a script keeps up to date.
#[derive(Debug, Template)]
#[template(
    source = r#"<time datetime="{{ exact }}" data-ms="{{ millis }}" title="{{ absolute }}">{{ text }}</time>"#,
    ext = "html"
)]
pub(crate) struct TimeView {
    millis: u64,
    exact: String,
    absolute: String,
    text: String,
}

/// Its template escapes what it shows.
impl HtmlSafe for TimeView {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_chooses_the_language() {
        for (accept, wanted) in [
            ("", Language::English),
            ("de-DE,de;q=0.9", Language::English),
            ("zh-CN,zh;q=0.9,en;q=0.8", Language::Chinese),
            ("de, zh-TW;q=0.8", Language::Chinese),
            ("en-US,zh;q=0.5", Language::English),
        ] {
            assert_eq!(Language::preferred(accept), wanted, "{accept}");
        }
    }

    #[test]
    fn a_section_is_marked_by_its_path() {
        let at = |path: &str| Frame::at(path, 0);
        assert!(at("/").is_in("/") && !at("/jobs").is_in("/"));
        assert!(at("/queues/mail?x=1").is_in("/queues") && at("/queues").is_in("/queues"));
        assert!(!at("/queues-x").is_in("/queues"));
    }

    #[test]
    fn times_are_relative_to_the_server() {
        let frame = Frame::at("/", 1_000_000);
        let text = |millis: u64| frame.time(millis).text;
        assert_eq!(text(1_000_500), "now");
        assert_eq!(text(1_065_400), "in 1 min 5 s");
        assert_eq!(text(940_000), "1 min ago");
        let utc = Frame { times: TimeFormat::Utc, ..frame };
        assert_eq!(utc.time(0_u64).text, "1970-01-01 00:00:00 UTC");
    }

    #[test]
    fn only_known_actions_have_a_notice() {
        assert!(Notice::of(Language::English, "<b>hacked</b>", None).is_none());
        let notice = Notice::of(Language::English, "kicked", Some(1_200)).unwrap();
        assert!(notice.0.contains("1\u{202f}200"), "{notice:?}");
    }
}
