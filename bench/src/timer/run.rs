//! One run of a timer that is written in Rust: one workload, alone in a process.
//!
//! What is random is made before the clock starts, and lists of handles are allocated and touched
//! before it. A section ends when a task without a delay has run, scheduled after all others: so a
//! timer that only takes note of what it is asked, and does it later, is charged for doing it.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::mem::{self, MaybeUninit, forget};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::contender::Contender;
use super::figure::Figure;
use super::ours::{Keyed, Ours};
use super::pause;
use super::peers::{AsyncIo, Tokio};
use super::plan::Plan;
use super::system::System;
use super::workload::Workload;
use crate::lateness::{self, Task};
use crate::memory::resident;
use crate::meter::{Meter, Reading, Switches};
use crate::names::name;
use crate::report::numbers::quantile;
use crate::work::{self, Checksum, Move};

/// How long a process gets to calm down before it is watched doing nothing.
const MOST_CALM_MS: u64 = 1_000;

/// What to run.
#[derive(Args)]
pub(crate) struct Run {
    #[arg(long)]
    system: System,
    #[command(flatten)]
    plan: Plan,
}

/// What came of it: the line that every harness prints.
#[derive(Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Equal for all systems that were given the same work.
    pub(super) checksum: u64,
    pub(super) figures: BTreeMap<Figure, f64>,
}

impl Run {
    /// Runs and prints the outcome.
    pub(crate) fn execute(&self) -> Result<()> {
        let outcome = match self.system {
            _ if self.plan.workload == Workload::Pause => Ok(pause::pause(&self.plan)),
            System::Tickwheel => perform(Ours::new(), &self.plan),
            System::Inline => perform(Ours::inline(), &self.plan),
            System::Hashed => perform(Ours::hashed(), &self.plan),
            System::Keyed => perform(Keyed::new(), &self.plan),
            System::Tokio => perform(Tokio::new(), &self.plan),
            System::AsyncIo => perform(AsyncIo::new(), &self.plan),
            System::Netty | System::NettyParallel | System::Jdk | System::Go => {
                bail!("{} has a harness of its own in bench/peers", name(&self.system))
            }
        }?;
        println!("{}", serde_json::to_string(&outcome)?);
        Ok(())
    }
}

fn perform<C: Contender>(timer: C, plan: &Plan) -> Result<Outcome> {
    let context = timer.context();
    let outcome = match plan.workload {
        Workload::Schedule => schedule(&timer, plan),
        Workload::Cancel => cancel(&timer, plan),
        Workload::Churn => churn(&timer, plan),
        Workload::Reset => reset(&timer, plan),
        Workload::TwoProducers => two_producers(&timer, plan),
        Workload::TwoChurn => {
            churn_on_threads(&timer, plan, [Figure::TwoChurnCpu, Figure::TwoChurnWall])
        }
        Workload::TwoCancel => cancel_each_other(&timer, plan),
        Workload::EightProducers => schedule_on_threads(&timer, plan),
        Workload::EightChurn => {
            churn_on_threads(&timer, plan, [Figure::EightChurnCpu, Figure::EightChurnWall])
        }
        Workload::Fire => fire(&timer, plan),
        Workload::Idle => idle(&timer, plan),
        Workload::Memory => memory(&timer, plan),
        Workload::Blocked => blocked(&timer, plan),
        Workload::Pause => bail!("pauses are measured on our own timer alone"),
    };
    drop(context);
    // The process ends, nobody measures it, and taking a million timers apart takes a while.
    forget(timer);
    outcome
}

/// A list with room for so many, whose pages have been touched.
fn touched<T>(len: usize) -> Vec<T> {
    let mut list = Vec::with_capacity(len);
    list.spare_capacity_mut().fill_with(MaybeUninit::zeroed);
    black_box(list)
}

fn schedule_all<C: Contender>(
    timer: &C,
    delays: &[Duration],
    from: usize,
    to: &mut Vec<C::Handle>,
) {
    for (index, &delay) in (from..).zip(delays) {
        to.push(timer.schedule(delay, Task::far(index)));
    }
}

/// Waits until the timer has done all that it was asked for.
fn settle<C: Contender>(timer: &C) -> Result<()> {
    timer.launch(Duration::ZERO, Task::sentinel());
    lateness::await_sentinel()
}

