//! One sample a second: fills the histories and the rates.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tickwheel_queue::{QueueSample, Sample, Time};

use super::recent::Recent;
use super::series::{Series, columns};
use crate::api::{History, HistoryWindow};
use crate::app::App;

/// The number of queues that have a history of their own: those in which most happens. With the
/// 119 KiB of each, all histories together take at most 6 MiB.
pub(super) const MAX_TRACKED: usize = 50;
/// Samples between two passes over all queues that forget what is too old.
const PRUNE_EVERY: u64 = 60;
/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Histories and rates of all queues.
#[derive(Default)]
pub(super) struct Samples {
    total: Series,
    total_recent: Recent,
    tracked: HashMap<Arc<str>, Series>,
    recent: HashMap<Arc<str>, Recent>,
    /// When the last sample was taken.
    last: Option<Time>,
    count: u64,
    /// How often the store had failed, and when that number last grew.
    failures: (u64, Option<Time>),
}

impl Samples {
    /// What to ask for in the next sample.
    fn request(&self) -> (Time, Vec<Arc<str>>) {
        (self.last.unwrap_or_default(), self.tracked.keys().cloned().collect())
    }

    /// Takes a sample.
    fn take(&mut self, sample: &Sample, failures: u64) {
        let at_ms = sample.time.as_millis();
        let is_first = self.last.is_none();
        let before_ms = self.last.map_or(at_ms, Time::as_millis);
        self.total.take(at_ms, &sample.total, None);
        self.total_recent.take(at_ms, &sample.total);
        for queue in &sample.queues {
            let recent = self.recent.entry(Arc::clone(&queue.name)).or_insert_with(|| {
                if is_first { Recent::default() } else { Recent::of_new_queue(before_ms) }
            });
            let is_new = !is_first && recent.rates(at_ms).is_none();
            recent.take(at_ms, queue);
            self.track(at_ms, queue, is_new);
        }
        let is_there = |name: &Arc<str>| sample.queues.iter().any(|queue| queue.name == *name);
        self.tracked.retain(|name, _| is_there(name));
        self.count += 1;
        if self.count.is_multiple_of(PRUNE_EVERY) {
            self.recent.values_mut().for_each(|recent| recent.prune(at_ms));
        }
        if failures > self.failures.0 {
            self.failures = (failures, Some(sample.time));
        }
        self.last = Some(sample.time);
    }

    /// Adds a point to the history of a queue, if it has one or gets one.
    fn track(&mut self, at_ms: u64, queue: &QueueSample, is_new: bool) {
        let recent = self.recent.get(&queue.name);
        let pacing = utilisation(queue, recent.and_then(|recent| recent.rates(at_ms)));
        if let Some(series) = self.tracked.get_mut(&queue.name) {
            series.take(at_ms, queue, pacing);
            return;
        }
        if self.tracked.len() >= MAX_TRACKED {
            let rate = recent.and_then(|recent| recent.rates(at_ms));
            // About what its score will be if it goes on like this for some seconds.
            let score = rate.map_or(0.0, |rate| (rate.put + rate.delivered) * 10.0);
            let least = self.tracked.iter().min_by(|a, b| a.1.score.total_cmp(&b.1.score));
            match least.map(|(name, series)| (Arc::clone(name), series.score)) {
                Some((name, least)) if least < score => drop(self.tracked.remove(&name)),
                _ => return,
            }
        }
        let mut series = if is_new { Series::of_new_queue() } else { Series::default() };
        series.take(at_ms, queue, pacing);
        self.tracked.insert(Arc::clone(&queue.name), series);
    }

    pub(super) fn recent(&self, queue: &str) -> Option<&Recent> {
        self.recent.get(queue)
    }

    pub(super) fn total(&self) -> &Recent {
        &self.total_recent
    }

    /// When the store failed last, as far as samples show.
    pub(super) fn last_failure(&self) -> Option<Time> {
        self.failures.1
    }

    pub(super) fn of_all(&self, window: HistoryWindow) -> History {
        columns(window, None, true, self.total.points(window))
    }

    /// The newest second of all queues together.
    pub(super) fn newest(&self) -> Option<History> {
        let window = HistoryWindow::Minutes15;
        let point = self.total.points(window).next_back()?;
        Some(columns(window, None, true, [point]))
    }

    /// The newest second of the tracked queues that the caller may see.
    pub(super) fn newest_of_some(&self, may_see: impl Fn(&str) -> bool) -> Option<History> {
        let mut history = self.of_some(HistoryWindow::Minutes15, may_see);
        let last = history.at_ms.len().checked_sub(1)?;
        history.at_ms.drain(..last);
        for column in [
            &mut history.put,
            &mut history.delivered,
            &mut history.acked,
            &mut history.failed,
            &mut history.died,
            &mut history.lateness_p50_ms,
            &mut history.lateness_p99_ms,
            &mut history.lateness_max_ms,
            &mut history.scheduled,
            &mut history.ready,
            &mut history.leased,
            &mut history.dead,
        ] {
            column.drain(..last);
        }
        history.pacing_utilisation.drain(..last);
        Some(history)
    }

    /// The sum of all tracked queues that the caller may see.
    pub(super) fn of_some(
        &self,
        window: HistoryWindow,
        may_see: impl Fn(&str) -> bool,
    ) -> History {
        let mut sum = std::collections::BTreeMap::new();
        let seen = self.tracked.iter().filter(|(name, _)| may_see(name));
        for (at_ms, point) in seen.flat_map(|(_, series)| series.points(window)) {
            sum.entry(at_ms).or_insert(super::series::Point::MISSING).add(&point);
        }
        columns(window, None, true, sum)
    }

    pub(super) fn of_queue(&self, window: HistoryWindow, queue: String) -> History {
        match self.tracked.get(&*queue) {
            Some(series) => columns(window, Some(queue), true, series.points(window)),
            None => columns(window, Some(queue), false, []),
        }
    }
}

/// Returns the share of a queue's limits that is used; `None` without a limit.
pub(super) fn utilisation(
    queue: &QueueSample,
    rates: Option<crate::api::Rates>,
) -> Option<f64> {
    used(queue.pacing, queue.leased, rates)
}

/// Returns the share of limits that is used, given the leased jobs and the deliveries in a second.
pub(super) fn used(
    pacing: tickwheel_queue::Pacing,
    leased: u64,
    rates: Option<crate::api::Rates>,
) -> Option<f64> {
    let at_once = pacing.concurrency.map(|limit| leased as f64 / f64::from(limit.max(1)));
    let starts = pacing.starts.zip(rates).map(|((starts, window), rates)| {
        rates.delivered * window.as_secs_f64() / f64::from(starts.max(1))
    });
    let used = [at_once, starts].into_iter().flatten().reduce(f64::max)?;
    Some(used.min(1.0))
}

/// Takes a sample each second, as long as the service runs.
pub(crate) async fn keep_sampling(app: App) {
    loop {
        let (since, names) = app.insight().samples().request();
        let sample = tokio::time::timeout(PATIENCE, async {
            let failures = app.queues().stats().await?.failures;
            Ok::<_, tickwheel_queue::Error>((app.queues().sample(since, names).await?, failures))
        });
        // While the store does not answer, the history has a gap.
        if let Ok(Ok((sample, failures))) = sample.await {
            app.insight().samples().take(&sample, failures);
        }
        tokio::time::sleep(until_next_second()).await;
    }
}

/// Samples are taken when a second begins, so that each falls into the next one.
fn until_next_second() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Duration::from_millis(1_001 - u64::from(since.subsec_millis()))
}
