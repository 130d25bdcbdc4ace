//! Errors of schedules, with the place in the expression that is wrong.

use core::fmt;
use core::ops::Range;
use std::string::String;

use super::field::Field;
use crate::ScheduleError;

/// The reason why an expression is not a schedule, or why a task was not scheduled.
///
/// The message shows the expression, and marks the wrong field and value below it:
///
/// ```
/// use tickwheel::cron::{CronError, Field, Problem, Schedule};
///
/// let error = Schedule::new("0 9,25 * * MON-FRI", "Europe/Berlin").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the hour field cannot have \"25\": the number is out of range; \
///      it takes 0 to 23\n  \
///        0 9,25 * * MON-FRI\n  \
///        \u{20} ~~^^"
/// );
/// let CronError::Field { field, value, problem, .. } = error else { panic!("{error}") };
/// assert_eq!((field, value.as_str(), problem), (Field::Hour, "25", Problem::OutOfRange));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CronError {
    /// A field has an invalid value.
    Field {
        /// The expression as given.
        expression: String,
        /// The field.
        field: Field,
        /// The bytes of the expression that the field occupies.
        span: Range<usize>,
        /// The bytes of the expression that the wrong value occupies.
        value_span: Range<usize>,
        /// The wrong value.
        value: String,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The number of fields is neither 5 nor 6.
    FieldCount {
        /// The expression as given.
        expression: String,
        /// The number of fields.
        found: usize,
    },
    /// An unknown nickname, which begins with `@`.
    Nickname {
        /// The expression as given.
        expression: String,
    },
    /// No date matches, as with February 30.
    NoSuchDate {
        /// The expression as given.
        expression: String,
        /// The bytes of the expression that the day and month fields occupy.
        span: Range<usize>,
    },
    /// There is no such time zone.
    Zone {
        /// The name as given.
        name: String,
        /// A known name that is similar.
        similar: Option<String>,
    },
    /// The timer did not accept the task.
    Schedule(ScheduleError),
}

/// What is wrong with a value of a field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Problem {
    /// A number that is too small or too large.
    OutOfRange,
    /// Neither a number nor a name.
    NotAValue,
    /// A range whose end comes before its start.
    Backwards,
    /// A range without a start or an end.
    OpenRange,
    /// An empty item: before, between or after commas.
    Empty,
    /// `*` in a list.
    Star,
    /// A step of zero, one that is too large, or a missing one.
    Step {
        /// The largest step of the field.
        largest: u8,
    },
    /// A step after a single number.
    StepOfOne,
    /// A step after nothing.
    StepOfNothing,
    /// `#` without a number from 1 to 5 or `L`.
    Nth,
    /// `L` without a weekday.
    LastOfNothing,
    /// Both `L` and `LW`.
    LastTwice,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "the number is out of range",
            Self::NotAValue => "that is neither a number nor a name",
            Self::Backwards => "the range ends before it starts: write its two parts as a list",
            Self::OpenRange => "the range lacks an end: write both",
            Self::Empty => "an item is empty: remove a comma",
            Self::Star => "* already matches everything: use it alone",
            Self::Step { largest } => {
                return write!(f, "the step must be a number from 1 to {largest}");
            }
            Self::StepOfOne => "a step needs a range or *, as in 10-50/20",
            Self::StepOfNothing => "a step needs something before it, as in */5",
            Self::Nth => "# must be followed by a number from 1 to 5 or L",
            Self::LastOfNothing => "L needs a weekday, as in FRIL for the last Friday",
            Self::LastTwice => "L and LW cannot be combined: use one of them",
        })
    }
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field { expression, field, span, value_span, value, problem } => {
                write!(f, "the {field} field cannot have {value:?}: {problem}")?;
                // The range of a step or a count is part of the problem's text.
                if !matches!(problem, Problem::Step { .. } | Problem::Nth) {
                    write!(f, "; it takes {}", field.takes())?;
                }
                point(f, expression, span, value_span)
            }
            Self::FieldCount { expression, found } => {
                let fields = if *found == 1 { "field" } else { "fields" };
                write!(
                    f,
                    "an expression has 5 fields (minute, hour, day of month, month, day of week), \
                     or 6 with the second first; this one has {found} {fields}"
                )?;
                let end = expression.trim_end().len();
                point(f, expression, &(end..end), &(end..end))
            }
            Self::Nickname { expression } => {
                write!(
                    f,
                    "unknown nickname {:?}: use @hourly, @daily, @midnight, @weekly, @monthly, \
                     @yearly or @annually, or write the fields",
                    expression.trim()
                )
            }
            Self::NoSuchDate { expression, span } => {
                write!(f, "no date ever matches these days and months")?;
                point(f, expression, span, span)
            }
            Self::Zone { name, similar } => {
                write!(
                    f,
                    "there is no time zone {name:?}: names look like \"Europe/Berlin\" or \"UTC\", \
                     and fixed offsets like \"+02:00\""
                )?;
                match similar {
                    Some(similar) => write!(f, "; did you mean {similar:?}?"),
                    None => Ok(()),
                }
            }
            Self::Schedule(error) => error.fmt(f),
        }
    }
}

/// Writes the expression, and below it marks the field with `~` and the value in it with `^`.
fn point(
    f: &mut fmt::Formatter<'_>,
    expression: &str,
    field: &Range<usize>,
    value: &Range<usize>,
) -> fmt::Result {
    f.write_str("\n  ")?;
    for letter in expression.chars() {
        // A line break or a tab would misalign the marks.
        write!(f, "{}", if letter.is_control() { ' ' } else { letter })?;
    }
    f.write_str("\n  ")?;
    let end = field.end.max(value.start + 1);
    let ends = expression.char_indices().map(|(at, _)| at).chain([expression.len()]);
    for at in ends.take_while(|&at| at < end) {
        let marked = value.contains(&at) || at == value.start;
        f.write_str(match () {
            () if marked => "^",
            () if field.contains(&at) => "~",
            () => " ",
        })?;
    }
    Ok(())
}

impl core::error::Error for CronError {}

impl From<ScheduleError> for CronError {
    fn from(error: ScheduleError) -> Self {
        Self::Schedule(error)
    }
}