/// Times `work` and what the timer has left to do after it.
fn time<C: Contender>(timer: &C, work: impl FnOnce()) -> Result<Reading> {
    let meter = Meter::start();
    work();
    settle(timer)?;
    Ok(meter.stop())
}

fn per_operation(
    checksum: Checksum,
    [processor, wall]: [Figure; 2],
    reading: &Reading,
    operations: usize,
) -> Outcome {
    let each = |time: Duration| time.as_nanos() as f64 / operations as f64;
    let figures = [(processor, each(reading.processor)), (wall, each(reading.wall))];
    Outcome { checksum: checksum.0, figures: figures.into() }
}

fn schedule<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let delays = work::far(&plan.size);
    let mut handles = touched(plan.size.timers);
    let reading = time(timer, || schedule_all(timer, &delays, 0, &mut handles))?;
    forget(handles);
    let checksum = Checksum::default().delays(&delays);
    Ok(per_operation(
        checksum,
        [Figure::ScheduleCpu, Figure::ScheduleWall],
        &reading,
        plan.size.timers,
    ))
}

fn cancel<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let delays = work::far(&plan.size);
    let order = work::order(&plan.size);
    let mut handles = touched(plan.size.timers);
    schedule_all(timer, &delays, 0, &mut handles);
    settle(timer)?;
    let mut handles: Vec<Option<C::Handle>> = handles.into_iter().map(Some).collect();
    let at_hand: Vec<C::Handle> =
        order.iter().filter_map(|&index| handles[index as usize].take()).collect();
    let mut refused = 0;
    let reading = time(timer, || {
        for mut handle in at_hand {
            refused += u32::from(!timer.cancel(&mut handle));
        }
    })?;
    none_refused(refused)?;
    let checksum = Checksum::default().delays(&delays).order(&order);
    Ok(per_operation(checksum, [Figure::CancelCpu, Figure::CancelWall], &reading, plan.size.timers))
}

fn none_refused(refused: u32) -> Result<()> {
    ensure!(refused == 0, "{refused} pending timers were not cancelled or reset");
    Ok(())
}

fn churn<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let (delays, moves) = (work::far(&plan.size), work::moves(&plan.size));
    let mut handles = touched(plan.size.timers);
    schedule_all(timer, &delays, 0, &mut handles);
    settle(timer)?;
    let mut refused = 0;
    let reading = time(timer, || {
        for step in &moves {
            let handle = &mut handles[step.index as usize];
            refused += u32::from(!timer.cancel(handle));
            *handle = timer.schedule(step.delay(), Task::far(step.index as usize));
        }
    })?;
    none_refused(refused)?;
    forget(handles);
    Ok(moved(&delays, &moves, [Figure::ChurnCpu, Figure::ChurnWall], &reading))
}

fn reset<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let (delays, moves) = (work::far(&plan.size), work::moves(&plan.size));
    let mut handles = touched(plan.size.timers);
    for (index, &delay) in delays.iter().enumerate() {
        handles.push(timer.schedule_resettable(delay, Task::far(index)));
    }
    settle(timer)?;
    let mut refused = 0;
    let reading = time(timer, || {
        for step in &moves {
            let handle = &mut handles[step.index as usize];
            refused += u32::from(!timer.reset(handle, step.delay()));
        }
    })?;
    none_refused(refused)?;
    forget(handles);
    Ok(moved(&delays, &moves, [Figure::ResetCpu, Figure::ResetWall], &reading))
}

fn moved(delays: &[Duration], moves: &[Move], figures: [Figure; 2], reading: &Reading) -> Outcome {
    let checksum = Checksum::default().delays(delays).moves(moves);
    per_operation(checksum, figures, reading, moves.len())
}

fn two_producers<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let delays = work::far(&plan.size);
    let (first, second) = delays.split_at(delays.len() / 2);
    let (mut mine, mut others) = (touched(first.len()), touched(second.len()));
    let reading = time(timer, || {
        thread::scope(|scope| {
            scope.spawn(|| {
                let _context = timer.context();
                schedule_all(timer, second, first.len(), &mut others);
            });
            schedule_all(timer, first, 0, &mut mine);
        });
    })?;
    forget((mine, others));
    let figures = [Figure::TwoProducersCpu, Figure::TwoProducersWall];
    Ok(per_operation(Checksum::default().delays(&delays), figures, &reading, plan.size.timers))
}

