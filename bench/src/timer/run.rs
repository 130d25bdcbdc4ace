//! One run of a timer that is written in Rust: one workload, alone in a process.
//!
//! Before the clock starts, random numbers are drawn, and lists of handles are allocated and
//! touched. A section ends when a task without a delay, which is scheduled after all others, has
//! run. So a timer that only enqueues requests is charged for the work that follows.

use std::hint::black_box;
use std::mem::{self, MaybeUninit, forget};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::contender::Contender;
use super::ours::{Keyed, Ours};
use super::pause;
use super::peers::{AsyncIo, Tokio};
use crate::lateness::{self, Task};
use crate::memory::resident;
use crate::meter::{Meter, Reading, Switches};
use crate::suite::numbers::quantile;
use crate::suite::{Figures, Outcome, Run};
use crate::work::{self, Checksum, Move, Size};

/// The longest wait before an idle process is measured.
const MOST_CALM_MS: u64 = 1_000;

/// The settings of a run.
pub(super) struct Plan<'a> {
    workload: &'a str,
    pub(super) size: Size,
    idle_ms: u64,
}

/// Does one run of a timer that is written in Rust.
pub(super) fn perform(run: &Run) -> Result<Outcome> {
    let (workload, size) = (run.workload.name, Size::of(run)?);
    let plan = Plan { workload, size, idle_ms: run.number("idle-ms")? };
    match run.system.name {
        _ if workload == "pause" => Ok(pause::pause(&plan)),
        "tickwheel" => measure(Ours::new(), &plan),
        "inline" => measure(Ours::inline(), &plan),
        "hashed" => measure(Ours::hashed(), &plan),
        "keyed" => measure(Keyed::new(), &plan),
        "tokio" => measure(Tokio::new(), &plan),
        "async-io" => measure(AsyncIo::new(), &plan),
        other => bail!("{other} has a harness of its own in bench/peers"),
    }
}

/// Returns how many threads use the timer, in workloads that exist for several numbers of threads.
pub(super) fn threads(workload: &str) -> usize {
    match workload {
        "two-churn" | "two-cancel" => 2,
        "eight-producers" | "eight-churn" => 8,
        _ => 1,
    }
}

fn measure<C: Contender>(timer: C, plan: &Plan) -> Result<Outcome> {
    let context = timer.context();
    let outcome = match plan.workload {
        "schedule" => schedule(&timer, plan),
        "cancel" => cancel(&timer, plan),
        "churn" => churn(&timer, plan),
        "reset" => reset(&timer, plan),
        "two-producers" => two_producers(&timer, plan),
        "two-churn" => churn_on_threads(&timer, plan, ["two-churn-cpu", "two-churn-wall"]),
        "two-cancel" => cancel_each_other(&timer, plan),
        "eight-producers" => schedule_on_threads(&timer, plan),
        "eight-churn" => churn_on_threads(&timer, plan, ["eight-churn-cpu", "eight-churn-wall"]),
        "fire" => fire(&timer, plan),
        "idle" => idle(&timer, plan),
        "memory" => memory(&timer, plan),
        "blocked" => blocked(&timer, plan),
        other => bail!("unknown workload {other}"),
    };
    drop(context);
    // Leaked: the process ends soon, and dropping a million timers takes a while.
    forget(timer);
    outcome
}

/// Returns a list with room for `len` items, whose pages have been touched.
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

/// Waits until the timer has no work left.
fn settle<C: Contender>(timer: &C) -> Result<()> {
    timer.launch(Duration::ZERO, Task::sentinel());
    lateness::await_sentinel()
}

/// Times `work` and the work that it leaves to the timer.
fn time<C: Contender>(timer: &C, work: impl FnOnce()) -> Result<Reading> {
    let meter = Meter::start();
    work();
    settle(timer)?;
    Ok(meter.stop())
}

fn per_operation(
    checksum: Checksum,
    figures: [&'static str; 2],
    reading: &Reading,
    operations: usize,
) -> Outcome {
    checksum.outcome(reading.each(figures, operations))
}

fn schedule<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let delays = work::far(&plan.size);
    let mut handles = touched(plan.size.timers);
    let reading = time(timer, || schedule_all(timer, &delays, 0, &mut handles))?;
    forget(handles);
    let checksum = Checksum::default().delays(&delays);
    Ok(per_operation(checksum, ["schedule-cpu", "schedule-wall"], &reading, plan.size.timers))
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
    Ok(per_operation(checksum, ["cancel-cpu", "cancel-wall"], &reading, plan.size.timers))
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
    Ok(moved(&delays, &moves, ["churn-cpu", "churn-wall"], &reading))
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
    Ok(moved(&delays, &moves, ["reset-cpu", "reset-wall"], &reading))
}

