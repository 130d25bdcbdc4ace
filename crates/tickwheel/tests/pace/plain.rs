//! The plain model of a pacer: all starts are in a list, and every rule is applied literally.

use std::collections::BTreeMap;

/// Microseconds since the start.
pub(crate) type Micros = u64;

pub(crate) const TICK: Micros = 1_000;

/// A waiter: a task or a future.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    Task(usize),
    Future(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) starts: usize,
    pub(crate) window: Micros,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Key {
    /// The waiters in the order of submission, with priorities.
    pub(crate) queue: Vec<(i8, Who)>,
    /// The times of starts that count towards the rate.
    starts: Vec<Micros>,
    /// Futures that were granted a permit and have not been polled since.
    pub(crate) open: Vec<usize>,
    running: usize,
    pub(crate) paused: bool,
    held_until: Micros,
    rate: Option<Rate>,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) keys: BTreeMap<u8, Key>,
    pub(crate) now: Micros,
    rate: Rate,
    smooth: bool,
    max_running: usize,
    pub(crate) paused: bool,
    /// The key of each task.
    pub(crate) tasks: Vec<u8>,
    /// The key of each future, until it is ready or dropped.
    pub(crate) futures: Vec<Option<u8>>,
    /// The key of each permit that takes a place, until it is dropped.
    pub(crate) permits: Vec<Option<u8>>,
    /// The started tasks: key, task and time.
    pub(crate) log: Vec<(u8, usize, Micros)>,
}

impl Key {
    /// Returns the queue in the order of starting.
    pub(crate) fn in_order(&self) -> Vec<Who> {
        let mut queue = self.queue.clone();
        queue.sort_by_key(|&(priority, _)| -i32::from(priority));
        queue.into_iter().map(|(_, who)| who).collect()
    }

    fn rate(&self, common: Rate) -> Rate {
        self.rate.unwrap_or(common)
    }

    fn forget(&mut self, now: Micros, common: Rate) {
        let window = self.rate(common).window;
        self.starts.retain(|start| start + window > now);
    }

    /// Returns `true` if the rules allow a start at a time.
    fn allows(&self, time: Micros, common: Rate, smooth: bool) -> bool {
        let Rate { starts, window } = self.rate(common);
        let in_window = self.starts.iter().filter(|&&start| start + window > time).count();
        let gap_is_over = |start: &Micros| (time - start) * starts as u64 >= window;
        time >= self.held_until
            && in_window + self.open.len() < starts
            && (!smooth || (self.open.is_empty() && self.starts.iter().all(gap_is_over)))
    }

    /// Returns the first time from `now` on at which the rules allow a start, if only time is
    /// missing.
    fn earliest(&self, now: Micros, common: Rate, smooth: bool) -> Option<Micros> {
        let Rate { starts, window } = self.rate(common);
        let gap = window.div_ceil(starts as u64);
        let turning_points = self.starts.iter().flat_map(|start| [start + window, start + gap]);
        let mut times: Vec<_> = turning_points.chain([now, self.held_until]).collect();
        times.sort_unstable();
        times.into_iter().find(|&time| time >= now && self.allows(time, common, smooth))
    }
}

impl Model {
    pub(crate) fn new(rate: Rate, smooth: bool, max_running: usize) -> Self {
        Self {
            keys: BTreeMap::new(),
            now: 0,
            rate,
            smooth,
            max_running: if max_running == 0 { usize::MAX } else { max_running },
            paused: false,
            tasks: Vec::new(),
            futures: Vec::new(),
            permits: Vec::new(),
            log: Vec::new(),
        }
    }

    pub(crate) fn key(&mut self, key: u8) -> &mut Key {
        self.keys.entry(key).or_default()
    }

    /// Returns whether a key is paused, and whether it has a rate of its own.
    pub(crate) fn settings(&self, key: u8) -> (bool, bool) {
        self.keys.get(&key).map_or((false, false), |key| (key.paused, key.rate.is_some()))
    }

