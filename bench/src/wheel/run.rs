//! One run: one workload on one system, alone in a process.
//!
//! Everything that is random is made before the clock starts, and the list of keys is allocated
//! and touched before it. What leaves a structure while the clock runs is tallied, so that no
//! work can be optimised away and systems can be compared by what they did.

use std::mem::{ManuallyDrop, MaybeUninit};

use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::contender::Contender;
use super::system::System;
use super::verify::{Tally, verify};
use super::work::{self, Move, deadline_of};
use super::workload::{Figure, Workload};
use crate::memory::{live_bytes, touch};
use crate::stopwatch::Stopwatch;

/// How many empty ticks are made for one figure.
const EMPTY_TICKS: u64 = if cfg!(test) { 1_000 } else { 1_000_000 };

/// One turn of the ring.
const RING_TICKS: u64 = 512;

/// What to run.
#[derive(Args, Clone, Debug)]
pub(crate) struct Run {
    #[arg(long)]
    pub(super) system: System,
    #[arg(long)]
    pub(super) workload: Workload,
    #[arg(long)]
    pub(super) timers: usize,
    /// Fire what is left when the clock has stopped, and check every timer
    #[arg(long)]
    pub(super) verify: bool,
}

/// What came of it.
#[derive(Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) figures: Vec<(Figure, f64)>,
    /// Equal for all systems that did the same work.
    pub(super) tally: Tally,
}

impl Run {
    /// Runs and prints the outcome.
    pub(crate) fn execute(&self) -> Result<()> {
        let outcome = self.system.perform(self)?;
        println!("{}", serde_json::to_string(&outcome)?);
        Ok(())
    }
}

/// More than any system needs for a timer.
const BYTES_PER_TIMER: usize = 128;

/// Makes system `C` do `run`.
pub(super) fn perform<C: Contender>(run: &Run) -> Result<Outcome> {
    touch(run.timers * BYTES_PER_TIMER);
    match run.workload {
        Workload::Insert => insert::<C>(run),
        Workload::Cancel => cancel::<C>(run),
        Workload::Churn => churn::<C>(run),
        Workload::PushLater => push_later::<C>(run),
        Workload::Fire => fire::<C>(run),
        Workload::EmptyTick => empty_tick::<C>(run),
        Workload::Jump => jump::<C>(run),
        Workload::Ring => ring::<C>(run),
    }
}

/// A contender and the keys of its timers, by index.
struct Filled<C: Contender> {
    /// Never freed: the process ends, nobody measures it, and it takes some systems seconds.
    contender: ManuallyDrop<C>,
    keys: Vec<C::Key>,
    /// What was allocated before the contender existed.
    baseline: isize,
}

impl<C: Contender> Filled<C> {
    /// An empty contender, with room for the keys of `timers`.
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

    /// Nanoseconds for each of `moves`. Who moves a timer has its key at hand, so the keys are laid
    /// out in that order before the clock starts. Only where a reset changes the key it has to be
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

    /// Times `work` and gives nanoseconds for each of `operations`.
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

    /// Fires everything, if `run` wants that, and checks it against `deadlines`.
    fn verified(mut self, run: &Run, deadlines: Vec<u64>) -> Result<Tally> {
        if run.verify { verify(&mut *self.contender, deadlines) } else { Ok(Tally::default()) }
    }
}

fn insert<C: Contender>(run: &Run) -> Result<Outcome> {
    let values = work::values(run.timers, work::TIMEOUTS);
    let mut filled = Filled::<C>::empty(run.timers);
    let time = filled.time(run.timers, |filled| filled.insert_all(&values));
    let memory = filled.bytes_per_timer();
    let tally = filled.verified(run, work::final_deadlines(&values, &[]))?;
    Ok(Outcome { figures: vec![(Figure::Insert, time), (Figure::Memory, memory)], tally })
}

