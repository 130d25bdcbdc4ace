//! Everything at one glance.

use std::collections::HashMap;
use std::time::Duration;

use tickwheel_page::{Language, Texts};
use tickwheel_queue::{Error, QueueInfo, Stats, Time};

use super::sampler::{Samples, used};
use super::trouble;
use super::upcoming::Counted;
use crate::api::{Counts, Overview, OverviewTotals, QueueOverview, Rates, Trouble, Upcoming};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::is_name;
use crate::problem::Failure;
use crate::tokens::Scope;
use crate::wire::rfc3339;

/// The largest number of queues in an overview.
pub(crate) const MAX_QUEUES: usize = 200;
/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns everything that a caller may see, at one glance, with at most this many queues. The
/// sentences about health are in the language.
pub(crate) async fn overview(
    app: &App,
    caller: &Caller,
    max_queues: usize,
    language: Language,
) -> Result<Overview, Failure> {
    let texts = language.texts();
    let queues = app.queues_for(caller, Scope::Read)?;
    let asked = tokio::time::timeout(PATIENCE, async {
        let infos = queues.queues().await?;
        Ok::<_, Error>((infos, app.queues().stats().await?))
    });
    let now = app.now();
    match asked.await {
        Err(_) => Ok(silent(now, trouble::of_silence(PATIENCE, texts))),
        Ok(Err(error @ (Error::Unavailable(_) | Error::DiskFull { .. }))) => {
            Ok(silent(now, trouble::of_error(&error, texts)))
        }
        Ok(Err(error)) => Err(error.into()),
        Ok(Ok((mut infos, stats))) => {
            infos.retain(|queue| is_name(&queue.name));
            infos.sort_by(|a, b| a.name.cmp(&b.name));
            let counted = app.insight().due.get(app).await;
            let glance = Glance { app, caller, now, counted, texts };
            Ok(glance.overview(&infos, &stats, max_queues))
        }
    }
}

/// An overview without numbers: the store does not answer.
fn silent(now: Time, trouble: Trouble) -> Overview {
    Overview {
        at: rfc3339(now),
        at_ms: now.as_millis(),
        summary: trouble.message.clone(),
        health: vec![trouble],
        totals: None,
        queues: Vec::new(),
        queues_left_out: 0,
    }
}

struct Glance<'a> {
    app: &'a App,
    caller: &'a Caller,
    now: Time,
    counted: Option<Counted>,
    texts: &'static Texts,
}

