//! The calendar: schedules by cron expressions, in time zones.
//!
//! [`Timer::cron`](crate::Timer::cron) runs a task whenever the clock on the wall shows a time of
//! its schedule, and [`Timer::calendar`](crate::Timer::calendar) has the choices. A [`Schedule`]
//! is of use by itself: it tells the coming times and explains itself.
//!
//! ```
//! use tickwheel::cron::Schedule;
//! use tickwheel::Timer;
//!
//! let timer = Timer::new();
//! let report = timer.cron("0 9 * * MON-FRI", "Europe/Berlin", || println!("good morning"))?;
//!
//! let schedule = Schedule::new("0 9 * * MON-FRI", "Europe/Berlin")?;
//! assert_eq!(schedule.explain(), "At 09:00 on Monday through Friday, Europe/Berlin");
//! for time in schedule.next(3) {
//!     println!("{time}");
//! }
//! # report.cancel();
//! # Ok::<(), tickwheel::cron::CronError>(())
//! ```
//!
//! # Expressions
//!
//! Five fields, or six with the second first, as [`croner`](https://docs.rs/croner) reads them:
//!
//! ```text
//! ┌──────────────── second        0-59, may be left out: then it is 0
//! │ ┌────────────── minute        0-59
//! │ │ ┌──────────── hour          0-23
//! │ │ │ ┌────────── day of month  1-31, L (the last), LW (the last from Monday to Friday),
//! │ │ │ │                         15W (the day from Monday to Friday nearest to the 15th)
//! │ │ │ │ ┌──────── month         1-12 or JAN-DEC
//! │ │ │ │ │ ┌────── day of week   0-7 or SUN-SAT, where 0 and 7 are Sunday;
//! │ │ │ │ │ │                     FRI#2 (the second Friday), FRIL or FRI#L (the last)
//! 0 0 9 * * MON-FRI
//! ```
//!
//! * A field is `*`, or a list of numbers, ranges (`9-17`) and steps (`*/15`, `10-50/20`). Names
//!   are in any case. A range ends after it starts, but a week may end on Sunday: `FRI-SUN`.
//!   `?` is `*` in the two fields for days.
//! * If the day of month and the day of week both say something, a day that matches **either** is
//!   taken, as cron does: `0 0 13 * FRI` is each 13th and each Friday. With a `+` before the day
//!   of week a day must match **both**: `0 0 13 * +FRI` is Friday the 13th. Only `*` and `?` say
//!   nothing; `*/2` is a list like any other.
//! * A day that a month does not have is left out: `0 0 31 * *` is in the seven long months, and
//!   `0 0 29 2 *` in leap years. What no month has (`0 0 30 2 *`) is refused.
//! * `@hourly`, `@daily` or `@midnight`, `@weekly` (Sunday), `@monthly`, `@yearly` or `@annually`
//!   stand for the first minute of each.
//!
//! # When the clocks change
//!
//! Fields are compared with the clock on the wall of the time zone. Where that skips some time or
//! shows it twice, it depends on the hour field:
//!
//! * **Some hours** (`30 2 * * *`, `0 9,17 * * *`, `0 */2 * * *`): each time of the schedule
//!   counts **once**. What falls into a gap is due at the first moment after it (02:30 becomes
//!   03:00 when summer time begins in Berlin), and all that falls into one gap is one run. What is
//!   shown twice is due the first time.
//! * **Every hour** (`*/15 * * * *`, `0 * * * *`, `30 0-23 * * *`): due whenever the clock shows
//!   it. So each real quarter of an hour has its run: in a gap there is nothing to make up for,
//!   and an hour that is shown twice has its runs twice.
//!
//! The same holds for changes that are no summer time, such as the 30 December 2011 that Samoa
//! left out: a task for 09:00 is due as the 31st begins, and again at 09:00 on the 31st.
//!
//! # When the clock is set
//!
//! A task by the calendar follows it within a second. Set forward, it misses the times between.
//! Set back by up to three hours, times that have had their run do not have it again, so that a
//! clock that ran fast does no job twice; set back further it was wrong, and what it shows now
//! counts.
//!
//! # When a time is missed
//!
//! [`Misfire`] says what happens to times that passed while the machine slept, the process was
//! stopped, or the task was still running. A task never runs beside itself.
//!
//! # Where time zones come from
//!
//! The machine's own database is used, since it is kept up to date. Where there is none, as on
//! Windows and in slim containers, or it lacks a name, the one that is built into the program
//! serves: nothing needs to be installed. `jiff` finds it the same way, and is re-exported.

mod error;
mod explain;
mod field;
mod schedule;
mod times;
mod zone;

pub use error::{CronError, Problem};
pub use field::Field;
pub use jiff;
pub use schedule::{Schedule, Times};
pub use zone::Zone;

pub use crate::timer::tasks::calendar::{CalendarTask, Misfire};