fn moved(
    delays: &[Duration],
    moves: &[Move],
    figures: [&'static str; 2],
    reading: &Reading,
) -> Outcome {
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
    let figures = ["two-producers-cpu", "two-producers-wall"];
    Ok(per_operation(Checksum::default().delays(&delays), figures, &reading, plan.size.timers))
}

/// Lets threads `prepare` together, and then times their `work` and the work that it leaves to the
/// timer. Both get the number of the thread.
fn time_threads<C: Contender, S>(
    timer: &C,
    threads: usize,
    prepare: impl Fn(usize) -> S + Sync,
    work: impl Fn(usize, &mut S) + Sync,
) -> Result<Reading> {
    // The measuring thread waits at the barrier as well: when all are ready, when all begin, and
    // when all are done.
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
    let threads = threads(plan.workload);
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
    let figures = ["eight-producers-cpu", "eight-producers-wall"];
    Ok(per_operation(Checksum::default().delays(&delays), figures, &reading, threads * part))
}

/// Measures threads that each churn a part of the timers, which they scheduled themselves.
fn churn_on_threads<C: Contender>(
    timer: &C,
    plan: &Plan,
    figures: [&'static str; 2],
) -> Result<Outcome> {
    let (delays, moves) = (work::far(&plan.size), work::moves(&plan.size));
    let threads = threads(plan.workload);
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
    let figures = ["two-cancel-cpu", "two-cancel-wall"];
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
    let figures = [("memory", bytes), ("memory-resident", bytes)];
    Ok(Checksum::default().delays(&delays).outcome(figures))
}

fn idle<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let delays = work::tomorrow(&plan.size);
    let mut handles = touched(plan.size.timers);
    settle(timer)?;
    let mut figures = Figures::new();
    let empty = ["idle-empty-cpu", "idle-empty-switches"];
    do_nothing(plan, empty, &mut figures)?;
    schedule_all(timer, &delays, 0, &mut handles);
    settle(timer)?;
    let full = ["idle-full-cpu", "idle-full-switches"];
    do_nothing(plan, full, &mut figures)?;
    forget(handles);
    Ok(Checksum::default().delays(&delays).outcome(figures))
}

/// Measures the process while nothing is due.
fn do_nothing(
    plan: &Plan,
    [processor, switches]: [&'static str; 2],
    figures: &mut Figures,
) -> Result<()> {
    thread::sleep(Duration::from_millis(plan.idle_ms.min(MOST_CALM_MS)));
    let before = Switches::read()?;
    let meter = Meter::start();
    thread::sleep(Duration::from_millis(plan.idle_ms));
    let reading = meter.stop();
    let seconds = reading.wall.as_secs_f64();
    figures.push((processor, reading.processor.as_secs_f64() * 1e3 / seconds));
    figures.push((switches, Switches::read()?.since(&before) as f64 / seconds));
    Ok(())
}

fn fire<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let delays = work::soon(&plan.size);
    let last = launch_all(timer, plan, &delays, |_| false)?;
    let meter = Meter::start();
    lateness::await_all(last)?;
    let reading = meter.stop();
    let sorted = lateness::sorted(|_| false);
    let late = ["fire-p50", "fire-p99", "fire-p999", "fire-max"];
    let mut figures = latenesses(late, &sorted);
    figures.push(("fire-cpu", reading.processor.as_secs_f64()));
    figures.push(("fire-early", sorted.partition_point(|&late| late < 0) as f64));
    Ok(Checksum::default().delays(&delays).outcome(figures))
}

/// Schedules tasks that know their deadline, and returns the last deadline.
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
        "scheduling {} timers took {took} ms, so the first fired before the last was scheduled; use \
         fewer timers",
        delays.len()
    );
    Ok(last)
}

fn latenesses(names: [&'static str; 4], sorted: &[i64]) -> Figures {
    let milliseconds = |share| quantile(sorted, share) as f64 / 1e6;
    let quantiles = [0.5, 0.99, 0.999, 1.0].map(milliseconds);
    names.into_iter().zip(quantiles).collect()
}

fn blocked<C: Contender>(timer: &C, plan: &Plan) -> Result<Outcome> {
    let delays = work::steady(&plan.size);
    let blocks = |index: usize| index % 1_000 == 500;
    let last = launch_all(timer, plan, &delays, blocks)?;
    lateness::await_all(last)?;
    let late = ["blocked-p50", "blocked-p99", "blocked-p999", "blocked-max"];
    let figures = latenesses(late, &lateness::sorted(blocks));
    Ok(Checksum::default().delays(&delays).outcome(figures))
}
