//! What can be wrong with a schedule, and how to say where.

use core::fmt;
use core::ops::Range;
use std::string::String;

use super::field::Field;
use crate::ScheduleError;

/// Why there is no such schedule, or why its task was not scheduled.
///
/// What is wrong with an expression is shown beneath it:
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
    /// A field says what it cannot say.
    Field {
        /// The expression as it was given.
        expression: String,
        /// Which field it is.
        field: Field,
        /// Where the field is in the expression, in bytes.
        span: Range<usize>,
        /// Where in the expression the wrong value is.
        value_span: Range<usize>,
        /// The wrong value.
        value: String,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The number of fields is neither 5 nor 6.
    FieldCount {
        /// The expression as it was given.
        expression: String,
        /// How many fields it has.
        found: usize,
    },
    /// A nickname, which begins with `@`, that is not known.
    Nickname {
        /// The expression as it was given.
        expression: String,
    },
    /// There is no date that matches, as with February 30.
    NoSuchDate {
        /// The expression as it was given.
        expression: String,
        /// Where in the expression the fields for days and months are.
        span: Range<usize>,
    },
    /// There is no such time zone.
    Zone {
        /// The name that was given.
        name: String,
        /// A name that was perhaps meant.
        similar: Option<String>,
    },
    /// The timer did not take the task.
    Schedule(ScheduleError),
}

/// What is wrong with a value of a field.
///
/// ```
/// use tickwheel::cron::Problem;
///
/// assert_eq!(Problem::OutOfRange.to_string(), "the number is out of range");
/// ```
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
    /// Nothing between two commas, or beside one.
    Empty,
    /// `*` in a list.
    Star,
    /// A step of zero, one that is too large, or none.
    Step {
        /// The largest step that the field takes.
        largest: u8,
    },
    /// A step behind a single number.
    StepOfOne,
    /// A step behind nothing.
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
            Self::Empty => "there is nothing at a comma: leave the comma out",
            Self::Star => "* stands for all: leave the rest out",
            Self::Step { largest } => {
                return write!(f, "the step is a number from 1 to {largest}");
            }
            Self::StepOfOne => "a step needs a range or *, as in 10-50/20",
            Self::StepOfNothing => "a step needs something before it, as in */5",
            Self::Nth => "# needs a number from 1 to 5 or L behind it",
            Self::LastOfNothing => "L needs a weekday, as in FRIL for the last Friday",
            Self::LastTwice => "L and LW do not go together: take one of them",
        })
    }
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field { expression, field, span, value_span, value, problem } => {
                write!(f, "the {field} field cannot have {value:?}: {problem}")?;
                // A step and a count have a range of their own.
                if !matches!(problem, Problem::Step { .. } | Problem::Nth) {
                    write!(f, "; it takes {}", field.takes())?;
                }
                point(f, expression, span, value_span)
            }
            Self::FieldCount { expression, found } => {
                let fields = if *found == 1 { "field" } else { "fields" };
                write!(
                    f,
                    "an expression of {found} {fields} is not possible: write 5 (minute, hour, day \
                     of month, month, day of week), or 6 with the second before them"
                )?;
                let end = expression.trim_end().len();
                point(f, expression, &(end..end), &(end..end))
            }
            Self::Nickname { expression } => {
                write!(
                    f,
                    "the nickname {:?} is not known: take @hourly, @daily, @midnight, @weekly, \
                     @monthly, @yearly or @annually, or write fields",
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

/// Shows the expression, and beneath it the field with `~` and the value in it with `^`.
fn point(
    f: &mut fmt::Formatter<'_>,
    expression: &str,
    field: &Range<usize>,
    value: &Range<usize>,
) -> fmt::Result {
    f.write_str("\n  ")?;
    for letter in expression.chars() {
        // A line break or a tab would move the marks away from what they mark.
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
