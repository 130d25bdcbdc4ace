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

impl Default for Samples {
    fn default() -> Self {
        Self {
            // The counters of all queues together begin with the server.
            total: Series::of_new_queue(),
            total_recent: Recent::default(),
            tracked: HashMap::new(),
            recent: HashMap::new(),
            last: None,
            count: 0,
            failures: (0, None),
        }
    }
}

impl Samples {
    /// What to ask for in the next sample.
    fn request(&self) -> (Time, Vec<Arc<str>>) {
        (self.last.unwrap_or_default(), self.tracked.keys().cloned().collect())
    }

    /// Takes a sample.
    fn take(&mut self, sample: &Sample) {
        let at_ms = sample.time.as_millis();
        let is_first = self.last.is_none();
        let before_ms = self.last.map_or(at_ms, Time::as_millis);
        self.total.take(at_ms, &sample.total, None);
        self.total_recent.take(at_ms, &sample.total);
        for queue in &sample.queues {
            // Queues that existed before are all in the first sample.
            let is_new = !is_first && !self.recent.contains_key(&queue.name);
            let new = || if is_new { Recent::of_new_queue(before_ms) } else { Recent::default() };
            self.recent.entry(Arc::clone(&queue.name)).or_insert_with(new).take(at_ms, queue);
            self.track(at_ms, queue, is_new);
        }
        let is_there = |name: &Arc<str>| sample.queues.iter().any(|queue| queue.name == *name);
        self.tracked.retain(|name, _| is_there(name));
        self.count += 1;
        if self.count.is_multiple_of(PRUNE_EVERY) {
            self.recent.values_mut().for_each(|recent| recent.prune(at_ms));
        }
        if sample.failures > self.failures.0 {
            self.failures = (sample.failures, Some(sample.time));
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
            // About the score that the queue will have if the rate stays the same for some seconds.
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
    pub(super) fn of_some(&self, window: HistoryWindow, may_see: impl Fn(&str) -> bool) -> History {
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
pub(super) fn utilisation(queue: &QueueSample, rates: Option<crate::api::Rates>) -> Option<f64> {
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

/// Takes a sample. While the store does not answer there is none, and the history has a gap.
pub(crate) async fn take_sample(app: &App) {
    let (since, names) = app.insight().samples().request();
    let sample = app.queues().sample(since, names);
    if let Ok(Ok(sample)) = tokio::time::timeout(PATIENCE, sample).await {
        app.insight().samples().take(&sample);
    }
}

/// Takes a sample each second, as long as the service runs.
pub(crate) async fn keep_sampling(app: App) {
    loop {
        tokio::time::sleep(until_next_second()).await;
        take_sample(&app).await;
    }
}

/// Samples are taken when a second begins, so that each falls into the next one.
fn until_next_second() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Duration::from_millis(1_001 - u64::from(since.subsec_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample in which each of these queues has put this many jobs, and has half of them left.
    fn sample(second: u64, queues: &[(&str, u64)]) -> Sample {
        let mut sample = Sample::default();
        sample.time = Time::from_millis(second * 1_000 + 1);
        for (name, put) in queues {
            let mut queue = QueueSample::default();
            queue.name = Arc::from(*name);
            queue.counters.put = *put;
            queue.scheduled = put / 2;
            sample.total.counters.put += put;
            sample.total.scheduled += put / 2;
            sample.queues.push(queue);
        }
        sample
    }

    fn sum(column: &[Option<u64>]) -> u64 {
        column.iter().flatten().sum()
    }

    const SECONDS: HistoryWindow = HistoryWindow::Minutes15;
    const MINUTES: HistoryWindow = HistoryWindow::Hours24;

    #[test]
    fn both_windows_count_everything_once() {
        let mut samples = Samples::default();
        for second in 0..=600 {
            samples.take(&sample(60_000 + second, &[("mail", second * 7)]));
        }
        for window in [SECONDS, MINUTES] {
            let history = samples.of_queue(window, "mail".into());
            assert_eq!(sum(&history.put), 4_200, "{window:?}");
            assert_eq!(sum(&samples.of_all(window).put), 4_200, "{window:?}");
            assert_eq!(history.scheduled.last(), Some(&Some(2_100)));
            let steps = history.at_ms.windows(2).all(|it| it[1] - it[0] == window.step_ms());
            assert!(steps && history.at_ms.len() == history.put.len());
        }
        let newest = samples.newest().unwrap();
        assert_eq!((newest.put, newest.at_ms), (vec![Some(7)], vec![60_601_000]));
        let other = samples.of_queue(SECONDS, "other".into());
        assert!(!other.tracked && other.at_ms.is_empty());
    }

    #[test]
    fn time_without_a_sample_has_no_data() {
        let mut samples = Samples::default();
        for second in [100, 101, 102, 110, 111] {
            samples.take(&sample(second, &[("mail", second)]));
        }
        let history = samples.of_all(SECONDS);
        assert_eq!(history.put.iter().filter(|it| it.is_none()).count(), 7);
        assert_eq!(history.scheduled.iter().filter(|it| it.is_none()).count(), 7);
        // The jobs of the gap are counted in the first second after it.
        assert_eq!(history.put[10], Some(8));
    }

    #[test]
    fn memory_is_bounded_and_the_busiest_queues_are_kept() {
        let mut samples = Samples::default();
        let names: Vec<String> = (0..200).map(|number| format!("q{number}")).collect();
        // Two thousand seconds; the queues with the highest numbers put most.
        for second in 0..2_000 {
            let queues: Vec<_> =
                names.iter().zip(0..).map(|(name, rank)| (&**name, second * rank)).collect();
            samples.take(&sample(1_000_000 + second, &queues));
        }
        assert_eq!(samples.tracked.len(), MAX_TRACKED);
        assert!(samples.tracked.contains_key("q199") && !samples.tracked.contains_key("q0"));
        let series = samples.tracked.values().chain([&samples.total]);
        let bytes: usize = series.map(Series::bytes).sum();
        assert!(bytes <= 6 << 20, "{bytes}");
        for window in [SECONDS, MINUTES] {
            let points = samples.of_all(window).at_ms.len();
            assert!(points <= window.max_points() && points > 30, "{points}");
        }
        // A queue that is removed has no history.
        samples.take(&sample(1_002_001, &[("q199", 1)]));
        assert_eq!(samples.tracked.len(), 1);
    }

    #[test]
    fn a_restricted_caller_sees_the_sum_of_its_queues() {
        let mut samples = Samples::default();
        for second in 0..10 {
            let queues = [("a-1", second), ("a-2", second * 2), ("b", second * 100)];
            samples.take(&sample(500 + second, &queues));
        }
        let history = samples.of_some(SECONDS, |name| name.starts_with("a-"));
        assert_eq!(sum(&history.put), 27);
        assert_eq!(history.lateness_p99_ms.iter().flatten().count(), 0);
        let newest = samples.newest_of_some(|name| name.starts_with("a-")).unwrap();
        assert_eq!((newest.put, newest.at_ms.len()), (vec![Some(3)], 1));
        assert_eq!(samples.newest_of_some(|_| false), None);
    }

    #[test]
    fn utilisation_is_that_of_the_tighter_limit() {
        let pacing = |starts: Option<u32>, concurrency| tickwheel_queue::Pacing {
            starts: starts.map(|starts| (starts, Duration::from_secs(1))),
            concurrency,
        };
        let rates = Some(crate::api::Rates { delivered: 50.0, ..Default::default() });
        assert_eq!(used(pacing(None, None), 5, rates), None);
        assert_eq!(used(pacing(None, Some(10)), 5, None), Some(0.5));
        assert_eq!(used(pacing(Some(200), Some(10)), 1, rates), Some(0.25));
        assert_eq!(used(pacing(Some(10), None), 1, rates), Some(1.0));
    }
}
