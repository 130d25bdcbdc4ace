//! Jobs that failed with the same error, apart from the numbers and ids in it.

use std::borrow::Cow;
use std::sync::Arc;

use crate::model::id::JobId;
use crate::model::time::Time;

/// The longest text of a group, in characters.
const MAX_CHARS: usize = 200;
/// A word of hexadecimal digits that is at least this long is an id.
const MIN_HEX: usize = 6;
/// A word with digits that is at least this long is an id.
const MIN_RANDOM: usize = 16;

/// Words before the status of an HTTP answer.
const BEFORE_STATUS: [&str; 11] = [
    "http",
    "https",
    "status",
    "code",
    "answered",
    "answer",
    "returned",
    "responded",
    "response",
    "got",
    "received",
];

/// Jobs whose last attempt failed with the same error, apart from numbers and ids.
///
/// ```
/// use tickwheel_queue::{ErrorList, NewJob, Queues, Retry};
///
/// let queues = Queues::in_memory();
/// for port in [4_711, 4_712] {
///     queues.put(NewJob::new("mail", "")).wait()?;
///     let lease = queues.reserve("mail", 1, None).wait()?[0].lease;
///     queues.fail(lease, format!("10.0.0.7:{port} refused"), Retry::Never).wait()?;
/// }
/// let page = queues.errors(ErrorList::of("mail")).wait()?;
/// assert_eq!((&*page.groups[0].text, page.groups[0].count), ("# refused", 2));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorGroup {
    /// The first line of the error, with `#` for numbers and ids. See [`text_of`](Self::text_of).
    pub text: String,
    /// The number of jobs.
    pub count: u64,
    /// The number of dead jobs among them. The others will be tried again.
    pub dead: u64,
    /// When the last of them failed, if that is known.
    pub newest: Option<Time>,
    /// When the first of them failed, if that is known.
    pub oldest: Option<Time>,
    /// One of the jobs: a dead one, if there is one.
    pub example: JobId,
    /// The queue of that job.
    pub queue: Arc<str>,
    /// The whole error of that job.
    pub example_error: String,
}

impl ErrorGroup {
    /// Returns the text of the group that an error belongs to: its first line, at most 200
    /// characters, with `#` for each number, id, address and time. What looks like the status of an
    /// HTTP answer stays.
    ///
    /// ```
    /// use tickwheel_queue::ErrorGroup;
    /// let error = "order 42: 10.0.0.7:443 answered 503\n  at send (mail.js:7)";
    /// assert_eq!(ErrorGroup::text_of(error), "order #: # answered 503");
    /// ```
    pub fn text_of(error: &str) -> String {
        let line = error.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let mut text = String::with_capacity(line.len().min(MAX_CHARS));
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            if let Some(after) = after_uuid(rest) {
                push_mark(&mut text);
                rest = after;
                continue;
            }
            let end = rest.find(|it: char| !it.is_alphanumeric()).unwrap_or(rest.len());
            if end == 0 {
                text.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
            push_word(&mut text, &rest[..end]);
            rest = &rest[end..];
        }
        match text.char_indices().nth(MAX_CHARS) {
            Some((end, _)) => text[..end].to_owned(),
            None => text,
        }
    }
}

/// Returns what follows a UUID at the beginning of a text.
fn after_uuid(text: &str) -> Option<&str> {
    let uuid = text.get(..36)?;
    let fits = uuid.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    fits.then(|| &text[36..])
}

/// Adds `#`. Numbers with nothing but punctuation between them, such as those of an address or a
/// time, are one.
fn push_mark(text: &mut String) {
    let joined = text.strip_suffix(['.', ':', '-', '_', '/', ',', '+']);
    if joined.is_some_and(|joined| joined.ends_with('#')) {
        text.pop();
    } else if !text.ends_with('#') {
        text.push('#');
    }
}

/// Returns `true` if a text ends as one does before the status of an HTTP answer.
fn is_before_status(text: &str) -> bool {
    let words = text.trim_end_matches([' ', ':', '=', '(']);
    let start = words.rfind(|it: char| !it.is_alphabetic()).map_or(0, |at| at + 1);
    let word = words.get(start..).unwrap_or_default();
    text.is_empty() || BEFORE_STATUS.iter().any(|other| word.eq_ignore_ascii_case(other))
}