impl Glance<'_> {
    fn overview(&self, infos: &[QueueInfo], stats: &Stats, max_queues: usize) -> Overview {
        let is_limited = self.caller.access().is_limited();
        let workers = self.app.insight().workers.count(|name| self.caller.access().allows(name));
        let samples = self.app.insight().samples();
        let each = workers.as_ref().map(|(each, _)| each);
        let mut queues: Vec<_> =
            infos.iter().map(|info| self.queue(info, &samples, each)).collect();
        let mut health = Vec::new();
        if !is_limited {
            health.extend(trouble::of_server(stats, samples.last_failure(), self.now, self.texts));
            let targets = self.app.push().list();
            let now_ms = self.now.as_millis();
            let held = |it| trouble::of_target(it, now_ms, self.texts);
            health.extend(targets.iter().filter_map(held));
        }
        let mut waiting: Vec<_> = queues
            .iter()
            .filter_map(|queue| Some((queue.waiting_ms, trouble::of_queue(queue, self.texts)?)))
            .collect();
        waiting.sort_by_key(|(waited, _)| std::cmp::Reverse(*waited));
        health.extend(waiting.into_iter().map(|(_, trouble)| trouble).take(max_queues));
        health.sort_by_key(|trouble| trouble.code);
        let mut totals = self.totals(&queues, stats, &samples);
        drop(samples);
        totals.workers = workers.map(|(_, all)| all).filter(|all| {
            // Deliveries without a worker go to targets, or went to connections that have closed.
            *all > 0 || totals.rates.is_none_or(|rates| rates.delivered <= 0.0)
        });
        let queues_left_out = queues.len().saturating_sub(max_queues) as u64;
        if queues_left_out > 0 {
            queues.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
            queues.truncate(max_queues);
            queues.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Overview {
            at: rfc3339(self.now),
            at_ms: self.now.as_millis(),
            summary: health.first().map_or("all on time", |worst| &worst.message).to_owned(),
            health,
            totals: Some(totals),
            queues,
            queues_left_out,
        }
    }

    fn queue(
        &self,
        info: &QueueInfo,
        samples: &Samples,
        workers: Option<&HashMap<String, u64>>,
    ) -> QueueOverview {
        let now_ms = self.now.as_millis();
        let recent = samples.recent(&info.name);
        let rates = recent.and_then(|recent| recent.rates(now_ms));
        let late = |share| recent.and_then(|recent| recent.lateness_ms(now_ms, share));
        let target = info.settings.target.clone();
        let seen = workers.map(|it| it.get(&info.name).copied().unwrap_or_default());
        let is_known = |seen: &u64| *seen > 0 || rates.is_none_or(|rates| rates.delivered <= 0.0);
        QueueOverview {
            name: info.name.clone(),
            paused: info.paused,
            jobs: Counts {
                scheduled: info.scheduled,
                ready: info.ready,
                leased: info.leased,
                dead: info.dead,
                done: info.done,
                cancelled: info.cancelled,
            },
            more_ready: info.more_ready,
            held: info.held,
            rates,
            oldest_ready_ms: info.oldest_ready.map(Time::as_millis),
            waiting_ms: info.oldest_ready.map(|due| self.now.since(due).as_millis() as u64),
            lateness_p50_ms: late(0.5),
            lateness_p99_ms: late(0.99),
            workers: seen.filter(is_known).filter(|_| target.is_none()),
            upcoming: self.counted.as_ref().and_then(|it| it.get(&*info.name).copied()),
            pacing_utilisation: used(info.settings.pacing, info.leased, rates),
            target,
        }
    }

    fn totals(&self, queues: &[QueueOverview], stats: &Stats, samples: &Samples) -> OverviewTotals {
        let now_ms = self.now.as_millis();
        let is_limited = self.caller.access().is_limited();
        let mut jobs = Counts::default();
        for queue in queues {
            jobs.scheduled += queue.jobs.scheduled;
            jobs.ready += queue.jobs.ready;
            jobs.leased += queue.jobs.leased;
            jobs.dead += queue.jobs.dead;
            jobs.done += queue.jobs.done;
            jobs.cancelled += queue.jobs.cancelled;
        }
        let upcoming = self.counted.as_ref().map(|_| {
            let mut sum = Upcoming { at_ms: now_ms, ..Upcoming::default() };
            let known: Vec<_> = queues.iter().filter_map(|queue| queue.upcoming).collect();
            sum.at_ms = known.iter().map(|it| it.at_ms).min().unwrap_or(now_ms);
            for upcoming in &known {
                sum.add(upcoming);
            }
            sum
        });
        let whole = |number: Option<u64>| number.filter(|_| !is_limited);
        OverviewTotals {
            queues: queues.len() as u64,
            paused_queues: queues.iter().filter(|queue| queue.paused).count() as u64,
            jobs,
            held: queues.iter().map(|queue| queue.held).sum(),
            rates: if is_limited { sum_of(queues) } else { samples.total().rates(now_ms) },
            lateness_p50_ms: whole(samples.total().lateness_ms(now_ms, 0.5)),
            lateness_p99_ms: whole(samples.total().lateness_ms(now_ms, 0.99)),
            workers: None,
            upcoming,
            disk_bytes: whole(Some(stats.disk)),
            disk_free_bytes: whole(stats.disk_free),
        }
    }
}

/// Returns the rates of some queues together.
fn sum_of(queues: &[QueueOverview]) -> Option<Rates> {
    let rates = queues.iter().filter_map(|queue| queue.rates);
    rates.reduce(|a, b| Rates {
        put: a.put + b.put,
        delivered: a.delivered + b.delivered,
        acked: a.acked + b.acked,
        failed: a.failed + b.failed,
        died: a.died + b.died,
    })
}

/// Returns how much happens or waits in a queue, to choose those that are shown.
fn weight(queue: &QueueOverview) -> f64 {
    let rate = queue.rates.map_or(0.0, |rates| rates.put + rates.delivered + rates.failed);
    let waits = queue.waiting_ms.unwrap_or_default() as f64 / 1_000.0;
    let pending = (queue.jobs.scheduled + queue.jobs.ready + queue.jobs.leased) as f64;
    rate * 100.0 + waits + pending.ln_1p()
}
