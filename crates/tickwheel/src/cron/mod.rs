//! The calendar: schedules by cron expressions, in time zones.
//!
//! [`Timer::cron`](crate::Timer::cron) runs a task at each time of a schedule, by the wall clock.
//! [`Timer::calendar`](crate::Timer::calendar) configures such a task. A [`Schedule`] also works
//! without a timer: it lists its next times, and explains itself in words.
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
//! ┌──────────────── second        0-59; optional, defaults to 0
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
//!   are case-insensitive. A range may not end before it starts, except that a week may end on
//!   Sunday: `FRI-SUN`. In the two day fields, `?` means `*`.
//! * If both day fields are restricted, a day that matches **either** counts, as in cron:
//!   `0 0 13 * FRI` is each 13th and each Friday. With a `+` before the day of week, a day must
//!   match **both**: `0 0 13 * +FRI` is Friday the 13th. Only `*` and `?` leave a field
//!   unrestricted; `*/2` is a list like any other.
//! * A month that lacks the day is skipped: `0 0 31 * *` is in the seven long months, and
//!   `0 0 29 2 *` in leap years. A date that no month has (`0 0 30 2 *`) is an error.
//! * `@hourly`, `@daily` or `@midnight`, `@weekly` (Sunday), `@monthly`, `@yearly` or `@annually`
//!   stand for the first minute of the hour, day, week, month or year.
//!
//! # When the clocks change
//!
//! Fields are compared with the local time of the time zone. Local time has a gap when clocks are
//! put forward, and repeats an hour when they are put back. The hour field decides what happens
//! there:
//!
//! * **Some hours** (`30 2 * * *`, `0 9,17 * * *`, `0 */2 * * *`): each local time counts **once**.
//!   A time in a gap is due at the end of the gap: 02:30 becomes 03:00 when summer time begins in
//!   Berlin. All times in one gap are one run. A time that is repeated is due the first time.
//! * **Every hour** (`*/15 * * * *`, `0 * * * *`, `30 0-23 * * *`): due whenever the clock shows a
//!   matching time. So each real quarter of an hour has one run: a gap causes no extra run, and an
//!   hour that is repeated has its runs twice.
//!
//! The same holds for other changes of local time. Samoa had no 30 December 2011: a task for 09:00
//! was due as the 31st began, and again at 09:00 on the 31st.
//!
//! # When the clock is set
//!
//! A calendar task follows the wall clock within a second. When the clock is set forward, the times
//! in between are missed. When it is set back by up to three hours, times that have had their run
//! are not repeated, so a clock that ran fast causes no job to run twice. A clock that is set back
//! further was wrong before, and the new time counts.
//!
//! # When a time is missed
//!
//! [`Misfire`] decides what happens to times that passed while the machine slept, the process was
//! stopped, or the task was still running. Runs of a task never overlap.
//!
//! # Where time zones come from
//!
//! Time zones come from the database of the operating system, which is kept up to date. If there is
//! none, as on Windows and in slim containers, or if it lacks a name, the database that is built
//! into the program is used. `jiff`, which is re-exported, looks them up in the same way.

mod error;
mod explain;
mod explain_chinese;
mod field;
mod recurrence;
mod schedule;
mod task;
mod times;
mod zone;

pub use error::{CronError, Problem};
pub use field::Field;
pub use jiff;
pub use recurrence::Misfire;
pub use schedule::{Schedule, Times};
pub use task::CalendarTask;
pub use zone::Zone;