fn push_word(text: &mut String, word: &str) {
    let is_number = word.len() == 3 && word.parse().is_ok_and(|it: u16| (400..600).contains(&it));
    if is_number && is_before_status(text) {
        text.push_str(word);
        return;
    }
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit()) || word.starts_with("0x");
    if has_digit && (is_hex && word.len() >= MIN_HEX || word.len() >= MIN_RANDOM) {
        push_mark(text);
        return;
    }
    for character in word.chars() {
        if character.is_ascii_digit() {
            push_mark(text);
        } else {
            text.push(character);
        }
    }
}

/// Which errors to group.
///
/// ```
/// use tickwheel_queue::{ErrorList, Queues};
/// let page = Queues::in_memory().errors(ErrorList::all()).wait()?;
/// assert!(page.groups.is_empty() && page.is_complete);
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorList {
    /// The queue; `None` for all.
    pub queue: Option<String>,
    /// The largest number of groups to return, those with most jobs.
    pub limit: usize,
}

impl ErrorList {
    /// The errors of one queue, at most 100 groups.
    pub fn of(queue: impl Into<String>) -> Self {
        Self { queue: Some(queue.into()), limit: 100 }
    }

    /// The errors of all queues, at most 100 groups.
    pub fn all() -> Self {
        Self { queue: None, limit: 100 }
    }
}

/// Errors, grouped. See [`ErrorGroup`] for an example.
///
/// ```
/// use tickwheel_queue::ErrorPage;
/// assert!(ErrorPage::default().groups.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorPage {
    /// The groups, those with most jobs first.
    pub groups: Vec<ErrorGroup>,
    /// The number of jobs with other errors: of groups that are left out.
    pub others: u64,
    /// Whether all jobs were looked at. Dead jobs are looked at first.
    pub is_complete: bool,
}

/// Returns `true` if an error contains a text, whatever the case of ASCII letters.
pub(crate) fn contains(error: &str, text: &str) -> bool {
    let (error, text) = (error.as_bytes(), text.as_bytes());
    text.is_empty() || error.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text))
}

/// Returns the beginning of an error for events, which are kept in memory.
pub(crate) fn beginning(error: &str) -> Cow<'_, str> {
    const MAX_BYTES: usize = 256;
    if error.len() <= MAX_BYTES {
        return error.into();
    }
    let end = (0..=MAX_BYTES).rev().find(|end| error.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &error[..end]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ids_addresses_and_times_are_folded() {
        for (error, text) in [
            ("timeout after 1500 ms", "timeout after # ms"),
            ("job 0190163d-8694-739b-aea5-966c26f8ad91 failed", "job # failed"),
            ("commit 9fceb02d0ae5 not found", "commit # not found"),
            ("127.0.0.1:8080: refused", "#: refused"),
            ("at 2026-11-18T00:45:46.123Z it broke", "at #T#Z it broke"),
            ("HTTP 503 Service Unavailable", "HTTP 503 Service Unavailable"),
            ("answered 404", "answered 404"),
            ("404 Not Found", "404 Not Found"),
            ("status code: 500", "status code: 500"),
            ("worker 417 gave up", "worker # gave up"),
            ("version 1.503", "version #"),
            ("order42 is closed", "order# is closed"),
            ("token Zx81kPq0aLm3nB7v expired", "token # expired"),
            ("facade is not hexadecimal enough", "facade is not hexadecimal enough"),
            ("\n\n  KeyError: 'id'\n  File \"a.py\", line 7", "KeyError: 'id'"),
            ("größe 7 zu groß", "größe # zu groß"),
            ("", ""),
        ] {
            assert_eq!(ErrorGroup::text_of(error), text);
        }
        assert_eq!(ErrorGroup::text_of(&"ä".repeat(5_000)).chars().count(), MAX_CHARS);
    }

    #[test]
    fn the_text_of_a_group_is_its_own_text() {
        for error in ["timeout after 1500 ms", "1-2-3 x 0x7f 99", "a#1 b##2", "10.0.0.7:443/5"] {
            let text = ErrorGroup::text_of(error);
            assert_eq!(ErrorGroup::text_of(&text), text, "{error}");
        }
    }

    #[test]
    fn an_error_contains_a_text_in_any_case() {
        assert!(contains("Connection REFUSED by peer", "refused"));
        assert!(contains("x", "") && !contains("short", "longer than that"));
    }
}