fn cancel<C: Contender>(run: &Run) -> Result<Outcome> {
    let values = work::values(run.timers, work::TIMEOUTS);
    let order = work::shuffled(run.timers);
    let mut filled = Filled::<C>::with(&values);
    let key = |&index: &u32| filled.keys[index as usize];
    let at_hand: Vec<C::Key> = order.iter().map(key).collect();
    let mut tally = Tally::default();
    let time = filled.time(run.timers, |filled| {
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
    Ok(Outcome { figures: vec![(Figure::Cancel, time)], tally })
}

fn churn<C: Contender>(run: &Run) -> Result<Outcome> {
    let values = work::values(run.timers, work::TIMEOUTS);
    let moves = work::moves_anywhere(run.timers);
    let mut filled = Filled::<C>::with(&values);
    let time = filled.time_moves(&moves);
    let memory = filled.bytes_per_timer();
    let tally = filled.verified(run, work::final_deadlines(&values, &moves))?;
    Ok(Outcome { figures: vec![(Figure::Churn, time), (Figure::MemoryAfterChurn, memory)], tally })
}

fn push_later<C: Contender>(run: &Run) -> Result<Outcome> {
    let values = work::values(run.timers, work::TIMEOUTS);
    let moves = work::moves_later(&values);
    let mut filled = Filled::<C>::with(&values);
    let time = filled.time_moves(&moves);
    let tally = filled.verified(run, work::final_deadlines(&values, &moves))?;
    Ok(Outcome { figures: vec![(Figure::PushLater, time)], tally })
}

fn fire<C: Contender>(run: &Run) -> Result<Outcome> {
    let values = work::values(run.timers, work::MINUTE);
    let mut filled = Filled::<C>::with(&values);
    let mut tally = Tally::default();
    let mut punctual = true;
    let time = filled.time(run.timers, |filled| {
        for now in work::MINUTE {
            filled.contender.pop_due(now, |value| {
                punctual &= deadline_of(value) == now;
                tally.add(value);
            });
        }
    });
    ensure!(punctual, "a timer fired at a tick that is not its deadline");
    ensure!(tally == Tally::of(&values), "{} of {} timers fired", tally.count, values.len());
    Ok(Outcome { figures: vec![(Figure::Fire, time)], tally })
}

fn jump<C: Contender>(run: &Run) -> Result<Outcome> {
    let values = work::values(run.timers, work::WHOLE_DAY);
    let mut filled = Filled::<C>::with(&values);
    let mut tally = Tally::default();
    let mut latest = 0;
    let mut ordered = true;
    let time = filled.time(run.timers, |filled| {
        filled.contender.pop_due(*work::WHOLE_DAY.end(), |value| {
            ordered &= latest <= deadline_of(value);
            latest = deadline_of(value);
            tally.add(value);
        });
    });
    ensure!(ordered, "timers fired out of the order of their deadlines");
    ensure!(tally == Tally::of(&values), "{} of {} timers fired", tally.count, values.len());
    Ok(Outcome { figures: vec![(Figure::Jump, time)], tally })
}

/// The case for which a hashed wheel is recommended: all deadlines are within one turn.
fn ring<C: Contender>(run: &Run) -> Result<Outcome> {
    let mut filled = Filled::<C>::with(&work::values(run.timers, work::RING));
    let mut due = Vec::with_capacity(run.timers);
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
    ensure!(tally.count >= run.timers as u64, "{} of {} timers fired", tally.count, run.timers);
    Ok(Outcome { figures: vec![(Figure::Ring, time / tally.count as f64)], tally })
}

fn empty_tick<C: Contender>(run: &Run) -> Result<Outcome> {
    let alone = empty_ticks::<C>(0)?;
    let far = empty_ticks::<C>(run.timers)?;
    Ok(Outcome {
        figures: vec![(Figure::EmptyTickAlone, alone), (Figure::EmptyTick, far)],
        tally: Tally::default(),
    })
}

/// The cost of a tick with `timers` pending, all of them far.
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
