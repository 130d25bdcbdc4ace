//! Pacing: tasks that start at a limited rate.
//!
//! A partner's API accepts 100 calls a second, and 250 calls come in at once. None may be dropped
//! and none may be made too early. A [`Pacer`] queues tasks and starts them in order, each as early
//! as the rate allows:
//!
//! ```
//! use std::time::Duration;
//! use tickwheel::pace::Pacer;
//! use tickwheel::{ManualClock, Timer};
//!
//! let clock = ManualClock::new(); // for a test; `Timer::new()` runs on the real clock
//! let timer = Timer::builder().clock(clock.clone()).build()?;
//! let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
//! for number in 0..250 {
//!     pacer.submit(move || println!("call {number}"))?;
//! }
//! clock.advance(Duration::ZERO);
//! assert_eq!(pacer.stats().started, 100);
//! clock.advance(Duration::from_secs(1));
//! assert_eq!(pacer.stats().started, 200);
//! clock.advance(Duration::from_secs(1));
//! assert_eq!(pacer.stats().started, 250);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a pacer promises
//!
//! * **Never more than N starts in any window**, wherever the window begins. A start counts at the
//!   moment at which the task is really called, not at the moment for which it was planned: a late
//!   start delays the next ones. Two starts exactly one window apart are not in the same window.
//! * **Each start as early as that allows**, up to a tick of the timer; or [smooth](Builder::smooth),
//!   with even gaps.
//! * **In order**: higher priorities first, and first in, first out within a priority.
//! * **Exactly one fate.** A task that `submit` accepted is started once, or cancelled by its
//!   [`Ticket`] or by dropping the last clone of the pacer, or handed back by
//!   [`stop`](Pacer::stop) or [`drain`](Pacer::drain).
//! * **Idle keys cost nothing.** A [`KeyedPacer`] has a rate for each key. It forgets a key once
//!   the key's window has passed, and frees its memory. Until then each start in the window takes
//!   8 to 16 bytes: a rate of a million a day costs about 10 MB for each key that uses it up.
//!
//! # Where tasks run
//!
//! On the timer: its threads, its executor, or the thread that moves its clock. A task that blocks
//! delays no other task, as long as the timer has threads left. The timer catches, counts and logs
//! a panic. While a pacer has something to do, it has one job of its own pending in the timer,
//! which [`max_pending`](crate::Builder::max_pending) does not limit.
//!
//! A pacer holds a clone of its timer and so keeps it running. Once the timer is stopped, nothing
//! starts any more and `submit` returns an error. Queued tasks stay in the pacer until
//! [`stop`](Pacer::stop) hands them back; the timer's own `stop` hands back the pacer's job, which
//! does nothing. So stop the pacer first, then the timer.
//!
//! [`Timer::drain`](crate::Timer::drain) lets all pacers of the timer start what they have queued.
//! [`Pacer::drain`] does so for one pacer, for example at the end of `main`, where dropping the
//! pacer would drop its tasks.
//!
//! # How it is built
//!
//! | file | holds |
//! |---|---|
//! | `limit.rs` | the window limiter: recent starts, when the next one may be, and the proof |
//! | `queue.rs` | submitted tasks, and one key's queue of them by priority |
//! | `lane.rs` | one key: its queue, its limiter, its settings |
//! | `lanes.rs` | all keys: which lane may start a task now, and which waits for a time |
//! | `engine.rs` | the lock, and every operation from `submit` to `stop` |
//! | `alarm.rs` | the pacer's job in the timer, which starts tasks |
//! | `permit.rs` | permits, the future that waits for one, and when a start really began |
//! | `pacer.rs`, `keyed.rs`, `ticket.rs`, `builder.rs`, `error.rs` | what callers hold |

mod alarm;
mod builder;
mod engine;
mod error;
mod keyed;
mod lane;
mod lanes;
mod limit;
mod pacer;
mod permit;
mod queue;
mod ticket;

pub use builder::Builder;
pub use error::{PaceError, RateError};
pub use keyed::{KeyPacer, KeyedPacer, PaceKey};
pub use pacer::{Pacer, PacerStats};
pub use permit::{Acquire, Permit};
pub use ticket::{Attempt, Ticket, Unstarted};
