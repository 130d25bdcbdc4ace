//! The health of a target, and how many requests it gets.
//!
//! ```text
//!            trouble                5 in a row, or Retry-After
//!   active ──────────▶ slow ──────────────────────────────────▶ held ◀─┐
//!     ▲                 │ ▲                                     │  │   │ the probe fails:
//!     └─ rate doubles ──┘ └──────────── the probe succeeds ─────┘  └───┘ twice the pause
//!        each second
//!   any ── 410 ──▶ stopped ── resumed ──▶ slow
//! ```
//!
//! A held target gets nothing until its pause is over, and then one job as a probe. Time is passed
//! in, in milliseconds. Answers to requests that were sent before the target was held do not change
//! the pause: each hold begins a new *epoch*, and an answer counts in the epoch of its request.

use serde::{Deserialize, Serialize};

use super::why::Why;
use super::window::Window;
use crate::api::{TargetCauseCode, TargetState};

/// Failures in a row after which a target is held.
const FAILURES_TO_HOLD: u32 = 5;
/// The pause of the first hold; each failed probe doubles it.
const FIRST_PAUSE_MS: u64 = 1_000;
const MAX_PAUSE_MS: u64 = 5 * 60_000;
/// How long a `Retry-After` can hold a target.
pub(super) const MAX_RETRY_AFTER_MS: u64 = 3_600_000;
/// A slow target gets `2^level` requests a second; at this level it is active again.
const ACTIVE_LEVEL: u32 = 13;
const SECOND: u64 = 1_000;

/// How deliveries go, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    #[default]
    Active,
    Slow {
        level: u32,
        #[serde(flatten)]
        why: Why,
    },
    Held {
        until_ms: u64,
        pause_ms: u64,
        #[serde(flatten)]
        why: Why,
    },
    Stopped {
        #[serde(flatten)]
        why: Why,
    },
}

#[derive(Debug)]
pub(super) struct Health {
    mode: Mode,
    /// Failures since the last success.
    failures: u32,
    /// Grows with each hold.
    epoch: u64,
    /// The pause of the last hold, until a whole ramp has succeeded.
    last_pause_ms: u64,
    /// The rate of a slow target.
    ramp: Window,
    /// When the present level of the ramp began.
    since_ms: u64,
    /// Starts in the present second, and in the one before.
    recent: (u64, u32, u32),
}

/// What a target may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grant {
    /// This number of requests.
    Now(u32),
    /// No request before this time.
    At(u64),
    /// No request until the state changes.
    Never,
}

impl Health {
    /// Continues with what was stored. A hold cannot end later than the longest possible one.
    pub(super) fn new(mode: Mode, now: u64) -> Self {
        let mut health = Self {
            mode: Mode::Active,
            failures: 0,
            epoch: 0,
            last_pause_ms: 0,
            ramp: Window::default(),
            since_ms: now,
            recent: (0, 0, 0),
        };
        match mode {
            Mode::Slow { level, why } => health.slow_down_to(level, why, now),
            Mode::Held { until_ms, pause_ms, why } => {
                let until_ms = until_ms.min(now + MAX_RETRY_AFTER_MS * 11 / 10);
                health.last_pause_ms = pause_ms.min(MAX_PAUSE_MS);
                health.mode = Mode::Held { until_ms, pause_ms, why };
            }
            mode => health.mode = mode,
        }
        health
    }

