//! Answers about the engine's state, such as counts and samples.
//!
//! The writer gives them between two commands, because only its thread may read the engine. They
//! change nothing and need no commit.

use crate::engine;
use crate::model::access::Access;
use crate::model::sample::Sample;
use crate::model::stats::{QueueInfo, Stats};
use crate::model::time::{Clock, Time};
use crate::model::validation::check_window;
use crate::runtime::request::{Ask, Response};
use crate::runtime::writer::{Open, WriterOptions};

impl WriterOptions {
    /// Answers a question about the state of the engine.
    pub(crate) fn answer(
        &self,
        open: &Open,
        ask: &Ask,
        access: &Access,
        failures: u64,
        clock: &Clock,
    ) -> Response {
        let engine = &open.engine;
        match ask {
            Ask::Stats => {
                let mut stats = Stats {
                    durability: self.durability,
                    horizon: self.engine.horizon,
                    queues: engine.queue_count() as u64,
                    schedules: engine.schedules() as u64,
                    pending: engine.pending(),
                    leased: engine.queues().iter().map(|queue| queue.counts().leased).sum(),
                    in_memory: engine.in_memory() as u64,
                    disk: open.housekeeping.disk(),
                    disk_free: open.housekeeping.free(),
                    disk_room: engine.disk_room(),
                    commits: open.commits,
                    failures,
                    commit_time: open.commit_time.clone(),
                    ..Stats::default()
                };
                engine.tally.add_to(&mut stats);
                Response::Stats(Box::new(stats))
            }
            Ask::Activity(window) => {
                let activity = || Box::new(engine.tally.window(clock.now().time(), *window));
                Response::Activity(check_window(*window).map(|()| activity()))
            }
            Ask::Next(name) => {
                let number = engine.number_of(name).filter(|_| access.allows(name));
                Response::Next(number.and_then(|number| engine.queues()[number as usize].next_id()))
            }
            Ask::Queues(name) => {
                let wanted = |queue: &&engine::Queue| {
                    name.as_ref().is_none_or(|name| **name == *queue.name)
                        && access.allows(&queue.name)
                        && !queue.is_removed
                };
                let now = clock.now().time();
                let queues = engine.queues().iter().zip(0..).filter(|(queue, _)| wanted(queue));
                let info = |(queue, number)| info(queue, engine.held(number), now);
                Response::Queues(queues.map(info).collect())
            }
            Ask::Sample(since, names) => {
                let sample = engine.sample(access, *since, names, clock.now().time());
                Response::Sample(Box::new(Sample { failures, ..sample }))
            }
            Ask::Wheel => Response::Wheel(Box::new(engine.wheel_info(access))),
        }
    }
}

fn info(queue: &engine::Queue, held: u64, now: Time) -> QueueInfo {
    let counts = queue.counts();
    let (ready, more_ready) = queue.ready(now);
    QueueInfo {
        name: queue.name.to_string(),
        settings: queue.settings.clone(),
        paused: queue.paused,
        paused_until: queue.paused_until.filter(|until| *until > now),
        scheduled: counts.waiting.saturating_sub(ready),
        ready,
        more_ready,
        held,
        leased: counts.leased,
        dead: counts.dead,
        done: counts.done,
        cancelled: counts.cancelled,
        oldest_ready: queue.oldest_ready(now),
        counters: counts.lifetime,
        lateness: queue.lateness(),
    }
}
