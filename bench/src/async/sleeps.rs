//! Sleeps with far deadlines: creating, moving and dropping them.
//!
//! The sleeps of all systems are stored in slots that are allocated beforehand, each boxed, because
//! some sleeps must not move.

use std::mem::forget;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::runtime::Runtime;

use super::contender::{Contender, poll_once};
use super::run::time;
use crate::suite::Outcome;
use crate::work::{self, Checksum, Size};

type Place<S> = Pin<Box<Option<S>>>;

/// Slots for sleeps, and the number of sleeps that were ready too early.
struct Places<'a, C: Contender> {
    system: &'a C,
    all: Vec<Place<C::Sleep>>,
    ready: usize,
}

impl<'a, C: Contender> Places<'a, C> {
    fn empty(system: &'a C, count: usize) -> Self {
        Self { system, all: (0..count).map(|_| Box::pin(None)).collect(), ready: 0 }
    }

    fn full(system: &'a C, delays: &[Duration]) -> Self {
        let mut places = Self::empty(system, delays.len());
        places.fill(delays);
        places
    }

    /// Replaces the sleep in a slot and polls it once.
    #[inline]
    fn put(&mut self, at: usize, delay: Duration) {
        let mut place = self.all[at].as_mut();
        place.set(None);
        place.set(Some(self.system.sleep(delay)));
        if let Some(sleep) = place.as_pin_mut() {
            let ready = poll_once(sleep, &mut Context::from_waker(Waker::noop()));
            self.ready += usize::from(ready);
        }
    }

    fn fill(&mut self, delays: &[Duration]) {
        for (at, &delay) in delays.iter().enumerate() {
            self.put(at, delay);
        }
    }

    fn ensure_pending(&self) -> Result<()> {
        ensure!(self.ready == 0, "{} sleeps were ready too early", self.ready);
        Ok(())
    }
}

pub(super) fn make_and_drop<C: Contender>(
    system: &C,
    size: &Size,
    runtime: &Runtime,
) -> Result<Outcome> {
    let (delays, order) = (work::far(size), work::order(size));
    let mut places = Places::empty(system, size.timers + 1);
    let create = time(system, runtime, || places.fill(&delays));
    let brief = time(system, runtime, || {
        for &delay in &delays {
            places.put(size.timers, delay);
            places.all[size.timers].set(None);
        }
    });
    let drop = time(system, runtime, || {
        for &at in &order {
            places.all[at as usize].set(None);
        }
    });
    places.ensure_pending()?;
    let figures = [
        create.each(["create-cpu", "create-wall"], size.timers),
        brief.each(["brief-cpu", "brief-wall"], size.timers),
        drop.each(["drop-cpu", "drop-wall"], size.timers),
    ];
    Ok(Checksum::default().delays(&delays).order(&order).outcome(figures.into_iter().flatten()))
}

pub(super) fn churn<C: Contender>(system: &C, size: &Size, runtime: &Runtime) -> Result<Outcome> {
    let (delays, moves) = (work::far(size), work::moves(size));
    let mut places = Places::full(system, &delays);
    let reading = time(system, runtime, || {
        for step in &moves {
            places.put(step.index as usize, step.delay());
        }
    });
    places.ensure_pending()?;
    forget(places.all);
    let figures = reading.each(["churn-cpu", "churn-wall"], moves.len());
    Ok(Checksum::default().delays(&delays).moves(&moves).outcome(figures))
}

pub(super) fn reset<C: Contender>(system: &C, size: &Size, runtime: &Runtime) -> Result<Outcome> {
    let (delays, moves) = (work::far(size), work::moves(size));
    let mut places = Places::full(system, &delays);
    let reading = time(system, runtime, || {
        for step in &moves {
            if let Some(sleep) = places.all[step.index as usize].as_mut().as_pin_mut() {
                system.reset(sleep, step.delay());
            }
        }
    });
    places.ensure_pending()?;
    forget(places.all);
    let figures = reading.each(["reset-cpu", "reset-wall"], moves.len());
    Ok(Checksum::default().delays(&delays).moves(&moves).outcome(figures))
}