    pub(super) fn mode(&self) -> &Mode {
        &self.mode
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn state(&self) -> TargetState {
        match self.mode {
            Mode::Active => TargetState::Active,
            Mode::Slow { .. } => TargetState::Slow,
            Mode::Held { .. } => TargetState::Held,
            Mode::Stopped { .. } => TargetState::Stopped,
        }
    }

    /// Returns how many requests may be sent while `in_flight` others are not answered yet.
    pub(super) fn grant(&mut self, now: u64, in_flight: u32) -> Grant {
        match &self.mode {
            Mode::Active => Grant::Now(u32::MAX),
            Mode::Slow { .. } => match self.ramp.allowance(now, now) {
                0 => self.ramp.next().map_or(Grant::Never, Grant::At),
                allowed => Grant::Now(allowed),
            },
            Mode::Held { until_ms, .. } if now < *until_ms => Grant::At(*until_ms),
            // The probe goes alone.
            Mode::Held { .. } if in_flight == 0 => Grant::Now(1),
            Mode::Held { .. } | Mode::Stopped { .. } => Grant::Never,
        }
    }

    /// Requests were granted, and count at once: the ramp need not be exact.
    pub(super) fn granted(&mut self, now: u64, requests: u32) {
        let second = now / SECOND;
        self.recent = match self.recent {
            (this, count, before) if this == second => (this, count + requests, before),
            (this, count, _) if this + 1 == second => (second, requests, count),
            _ => (second, requests, 0),
        };
        if matches!(self.mode, Mode::Slow { .. }) {
            (0..requests).for_each(|_| self.ramp.arrives(now));
        }
    }

    /// A request of this epoch was answered with success.
    pub(super) fn succeeded(&mut self, now: u64, epoch: u64) {
        if epoch != self.epoch {
            return;
        }
        self.failures = 0;
        match &self.mode {
            Mode::Held { why, .. } => {
                let why = why.recovering();
                self.slow_down_to(0, why, now);
            }
            Mode::Slow { level, why } if now >= self.since_ms + SECOND => {
                let (level, why) = (level + 1, why.clone());
                if level >= ACTIVE_LEVEL {
                    self.mode = Mode::Active;
                    self.last_pause_ms = 0;
                } else {
                    self.slow_down_to(level, why, now);
                }
            }
            _ => {}
        }
    }

    /// A request of this epoch failed in a way that says something about the target.
    pub(super) fn troubled(&mut self, now: u64, epoch: u64, why: &Why, jitter: u64) {
        if epoch != self.epoch {
            return;
        }
        self.failures += 1;
        let level = match &self.mode {
            Mode::Stopped { .. } => return,
            Mode::Held { .. } => None,
            _ if self.failures >= FAILURES_TO_HOLD => None,
            // Half of what it got.
            Mode::Active => {
                let recent = self.recent.1.max(self.recent.2).max(1);
                Some(recent.ilog2().saturating_sub(1))
            }
            Mode::Slow { level, .. } => Some(level.saturating_sub(1)),
        };
        if let Some(level) = level {
            self.slow_down_to(level, why.clone(), now);
        } else {
            let pause = (self.last_pause_ms * 2).clamp(FIRST_PAUSE_MS, MAX_PAUSE_MS);
            self.last_pause_ms = pause;
            self.hold(now + pause + jitter % (pause / 10 + 1), pause, why.clone());
        }
    }

    /// The target asked for a pause, with `Retry-After`.
    pub(super) fn asked_to_wait(&mut self, now: u64, wait_ms: u64, why: &Why, jitter: u64) {
        let wait = wait_ms.clamp(FIRST_PAUSE_MS, MAX_RETRY_AFTER_MS);
        let until = now + wait + jitter % (wait / 10 + 1);
        match &mut self.mode {
            Mode::Stopped { .. } => {}
            // Several requests were out: the longest wait holds.
            Mode::Held { until_ms, .. } if *until_ms > now => *until_ms = until.max(*until_ms),
            _ => self.hold(until, self.last_pause_ms, why.clone()),
        }
    }

    pub(super) fn stop(&mut self, why: &Why) {
        self.epoch += 1;
        self.mode = Mode::Stopped { why: why.clone() };
    }

    /// Starts again, slowly.
    pub(super) fn resume(&mut self, now: u64) {
        if matches!(self.mode, Mode::Held { .. } | Mode::Stopped { .. }) {
            self.last_pause_ms = 0;
            self.failures = 0;
            self.epoch += 1;
            self.slow_down_to(0, Why::new(TargetCauseCode::Resumed, "", "resumed"), now);
        }
    }

    fn hold(&mut self, until_ms: u64, pause_ms: u64, why: Why) {
        self.epoch += 1;
        self.failures = 0;
        self.mode = Mode::Held { until_ms, pause_ms, why };
    }

    fn slow_down_to(&mut self, level: u32, why: Why, now: u64) {
        let level = level.min(ACTIVE_LEVEL - 1);
        self.ramp.set_limit(Some((1 << level, SECOND)));
        self.since_ms = now;
        self.mode = Mode::Slow { level, why };
    }

    /// Returns why it is not active.
    pub(super) fn why(&self) -> Option<&Why> {
        match &self.mode {
            Mode::Active => None,
            Mode::Slow { why, .. } | Mode::Held { why, .. } | Mode::Stopped { why } => Some(why),
        }
    }

    /// Returns when a held target is tried again.
    pub(super) fn next_probe_ms(&self) -> Option<u64> {
        match &self.mode {
            Mode::Held { until_ms, .. } => Some(*until_ms),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> Why {
        Why::new(TargetCauseCode::Answered, text, text)
    }

    fn held_until(health: &Health) -> u64 {
        health.next_probe_ms().expect("it is held")
    }

    #[test]
    fn pauses_grow_and_a_probe_goes_alone() {
        let mut health = Health::new(Mode::Active, 0);
        for failure in 1..FAILURES_TO_HOLD {
            health.troubled(0, 0, &why("refused"), 0);
            assert_eq!(health.state(), TargetState::Slow, "after failure {failure}");
        }
        health.troubled(0, 0, &why("refused"), 0);
        let mut now = held_until(&health);
        assert_eq!(now, FIRST_PAUSE_MS);
        // Answers to requests from before the hold change nothing.
        health.troubled(1, 0, &why("refused"), 0);
        health.succeeded(1, 0);
        assert_eq!(held_until(&health), now);
        assert_eq!(health.grant(now - 1, 0), Grant::At(now));
        let mut pause = FIRST_PAUSE_MS;
        for _ in 0..12 {
            assert_eq!(health.grant(now, 0), Grant::Now(1));
            assert_eq!(health.grant(now, 1), Grant::Never);
            health.troubled(now, health.epoch(), &why("refused"), 0);
            pause = (pause * 2).min(MAX_PAUSE_MS);
            assert_eq!(held_until(&health), now + pause);
            now += pause;
        }
        assert_eq!(pause, MAX_PAUSE_MS);
    }

    #[test]
    fn the_rate_ramps_up_after_a_successful_probe() {
        let held = Mode::Held { until_ms: 5, pause_ms: 1_000, why: why("refused") };
        let mut health = Health::new(held, 0);
        let mut now = 10;
        health.succeeded(now, 0);
        let mut each_second = Vec::new();
        while health.state() == TargetState::Slow {
            let Grant::Now(allowed) = health.grant(now, 0) else { panic!("at {now}") };
            each_second.push(allowed);
            health.granted(now, allowed);
            assert!(matches!(health.grant(now, 0), Grant::At(_)));
            now += SECOND + 1;
            health.succeeded(now, 0);
        }
        let doubling: Vec<u32> = (0..ACTIVE_LEVEL).map(|level| 1 << level).collect();
        assert_eq!(each_second, doubling);
        assert_eq!(health.grant(now, 0), Grant::Now(u32::MAX));
    }

    #[test]
    fn trouble_halves_the_rate() {
        let mut health = Health::new(Mode::Active, 0);
        health.granted(500, 64);
        health.troubled(600, 0, &why("502"), 0);
        assert_eq!(health.mode(), &Mode::Slow { level: 5, why: why("502") });
        health.succeeded(700, 0);
        health.troubled(800, 0, &why("502"), 0);
        assert_eq!(health.mode(), &Mode::Slow { level: 4, why: why("502") });
    }

    #[test]
    fn a_wait_is_capped_and_the_longest_holds() {
        let mut health = Health::new(Mode::Active, 0);
        health.asked_to_wait(0, u64::MAX / 2, &why("429"), 0);
        assert_eq!(held_until(&health), MAX_RETRY_AFTER_MS);
        health.asked_to_wait(1, 5_000, &why("429"), 0);
        assert_eq!(held_until(&health), MAX_RETRY_AFTER_MS);
        let stored = health.mode().clone();
        assert_eq!(held_until(&Health::new(stored, 0)), MAX_RETRY_AFTER_MS);
    }

    #[test]
    fn a_stopped_target_gets_nothing_until_it_is_resumed() {
        let mut health = Health::new(Mode::Active, 0);
        health.stop(&why("410"));
        assert_eq!(health.grant(u64::MAX / 2, 0), Grant::Never);
        health.succeeded(9, 0);
        health.troubled(9, health.epoch(), &why("502"), 0);
        assert_eq!(health.state(), TargetState::Stopped);
        health.resume(9);
        assert_eq!(health.grant(9, 0), Grant::Now(1));
    }

    #[test]
    fn a_stored_mode_keeps_its_cause_and_one_without_a_cause_is_read() {
        let mut health = Health::new(Mode::Active, 0);
        health.asked_to_wait(0, 5_000, &why("429"), 0);
        let stored = serde_json::to_string(health.mode()).unwrap();
        let mut health = Health::new(serde_json::from_str(&stored).unwrap(), 0);
        assert_eq!(health.why(), Some(&why("429")));
        health.succeeded(9_000, 0);
        let recovering = health.why().unwrap();
        assert_eq!(recovering.text, "recovering: 429");
        assert!(recovering.cause.as_ref().unwrap().recovering);
        let old = r#"{"stopped": {"reason": "answered 410 Gone"}}"#;
        let health = Health::new(serde_json::from_str(old).unwrap(), 0);
        assert_eq!(health.why().unwrap().text, "answered 410 Gone");
    }
}