/// Lets threads `prepare` at once, and then times their `work` and what the timer has left to do.
/// Each is told its number.
fn time_threads<C: Contender, S>(
    timer: &C,
    threads: usize,
    prepare: impl Fn(usize) -> S + Sync,
    work: impl Fn(usize, &mut S) + Sync,
) -> Result<Reading> {
    // The measuring thread goes through as well: all are ready, begin, all are done.
    let gate = &Barrier::new(threads + 1);
    let (prepare, work) = (&prepare, &work);
    thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || {
                let _context = timer.context();
                let mut state = prepare(number);
                gate.wait();
                gate.wait();
                work(number, &mut state);
                gate.wait();
                forget(state);
            });
        }
        gate.wait();
        let ready = settle(timer);
        let meter = Meter::start();
        gate.wait();
        gate.wait();
        ready.and_then(|()| settle(timer))?;
        Ok(meter.stop())
    })
}

fn schedule_on_threads<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let delays = work::far(&plan.size);
    let threads = plan.workload.threads();
    let part = delays.len() / threads;
    let reading = time_threads(
        timer,
        threads,
        |_| touched(part),
        |number, handles| {
            let from = number * part;
            schedule_all(timer, &delays[from..from + part], from, handles);
        },
    )?;
    let figures = [Figure::EightProducersCpu, Figure::EightProducersWall];
    Ok(per_operation(Checksum::default().delays(&delays), figures, &reading, threads * part))
}

/// Each thread has a part of the timers, which it scheduled, and a part of the moves.
fn churn_on_threads<C: Contender>(timer: &C, plan: &Plan, figures: [Figure; 2]) -> Result<Outcome> {
    let (delays, moves) = (work::far(&plan.size), work::moves(&plan.size));
    let threads = plan.workload.threads();
    let (part, steps) = (delays.len() / threads, moves.len() / threads);
    let refused = AtomicU32::new(0);
    let reading = time_threads(
        timer,
        threads,
        |number| {
            let from = number * part;
            let mut handles = touched(part);
            schedule_all(timer, &delays[from..from + part], from, &mut handles);
            handles
        },
        |number, handles| {
            let mut gone = 0;
            for step in &moves[number * steps..][..steps] {
                let at = step.index as usize % part;
                gone += u32::from(!timer.cancel(&mut handles[at]));
                handles[at] = timer.schedule(step.delay(), Task::far(number * part + at));
            }
            refused.fetch_add(gone, Ordering::Relaxed);
        },
    )?;
    none_refused(refused.into_inner())?;
    let checksum = Checksum::default().delays(&delays).moves(&moves);
    Ok(per_operation(checksum, figures, &reading, threads * steps))
}

fn cancel_each_other<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let delays = work::far(&plan.size);
    let order = work::order(&plan.size);
    let half = delays.len() / 2;
    let handles: [Mutex<Vec<C::Handle>>; 2] = [Mutex::default(), Mutex::default()];
    let exchange = Barrier::new(2);
    let refused = AtomicU32::new(0);
    let reading = time_threads(
        timer,
        2,
        |number| {
            let from = number * half;
            let mut mine = touched(half);
            schedule_all(timer, &delays[from..from + half], from, &mut mine);
            *lock(&handles[number]) = mine;
            exchange.wait();
            let from = half - from;
            let mut others: Vec<Option<C::Handle>> =
                mem::take(&mut *lock(&handles[1 - number])).into_iter().map(Some).collect();
            let of_other = |index: &u32| (*index as usize).checked_sub(from);
            let in_order = order.iter().filter_map(of_other);
            in_order.filter_map(|at| others.get_mut(at)?.take()).collect::<Vec<_>>()
        },
        |_, others| {
            let mut gone = 0;
            for mut handle in others.drain(..) {
                gone += u32::from(!timer.cancel(&mut handle));
            }
            refused.fetch_add(gone, Ordering::Relaxed);
        },
    )?;
    none_refused(refused.into_inner())?;
    let checksum = Checksum::default().delays(&delays).order(&order);
    let figures = [Figure::TwoCancelCpu, Figure::TwoCancelWall];
    Ok(per_operation(checksum, figures, &reading, 2 * half))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics")
}

