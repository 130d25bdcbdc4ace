//! One run: one workload on one system, alone in a process.
//!
//! Before the clock starts, random numbers are drawn, and the list of keys is allocated and
//! touched. Values that leave a structure are summed up while the clock runs. So no work can be
//! optimised away, and the sums show whether systems did the same work.

use std::mem::{ManuallyDrop, MaybeUninit};

use anyhow::{Result, bail, ensure};

use super::contender::Contender;
use super::ours::{Hashed, Hierarchical};
use super::peers::{HashWheelTimer, LazyHeap, OrderedMap, TokioDelayQueue};
use super::verify::{Tally, verify};
use super::work::{self, Move, deadline_of};
use crate::memory::live_bytes;
use crate::meter::Stopwatch;
use crate::suite::Outcome;

/// The number of empty ticks for one figure.
const EMPTY_TICKS: u64 = if cfg!(test) { 1_000 } else { 1_000_000 };

/// One turn of the ring.
const RING_TICKS: u64 = 512;

/// Does one run.
pub(super) fn perform(
    system: &str,
    workload: &str,
    timers: usize,
    verify: bool,
) -> Result<Outcome> {
    let plan = Plan { timers, verify };
    match system {
        "hierarchical" => plan.perform::<Hierarchical>(workload),
        "hashed" => plan.perform::<Hashed>(workload),
        "delay-queue" => plan.perform::<TokioDelayQueue>(workload),
        "binary-heap" => plan.perform::<LazyHeap>(workload),
        "btree-map" => plan.perform::<OrderedMap>(workload),
        "hash-wheel-timer" => plan.perform::<HashWheelTimer>(workload),
        other => bail!("unknown system {other}"),
    }
}

/// The settings of a run.
struct Plan {
    timers: usize,
    /// Whether all remaining timers are fired and checked after the clock has stopped.
    verify: bool,
}

impl Plan {
    fn perform<C: Contender>(&self, workload: &str) -> Result<Outcome> {
        match workload {
            "insert" => insert::<C>(self),
            "cancel" => cancel::<C>(self),
            "churn" => churn::<C>(self),
            "push-later" => push_later::<C>(self),
            "fire" => fire::<C>(self),
            "empty-tick" => empty_tick::<C>(self),
            "jump" => jump::<C>(self),
            "ring" => ring::<C>(self),
            other => bail!("unknown workload {other}"),
        }
    }
}

/// A contender and the keys of its timers, by index.
struct Filled<C: Contender> {
    /// Leaked: the process ends soon, and freeing takes some systems seconds.
    contender: ManuallyDrop<C>,
    keys: Vec<C::Key>,
    /// Bytes that were allocated before the contender existed.
    baseline: isize,
}

impl<C: Contender> Filled<C> {
    /// Returns an empty contender, with room for the keys of `timers`.
    fn empty(timers: usize) -> Self {
        let mut keys = Vec::with_capacity(timers);
        keys.spare_capacity_mut().fill_with(MaybeUninit::zeroed);
        let keys = std::hint::black_box(keys);
        let baseline = live_bytes();
        let contender = ManuallyDrop::new(C::new());
        Self { contender, keys, baseline }
    }

    fn with(values: &[u64]) -> Self {
        let mut filled = Self::empty(values.len());
        filled.insert_all(values);
        filled
    }

    fn insert_all(&mut self, values: &[u64]) {
        for &value in values {
            let key = self.contender.insert(deadline_of(value), value);
            self.keys.push(key);
        }
    }

    /// Returns nanoseconds for each of `moves`. A caller that moves a timer holds its key, so the
    /// keys are laid out in that order before the clock starts. Only a key that a reset changes is
    /// looked up and written back.
    fn time_moves(&mut self, moves: &[Move]) -> f64 {
        if !C::KEEPS_KEYS {
            return self.time(moves.len(), |filled| {
                for step in moves {
                    let key = &mut filled.keys[step.index as usize];
                    filled.contender.reset(key, u64::from(step.deadline));
                }
            });
        }
        let key = |step: &Move| (self.keys[step.index as usize], step.deadline);
        let mut at_hand: Vec<(C::Key, u32)> = moves.iter().map(key).collect();
        self.time(moves.len(), |filled| {
            for (key, deadline) in &mut at_hand {
                filled.contender.reset(key, u64::from(*deadline));
            }
        })
    }

    /// Times `work` and returns nanoseconds for each of `operations`.
    fn time(&mut self, operations: usize, work: impl FnOnce(&mut Self)) -> f64 {
        let clock_before = self.contender.clock_time();
        let stopwatch = Stopwatch::start();
        work(self);
        let clock_time = self.contender.clock_time().saturating_sub(clock_before);
        stopwatch.elapsed_without(clock_time).as_nanos() as f64 / operations as f64
    }

    fn bytes_per_timer(&self) -> f64 {
        (live_bytes() - self.baseline) as f64 / self.keys.len() as f64
    }

    /// If the plan asks for it, fires all timers and checks them against `deadlines`.
    fn verified(mut self, plan: &Plan, deadlines: Vec<u64>) -> Result<Tally> {
        if plan.verify { verify(&mut *self.contender, deadlines) } else { Ok(Tally::default()) }
    }
}

fn insert<C: Contender>(plan: &Plan) -> Result<Outcome> {
    let values = work::values(plan.timers, work::TIMEOUTS);
    let mut filled = Filled::<C>::empty(plan.timers);
    let time = filled.time(plan.timers, |filled| filled.insert_all(&values));
    let memory = filled.bytes_per_timer();
    let tally = filled.verified(plan, work::final_deadlines(&values, &[]))?;
    Ok(tally.outcome([("insert", time), ("memory", memory)]))
}