    pub(crate) fn submit(&mut self, key: u8, priority: i8) {
        let who = Who::Task(self.tasks.len());
        self.tasks.push(key);
        self.key(key).queue.push((priority, who));
    }

    /// Removes a waiter; returns `false` if it does not wait.
    pub(crate) fn cancel(&mut self, who: Who) -> bool {
        let waits = |key: &Key| key.queue.iter().any(|&(_, other)| other == who);
        let found = self.keys.values_mut().find(|key| waits(key));
        found.map(|key| key.queue.retain(|&(_, other)| other != who)).is_some()
    }

    pub(crate) fn retry_after(&mut self, key: u8, delay: Micros) {
        let until = self.now + delay;
        let key = self.key(key);
        key.held_until = key.held_until.max(until);
    }

    pub(crate) fn set_rate(&mut self, rate: Rate) {
        for key in self.keys.values_mut().filter(|key| key.rate.is_none()) {
            key.forget(self.now, self.rate);
        }
        self.rate = rate;
    }

    pub(crate) fn set_rate_of(&mut self, key: u8, rate: Option<Rate>) {
        let (now, common) = (self.now, self.rate);
        let key = self.key(key);
        key.forget(now, common);
        key.rate = rate;
    }

    /// Returns `true` if a permit is available at once.
    pub(crate) fn try_acquire(&mut self, name: u8) -> bool {
        let Self { now, rate, smooth, max_running, paused, .. } = *self;
        let key = self.key(name);
        let allowed = !paused
            && !key.paused
            && key.queue.is_empty()
            && key.running < max_running
            && key.allows(now, rate, smooth);
        if allowed {
            key.starts.push(now);
            let counts = max_running < usize::MAX;
            key.running += usize::from(counts);
            self.permits.push(counts.then_some(name));
        }
        allowed
    }

    /// Creates and polls a future; returns `true` if it is ready at once.
    pub(crate) fn acquire(&mut self, name: u8, priority: i8) -> bool {
        let number = self.futures.len();
        let ready = self.try_acquire(name);
        self.futures.push((!ready).then_some(name));
        if !ready {
            self.key(name).queue.push((priority, Who::Future(number)));
        }
        ready
    }

    /// Polls a future again; returns whether it is ready, or `None` if it was ready before.
    pub(crate) fn poll(&mut self, number: usize) -> Option<bool> {
        let (name, now) = (self.futures[number]?, self.now);
        let key = self.key(name);
        let Some(at) = key.open.iter().position(|&other| other == number) else {
            return Some(false);
        };
        key.open.remove(at);
        key.starts.push(now);
        self.futures[number] = None;
        self.permits.push(Some(name));
        Some(true)
    }

    pub(crate) fn drop_future(&mut self, number: usize) {
        let Some(name) = self.futures[number].take() else { return };
        if !self.cancel(Who::Future(number)) {
            let key = self.key(name);
            key.open.retain(|&other| other != number);
            key.running -= 1;
        }
    }

    pub(crate) fn drop_permit(&mut self, number: usize) {
        if let Some(name) = self.permits[number].take() {
            self.key(name).running -= 1;
        }
    }

    /// Lets time pass, and starts the tasks that may start: at once, or with the next tick.
    pub(crate) fn advance(&mut self, target: Micros) {
        let Self { now, rate, smooth, max_running, paused, .. } = *self;
        for (&name, key) in &mut self.keys {
            let mut time = now;
            while !key.queue.is_empty() && !paused && !key.paused && key.running < max_running {
                let Some(earliest) = key.earliest(time, rate, smooth) else { break };
                time = if earliest == time { time } else { earliest.next_multiple_of(TICK) };
                if time > target {
                    break;
                }
                let who = key.in_order()[0];
                key.queue.retain(|&(_, other)| other != who);
                match who {
                    Who::Task(task) => {
                        key.starts.push(time);
                        self.log.push((name, task, time));
                    }
                    Who::Future(future) => {
                        key.open.push(future);
                        key.running += 1;
                    }
                }
            }
        }
        self.now = target;
    }
}