fn memory<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let delays = work::tomorrow(&plan.size);
    let mut handles = touched(plan.size.timers);
    settle(timer)?;
    let before = resident()?;
    for (index, &delay) in delays.iter().enumerate() {
        let handle = timer.schedule(delay, Task::far(index));
        if C::LIVES_IN_HANDLE {
            handles.push(handle);
        }
    }
    settle(timer)?;
    let bytes = resident()?.saturating_sub(before) as f64 / plan.size.timers as f64;
    forget(handles);
    let figures = [(Figure::Memory, bytes), (Figure::MemoryResident, bytes)];
    Ok(Outcome { checksum: Checksum::default().delays(&delays).0, figures: figures.into() })
}

fn idle<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let delays = work::tomorrow(&plan.size);
    let mut handles = touched(plan.size.timers);
    settle(timer)?;
    let mut figures = BTreeMap::new();
    let empty = [Figure::IdleEmptyCpu, Figure::IdleEmptySwitches];
    do_nothing(plan, empty, &mut figures)?;
    schedule_all(timer, &delays, 0, &mut handles);
    settle(timer)?;
    let full = [Figure::IdleFullCpu, Figure::IdleFullSwitches];
    do_nothing(plan, full, &mut figures)?;
    forget(handles);
    Ok(Outcome { checksum: Checksum::default().delays(&delays).0, figures })
}

/// What the process does while nothing is due, once it has calmed down.
fn do_nothing(
    plan: &Plan,
    [processor, switches]: [Figure; 2],
    figures: &mut BTreeMap<Figure, f64>,
) -> Result<()> {
    thread::sleep(Duration::from_millis(plan.idle_ms.min(MOST_CALM_MS)));
    let before = Switches::read()?;
    let meter = Meter::start();
    thread::sleep(Duration::from_millis(plan.idle_ms));
    let reading = meter.stop();
    let seconds = reading.wall.as_secs_f64();
    figures.insert(processor, reading.processor.as_secs_f64() * 1e3 / seconds);
    figures.insert(switches, Switches::read()?.since(&before) as f64 / seconds);
    Ok(())
}

fn fire<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let delays = work::soon(&plan.size);
    let last = launch_all(timer, plan, &delays, |_| false)?;
    let meter = Meter::start();
    lateness::await_all(last)?;
    let reading = meter.stop();
    let sorted = lateness::sorted(|_| false);
    let late = [Figure::FireP50, Figure::FireP99, Figure::FireP999, Figure::FireMax];
    let mut figures = latenesses(late, &sorted);
    figures.insert(Figure::FireCpu, reading.processor.as_secs_f64());
    figures.insert(Figure::FireEarly, sorted.partition_point(|&late| late < 0) as f64);
    Ok(Outcome { checksum: Checksum::default().delays(&delays).0, figures })
}

/// Schedules tasks that know their deadline, and says which is the last deadline.
fn launch_all<C: Contender>(
    timer: &C,
    plan: &Plan,
    delays: &[Duration],
    blocks: impl Fn(usize) -> bool,
) -> Result<u64> {
    lateness::prepare(delays.len());
    let began = lateness::now();
    let mut last = began;
    for (index, &delay) in delays.iter().enumerate() {
        let task = Task::due(index, delay, blocks(index));
        timer.launch(delay, task);
        last = last.max(task.deadline());
    }
    let took = (lateness::now() - began) / 1_000_000;
    ensure!(
        took <= plan.size.lead_ms,
        "scheduling took {took} ms, so that the first of {} timers fired meanwhile; take fewer",
        delays.len()
    );
    Ok(last)
}

fn latenesses(names: [Figure; 4], sorted: &[i64]) -> BTreeMap<Figure, f64> {
    let milliseconds = |share| quantile(sorted, share) as f64 / 1e6;
    let quantiles = [0.5, 0.99, 0.999, 1.0].map(milliseconds);
    names.into_iter().zip(quantiles).collect()
}

fn blocked<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let delays = work::steady(&plan.size);
    let blocks = |index: usize| index % 1_000 == 500;
    let last = launch_all(timer, plan, &delays, blocks)?;
    lateness::await_all(last)?;
    let late = [Figure::BlockedP50, Figure::BlockedP99, Figure::BlockedP999, Figure::BlockedMax];
    let figures = latenesses(late, &lateness::sorted(blocks));
    Ok(Outcome { checksum: Checksum::default().delays(&delays).0, figures })
}