fn cancel<C: Contender>(plan: &Plan) -> Result<Outcome> {
    let values = work::values(plan.timers, work::TIMEOUTS);
    let order = work::shuffled(plan.timers);
    let mut filled = Filled::<C>::with(&values);
    let key = |&index: &u32| filled.keys[index as usize];
    let at_hand: Vec<C::Key> = order.iter().map(key).collect();
    let mut tally = Tally::default();
    let time = filled.time(plan.timers, |filled| {
        for &key in &at_hand {
            tally.add(filled.contender.remove(key));
        }
    });
    filled.contender.pop_due(2 * work::TIMEOUTS.end(), |value| tally.add(value));
    ensure!(
        tally == Tally::of(&values),
        "{} timers left the structure where {} were cancelled, or they were not the same",
        tally.count,
        values.len()
    );
    Ok(tally.outcome([("cancel", time)]))
}

fn churn<C: Contender>(plan: &Plan) -> Result<Outcome> {
    let values = work::values(plan.timers, work::TIMEOUTS);
    let moves = work::moves_anywhere(plan.timers);
    let mut filled = Filled::<C>::with(&values);
    let time = filled.time_moves(&moves);
    let memory = filled.bytes_per_timer();
    let tally = filled.verified(plan, work::final_deadlines(&values, &moves))?;
    Ok(tally.outcome([("churn", time), ("memory-after-churn", memory)]))
}

fn push_later<C: Contender>(plan: &Plan) -> Result<Outcome> {
    let values = work::values(plan.timers, work::TIMEOUTS);
    let moves = work::moves_later(&values);
    let mut filled = Filled::<C>::with(&values);
    let time = filled.time_moves(&moves);
    let tally = filled.verified(plan, work::final_deadlines(&values, &moves))?;
    Ok(tally.outcome([("push-later", time)]))
}

fn fire<C: Contender>(plan: &Plan) -> Result<Outcome> {
    let values = work::values(plan.timers, work::MINUTE);
    let mut filled = Filled::<C>::with(&values);
    let mut tally = Tally::default();
    let mut punctual = true;
    let time = filled.time(plan.timers, |filled| {
        for now in work::MINUTE {
            filled.contender.pop_due(now, |value| {
                punctual &= deadline_of(value) == now;
                tally.add(value);
            });
        }
    });
    ensure!(punctual, "a timer fired at a tick that is not its deadline");
    ensure!(tally == Tally::of(&values), "{} of {} timers fired", tally.count, values.len());
    Ok(tally.outcome([("fire", time)]))
}

fn jump<C: Contender>(plan: &Plan) -> Result<Outcome> {
    let values = work::values(plan.timers, work::WHOLE_DAY);
    let mut filled = Filled::<C>::with(&values);
    let mut tally = Tally::default();
    let mut latest = 0;
    let mut ordered = true;
    let time = filled.time(plan.timers, |filled| {
        filled.contender.pop_due(*work::WHOLE_DAY.end(), |value| {
            ordered &= latest <= deadline_of(value);
            latest = deadline_of(value);
            tally.add(value);
        });
    });
    ensure!(ordered, "timers fired out of the order of their deadlines");
    ensure!(tally == Tally::of(&values), "{} of {} timers fired", tally.count, values.len());
    Ok(tally.outcome([("jump", time)]))
}

/// Measures the case that suits a hashed wheel: all deadlines are within one turn.
fn ring<C: Contender>(plan: &Plan) -> Result<Outcome> {
    let mut filled = Filled::<C>::with(&work::values(plan.timers, work::RING));
    let mut due = Vec::with_capacity(plan.timers);
    let mut tally = Tally::default();
    let mut punctual = true;
    let time = filled.time(1, |filled| {
        for now in 1..=RING_TICKS {
            filled.contender.pop_due(now, |value| {
                punctual &= deadline_of(value) == now;
                tally.add(value);
                due.push(work::replacement(value));
            });
            for value in due.drain(..) {
                filled.contender.insert(deadline_of(value), value);
            }
        }
    });
    ensure!(punctual, "a timer fired at a tick that is not its deadline");
    ensure!(tally.count >= plan.timers as u64, "{} of {} timers fired", tally.count, plan.timers);
    Ok(tally.outcome([("ring", time / tally.count as f64)]))
}

fn empty_tick<C: Contender>(plan: &Plan) -> Result<Outcome> {
    let alone = empty_ticks::<C>(0)?;
    let far = empty_ticks::<C>(plan.timers)?;
    Ok(Tally::default().outcome([("empty-tick-alone", alone), ("empty-tick", far)]))
}

/// Returns the cost of a tick with `timers` pending, all of them far.
fn empty_ticks<C: Contender>(timers: usize) -> Result<f64> {
    let mut filled = Filled::<C>::with(&work::values(timers, work::FAR));
    let mut fired = 0;
    let time = filled.time(EMPTY_TICKS as usize, |filled| {
        for now in 1..=EMPTY_TICKS {
            filled.contender.pop_due(now, |_| fired += 1);
        }
    });
    ensure!(fired == 0, "{fired} timers fired a day early");
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Suite;
    use crate::wheel::Wheels;

    #[test]
    fn every_system_does_the_same_work() {
        let spec = Wheels.spec();
        for workload in spec.workloads {
            let checksum = |system: &str| {
                let outcome = perform(system, workload.name, 2_000, true);
                outcome.expect("the run passes its checks").checksum
            };
            for system in spec.systems {
                let (name, at) = (system.name, workload.name);
                assert_eq!(checksum(name), checksum("btree-map"), "{name}, {at}");
            }
        }
    }
}
