//! Checks that a structure did its work, by the sum of the values that left it and by the deadline
//! of every timer.

use anyhow::{Result, ensure};

use super::contender::Contender;
use super::work::index_of;
use crate::suite::Outcome;

/// The number of steps in which everything is fired.
const STEPS: u64 = 64;

/// How many timers left a structure, and a sum of their values that does not depend on the order.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Tally {
    pub(super) count: u64,
    pub(super) sum: u64,
}

impl Tally {
    #[inline]
    pub(super) fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
    }

    /// Returns the outcome of a run with this tally as its checksum.
    pub(super) fn outcome<const N: usize>(self, figures: [(&'static str, f64); N]) -> Outcome {
        Outcome::new(self.sum.wrapping_mul(31).wrapping_add(self.count), figures)
    }

    pub(super) fn of(values: &[u64]) -> Self {
        let mut tally = Self::default();
        for &value in values {
            tally.add(value);
        }
        tally
    }
}

/// Marks a timer that has fired.
const FIRED: u64 = u64::MAX;

/// Fires everything in a few large steps. Each timer must fire once, in the step its deadline is
/// in, and no later than any timer with a later deadline. `deadlines` are by index.
pub(super) fn verify<C: Contender>(contender: &mut C, mut deadlines: Vec<u64>) -> Result<Tally> {
    let last = deadlines.iter().copied().max().unwrap_or(0);
    let mut tally = Tally::default();
    let mut latest = 0;
    let mut wrong = None;
    for step in 1..=STEPS {
        let now = last * step / STEPS;
        contender.pop_due(now, |value| {
            let deadline = std::mem::replace(&mut deadlines[index_of(value)], FIRED);
            if deadline > now || deadline < latest {
                wrong.get_or_insert((index_of(value), deadline, now));
            }
            latest = deadline;
            tally.add(value);
        });
        if let Some((index, deadline, now)) = wrong {
            let problem = if deadline == FIRED { "a second time" } else { "early or out of order" };
            anyhow::bail!(
                "timer {index} fired {problem} at tick {now}, its deadline is {deadline}"
            );
        }
        let late = deadlines.iter().find(|&&deadline| deadline <= now);
        ensure!(late.is_none(), "at tick {now} a timer due at {late:?} has not fired");
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::peers::OrderedMap;
    use crate::wheel::work::{MINUTE, deadline_of, values};

    /// Fires a map whose deadlines are wrong by `shift` ticks.
    fn fire_shifted(shift: i64) -> Result<Tally> {
        let values = values(1_000, MINUTE);
        let mut map = OrderedMap::new();
        for &value in &values {
            map.insert(deadline_of(value).saturating_add_signed(shift), value);
        }
        verify(&mut map, values.iter().map(|&value| deadline_of(value)).collect())
    }

    #[test]
    fn a_punctual_structure_passes() {
        assert_eq!(fire_shifted(0).unwrap().count, 1_000);
    }

    #[test]
    fn an_early_one_is_caught() {
        assert!(fire_shifted(-1_000).unwrap_err().to_string().contains("early"));
    }

    #[test]
    fn a_late_one_is_caught() {
        assert!(fire_shifted(1_000).unwrap_err().to_string().contains("has not fired"));
    }
}
