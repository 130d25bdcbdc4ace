//! Metrics in the text format of Prometheus.
//!
//! The queue counts its operations; this module counts those of HTTP.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use tickwheel::Histogram;
use tickwheel_cluster::PartitionStatus;
use tickwheel_queue::{QueueCounters, QueueInfo, Stats, Time};

use crate::api::{ClusterPartition, Target, TargetCounts, TargetState};
use crate::app::App;
use crate::problem::Failure;

/// The upper bounds of the buckets that are shown, in seconds.
const BOUNDS: [f64; 24] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0,
    3.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 300.0, 3_600.0,
];

/// The number of queues that have metrics of their own: those with the most puts. This bounds the
/// size of the page.
const MAX_QUEUES: usize = 200;

/// The counters of HTTP. Requests to unknown paths are counted together.
pub(crate) struct HttpCounts {
    routes: HashMap<String, RouteCounts>,
    elsewhere: RouteCounts,
    in_flight: AtomicU64,
    connections: AtomicU64,
    refused_connections: AtomicU64,
    streams: AtomicU64,
}

#[derive(Default)]
struct RouteCounts {
    /// By the first digit of the status.
    answers: [AtomicU64; 6],
    nanos: AtomicU64,
}

/// Decrements a counter when it is dropped.
pub(crate) struct OneLess<'a>(&'a AtomicU64);

impl Drop for OneLess<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HttpCounts {
    pub(crate) fn new(routes: Vec<String>) -> Self {
        Self {
            routes: routes.into_iter().map(|route| (route, RouteCounts::default())).collect(),
            elsewhere: RouteCounts::default(),
            in_flight: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            refused_connections: AtomicU64::new(0),
            streams: AtomicU64::new(0),
        }
    }

    /// Counts a request until the returned value is dropped.
    pub(crate) fn begin(&self) -> OneLess<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        OneLess(&self.in_flight)
    }

    /// Counts a connection until the returned value is dropped.
    pub(crate) fn connect(&self) -> OneLess<'_> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        OneLess(&self.connections)
    }

    /// Counts a refused connection.
    pub(crate) fn refuse(&self) {
        self.refused_connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the start of an event stream.
    pub(crate) fn stream_began(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of an event stream.
    pub(crate) fn stream_ended(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts an answer.
    pub(crate) fn end(&self, route: &str, status: StatusCode, took: Duration) {
        let counts = self.routes.get(route).unwrap_or(&self.elsewhere);
        let class = usize::from(status.as_u16() / 100).min(5);
        counts.answers[class].fetch_add(1, Ordering::Relaxed);
        counts.nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// The numbers of the service, for a client that may see these queues.
pub(crate) async fn stats(app: &App, seen: &[QueueInfo]) -> Result<Stats, Failure> {
    let mut stats = app.queues().stats().await?;
    stats.queues = seen.len() as u64;
    stats.leased = seen.iter().map(|queue| queue.leased).sum();
    stats.pending = seen.iter().map(|queue| queue.scheduled + queue.ready + queue.leased).sum();
    Ok(stats)
}

/// Returns all metrics.
pub(crate) fn text(
    stats: &Stats,
    queues: &[QueueInfo],
    now: Time,
    http: &HttpCounts,
    memory: usize,
    targets: &[Target],
) -> String {
    let mut page = Page(String::with_capacity(16 << 10));
    of_queues(&mut page, queues, now);
    of_the_queue(&mut page, stats);
    of_http(&mut page, http);
    of_targets(&mut page, targets);
    of_memory(&mut page, memory);
    page.0
}

fn of_memory(page: &mut Page, memory: usize) {
    page.gauge(
        "tickwheel_http_memory_bytes",
        "Bytes of request bodies and answers in flight",
        memory as u64,
    );
}

/// Returns the metrics of a node's requests, which are not those of its partitions.
pub(crate) fn text_of_node(http: &HttpCounts, memory: usize) -> String {
    let mut page = Page(String::new());
    of_http(&mut page, http);
    of_memory(&mut page, memory);
    page.0
}

/// The name with which the metrics of requests begin.
const HTTP: &str = "tickwheel_http_";
/// Metrics that are the same everywhere, and are not added.
const SAME: [&str; 1] = ["tickwheel_horizon_seconds"];

/// Merges the metrics of all partitions. Equal series are added. The metrics of requests are those of
/// this node, if the caller may see them.
pub(crate) fn merged<'a>(texts: impl Iterator<Item = &'a str>, own: &str) -> String {
    let mut families: Vec<Family> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut shows_http = false;
    for text in texts {
        let mut family = None;
        let mut help = "";
        for line in text.lines() {
            if line.starts_with("# HELP ") {
                help = line;
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let name = rest.split(' ').next().unwrap_or_default();
                let is_http = name.starts_with(HTTP);
                shows_http |= is_http;
                family = (!is_http).then(|| {
                    *places.entry(name.to_owned()).or_insert_with(|| {
                        families.push(Family::new(name, help, line));
                        families.len() - 1
                    })
                });
            } else if let Some(family) = family {
                families[family].add(line);
            }
        }
    }
    let mut page: String = families.into_iter().map(Family::text).collect();
    if shows_http {
        page.push_str(own);
    }
    page
}

/// The series of one metric.
struct Family {
    head: String,
    is_same: bool,
    series: Vec<(String, f64)>,
    places: HashMap<String, usize>,
}

impl Family {
    fn new(name: &str, help: &str, kind: &str) -> Self {
        let head = format!("{help}\n{kind}\n");
        Self { head, is_same: SAME.contains(&name), series: Vec::new(), places: HashMap::new() }
    }

    fn add(&mut self, line: &str) {
        let Some((series, value)) = line.rsplit_once(' ') else { return };
        let Ok(value) = value.parse::<f64>() else { return };
        match self.places.get(series) {
            Some(_) if self.is_same => {}
            Some(place) => self.series[*place].1 += value,
            None => {
                self.places.insert(series.to_owned(), self.series.len());
                self.series.push((series.to_owned(), value));
            }
        }
    }

    fn text(self) -> String {
        let mut text = self.head;
        for (series, value) in self.series {
            let _ = writeln!(text, "{series} {value}");
        }
        text
    }
}

/// Adds the metrics of a partition, which its owner knows.
pub(crate) fn add_partition(text: &mut String, number: u32, node: &str, of: &PartitionStatus) {
    let mut page = Page(std::mem::take(text));
    let (by, tip, counters) = (format!("partition=\"{number}\""), &of.tip, of.counters);
    let mut one = |name: &str, kind: &str, help: &str, labels: &str, value: f64| {
        let name = format!("tickwheel_partition_{name}");
        page.head(&name, kind, help);
        page.labelled(&name, labels, value);
    };
    let owner = format!("{by},node=\"{node}\"");
    one("owner", "gauge", "The owner of a partition: 1 for the node that is it", &owner, 1.0);
    let numbers = [
        ("epoch", "gauge", "The epoch of a partition, which each takeover increments", tip.epoch),
        ("generation", "gauge", "The generation of a partition's log", tip.generation),
        ("position", "gauge", "The last position of a partition's log", tip.position.0),
        ("appends_total", "counter", "Records appended to a partition's log", counters.appends),
        ("repeated_appends_total", "counter", "Appends that were repeated", counters.repeated),
    ];
    for (name, kind, help, value) in numbers {
        one(name, kind, help, &by, value as f64);
    }
    let seconds = Duration::from_micros(counters.append_micros).as_secs_f64();
    let help = "Time that appends to a partition's log took together";
    one("append_seconds_total", "counter", help, &by, seconds);
    *text = page.0;
}

/// Adds how far the replicas of a partition are behind its log.
pub(crate) fn add_lag(text: &mut String, partition: &ClusterPartition) {
    let mut page = Page(std::mem::take(text));
    let name = "tickwheel_partition_lag";
    page.head(name, "gauge", "Records that a replica of a partition is behind");
    for replica in &partition.replicas {
        let labels = format!("partition=\"{}\",node=\"{}\"", partition.partition, replica.node);
        page.labelled(name, &labels, replica.lag);
    }
    *text = page.0;
}

/// Returns the metrics of some queues only.
pub(crate) fn text_of_queues(queues: &[QueueInfo], now: Time) -> String {
    let mut page = Page(String::new());
    of_queues(&mut page, queues, now);
    page.0
}

/// Returns the queues with the most puts, by name. The number of puts only grows, so the choice
/// changes rarely.
fn busiest(queues: &[QueueInfo]) -> Vec<&QueueInfo> {
    let mut busiest: Vec<&QueueInfo> = queues.iter().collect();
    busiest.sort_by_key(|queue| std::cmp::Reverse(queue.counters.put));
    busiest.truncate(MAX_QUEUES);
    busiest.sort_by(|a, b| a.name.cmp(&b.name));
    busiest
}

fn of_queues(page: &mut Page, all: &[QueueInfo], now: Time) {
    let queues = &busiest(all);
    page.gauge(
        "tickwheel_queues_without_metrics",
        "Queues that have no metrics of their own, since there are too many",
        (all.len() - queues.len()) as u64,
    );
    counters_of_queues(page, queues);
    page.head(
        "tickwheel_queue_oldest_ready_age_seconds",
        "gauge",
        "How long the oldest ready job of a queue has been due; 0 if none is ready",
    );
    for queue in queues {
        let age = queue.oldest_ready.map_or(0.0, |due| now.since(due).as_secs_f64());
        let labels = format!("queue=\"{}\"", queue.name);
        page.labelled("tickwheel_queue_oldest_ready_age_seconds", &labels, age);
    }
    lateness_of_queues(page, queues);
    page.head("tickwheel_queue_jobs", "gauge", "Jobs of a queue by state");
    for queue in queues {
        for (state, count) in [
            ("scheduled", queue.scheduled),
            ("ready", queue.ready),
            ("leased", queue.leased),
            ("dead", queue.dead),
            ("done", queue.done),
            ("cancelled", queue.cancelled),
        ] {
            let labels = format!("queue=\"{}\",state=\"{state}\"", queue.name);
            page.labelled("tickwheel_queue_jobs", &labels, count);
        }
    }
    page.head("tickwheel_queue_paused", "gauge", "Whether deliveries of a queue are held back");
    for queue in queues {
        let labels = format!("queue=\"{}\"", queue.name);
        page.labelled("tickwheel_queue_paused", &labels, u64::from(queue.paused));
    }
}

fn counters_of_queues(page: &mut Page, queues: &[&QueueInfo]) {
    type Counter = (&'static str, &'static str, fn(&QueueCounters) -> u64);
    let counters: [Counter; 9] = [
        ("jobs_put", "Jobs put", |it| it.put),
        ("jobs_delivered", "Deliveries to workers", |it| it.delivered),
        ("jobs_acked", "Jobs acknowledged", |it| it.acked),
        ("jobs_failed", "Attempts reported as failed", |it| it.failed),
        ("leases_expired", "Leases that expired", |it| it.expired),
        ("jobs_released", "Jobs given back by workers", |it| it.released),
        ("jobs_died", "Jobs whose last attempt failed", |it| it.died),
        ("jobs_cancelled", "Jobs cancelled or replaced", |it| it.cancelled),
        ("jobs_kicked", "Dead jobs brought back", |it| it.kicked),
    ];
    for (what, help, count) in counters {
        let name = format!("tickwheel_queue_{what}_total");
        page.head(&name, "counter", &format!("{help}, by queue, since it was created"));
        for queue in queues {
            let labels = format!("queue=\"{}\"", queue.name);
            page.labelled(&name, &labels, count(&queue.counters));
        }
    }
}

fn lateness_of_queues(page: &mut Page, queues: &[&QueueInfo]) {
    let name = "tickwheel_queue_delivery_lateness_seconds";
    page.head(name, "histogram", "By how much jobs of a queue were delivered after they were due");
    for queue in queues.iter().filter(|queue| queue.lateness.count() > 0) {
        let mut total = 0;
        for (bound, count) in queue.lateness.buckets() {
            total += count;
            let bound = bound.map_or("+Inf".to_owned(), |it| it.as_secs_f64().to_string());
            let labels = format!("queue=\"{}\",le=\"{bound}\"", queue.name);
            page.labelled(&format!("{name}_bucket"), &labels, total);
        }
        let labels = format!("queue=\"{}\"", queue.name);
        page.labelled(&format!("{name}_sum"), &labels, queue.lateness.sum().as_secs_f64());
        page.labelled(&format!("{name}_count"), &labels, total);
    }
}

fn of_the_queue(page: &mut Page, stats: &Stats) {
    page.counter("tickwheel_jobs_put_total", "Jobs put", stats.put);
    page.counter("tickwheel_jobs_delivered_total", "Deliveries to workers", stats.delivered);
    page.counter("tickwheel_jobs_acked_total", "Jobs acknowledged", stats.acked);
    page.counter("tickwheel_jobs_failed_total", "Attempts reported as failed", stats.failed);
    page.counter("tickwheel_leases_expired_total", "Leases that ran out", stats.expired);
    page.counter("tickwheel_jobs_released_total", "Jobs given back by workers", stats.released);
    page.counter("tickwheel_jobs_died_total", "Jobs whose last attempt failed", stats.died);
    page.counter("tickwheel_jobs_cancelled_total", "Jobs cancelled or replaced", stats.cancelled);
    page.counter("tickwheel_jobs_kicked_total", "Dead jobs brought back", stats.kicked);
    page.counter("tickwheel_schedules_fired_total", "Jobs put by schedules", stats.fired);
    page.counter("tickwheel_commits_total", "Groups of commands committed", stats.commits);
    page.counter("tickwheel_store_failures_total", "Failures of the store", stats.failures);
    page.counter("tickwheel_damaged_total", "Rows and jobs that could not be read", stats.damaged);
    page.gauge("tickwheel_queues", "Queues", stats.queues);
    page.gauge("tickwheel_schedules", "Schedules", stats.schedules);
    page.gauge("tickwheel_jobs_pending", "Jobs scheduled, ready or leased", stats.pending);
    page.gauge("tickwheel_jobs_leased", "Jobs leased", stats.leased);
    page.gauge("tickwheel_jobs_in_memory", "Jobs and leases in memory", stats.in_memory);
    page.gauge("tickwheel_disk_bytes", "Bytes on disk", stats.disk);
    page.head("tickwheel_horizon_seconds", "gauge", "How far ahead jobs are kept in memory");
    page.line("tickwheel_horizon_seconds", stats.horizon.as_secs_f64());
    page.histogram(
        "tickwheel_delivery_lateness_seconds",
        "By how much jobs were delivered after they were due",
        &stats.lateness,
    );
    page.histogram(
        "tickwheel_commit_seconds",
        "How long commits took, the sync included",
        &stats.commit_time,
    );
}

fn of_http(page: &mut Page, http: &HttpCounts) {
    let mut routes: Vec<_> =
        http.routes.iter().map(|(route, counts)| (&route[..], counts)).collect();
    routes.push(("other", &http.elsewhere));
    routes.sort_by_key(|(route, _)| *route);
    page.head("tickwheel_http_requests_total", "counter", "Requests by route and class of status");
    for (route, counts) in &routes {
        for (class, count) in counts.answers.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                let labels = format!("route=\"{route}\",status=\"{class}xx\"");
                page.labelled("tickwheel_http_requests_total", &labels, count);
            }
        }
    }
    page.head("tickwheel_http_request_seconds", "summary", "How long answers took by route");
    for (route, counts) in &routes {
        let count: u64 = counts.answers.iter().map(|it| it.load(Ordering::Relaxed)).sum();
        if count > 0 {
            let labels = format!("route=\"{route}\"");
            let seconds = Duration::from_nanos(counts.nanos.load(Ordering::Relaxed)).as_secs_f64();
            page.labelled("tickwheel_http_request_seconds_sum", &labels, seconds);
            page.labelled("tickwheel_http_request_seconds_count", &labels, count);
        }
    }
    let now = |number: &AtomicU64| number.load(Ordering::Relaxed);
    page.gauge(
        "tickwheel_http_requests_in_flight",
        "Requests being answered",
        now(&http.in_flight),
    );
    page.gauge("tickwheel_http_connections", "Connections", now(&http.connections));
    page.gauge("tickwheel_http_event_streams", "Streams of events", now(&http.streams));
    page.counter(
        "tickwheel_http_connections_refused_total",
        "Connections over the limit",
        now(&http.refused_connections),
    );
}

fn of_targets(page: &mut Page, targets: &[Target]) {
    page.head("tickwheel_target_requests_total", "counter", "Requests to push targets by outcome");
    for target in targets {
        let TargetCounts { delivered, failed, held } = target.counts;
        for (outcome, count) in [("delivered", delivered), ("failed", failed), ("held", held)] {
            let labels = format!("target=\"{}\",outcome=\"{outcome}\"", target.name);
            page.labelled("tickwheel_target_requests_total", &labels, count);
        }
    }
    page.head(
        "tickwheel_target_state",
        "gauge",
        "The state of a push target: 1 for the present one",
    );
    for target in targets {
        for state in TargetState::ALL {
            let labels = format!("target=\"{}\",state=\"{}\"", target.name, state.as_str());
            page.labelled("tickwheel_target_state", &labels, u64::from(target.state == state));
        }
    }
    page.head("tickwheel_target_in_flight", "gauge", "Requests to push targets without an answer");
    for target in targets {
        let labels = format!("target=\"{}\"", target.name);
        page.labelled("tickwheel_target_in_flight", &labels, target.in_flight);
    }
    let help = "Seconds until a held push target is probed";
    page.head("tickwheel_target_next_probe_seconds", "gauge", help);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    for target in targets {
        if let Some(probe) = target.next_probe_ms {
            let labels = format!("target=\"{}\"", target.name);
            let wait = Duration::from_millis(probe).saturating_sub(now);
            page.labelled("tickwheel_target_next_probe_seconds", &labels, wait.as_secs_f64());
        }
    }
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name} {value}");
    }

    /// Labels need no escaping: names of queues and routes have no quotes, backslashes or line
    /// ends.
    fn labelled(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{{{labels}}} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "counter", help);
        self.line(name, value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "gauge", help);
        self.line(name, value);
    }

    /// Writes a histogram with fewer buckets. A value between two bounds counts with the upper one;
    /// the sum is that of the finer buckets, exact to an eighth.
    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let mut counts = [0; BOUNDS.len()];
        let mut sum = 0.0;
        for (upper, count) in histogram.buckets() {
            let seconds = upper.min(histogram.max()).as_secs_f64();
            sum += seconds * count as f64;
            if let Some(place) = BOUNDS.iter().position(|bound| seconds <= *bound) {
                counts[place] += count;
            }
        }
        let mut total = 0;
        for (bound, count) in BOUNDS.iter().zip(counts) {
            total += count;
            self.labelled(&format!("{name}_bucket"), &format!("le=\"{bound}\""), total);
        }
        self.labelled(&format!("{name}_bucket"), "le=\"+Inf\"", histogram.count());
        self.line(&format!("{name}_sum"), sum);
        self.line(&format!("{name}_count"), histogram.count());
    }
}

#[cfg(test)]
mod tests {
    use tickwheel_queue::{NewJob, Queues};

    use super::*;

    #[test]
    fn ten_thousand_queues_make_a_page_of_bounded_size() {
        let queues = Queues::in_memory();
        let puts = (0..10_000).map(|number| NewJob::new(format!("queue-{number}"), ""));
        queues.put_all(puts).wait().unwrap();
        queues.put(NewJob::new("queue-9999", "")).wait().unwrap();
        let page = text_of_queues(&queues.queues().wait().unwrap(), Time::MAX);
        assert!(page.len() < 1 << 20, "{} bytes", page.len());
        assert!(page.contains("tickwheel_queues_without_metrics 9800\n"));
        assert!(page.contains("tickwheel_queue_jobs_put_total{queue=\"queue-9999\"} 2\n"));
    }

    #[test]
    fn metrics_of_partitions_are_added() {
        let one = "# HELP a x\n# TYPE a counter\na{q=\"1\"} 2\n# HELP tickwheel_horizon_seconds x\n\
                   # TYPE tickwheel_horizon_seconds gauge\ntickwheel_horizon_seconds 300\n";
        let two = "# HELP tickwheel_http_x x\n# TYPE tickwheel_http_x counter\ntickwheel_http_x 9\n\
                   # HELP a x\n# TYPE a counter\na{q=\"1\"} 3\na{q=\"2\"} 0.5\n\
                   # HELP tickwheel_horizon_seconds x\n# TYPE tickwheel_horizon_seconds gauge\n\
                   tickwheel_horizon_seconds 300\n";
        let sum = merged([one, two].into_iter(), "own 1\n");
        assert_eq!(
            sum,
            "# HELP a x\n# TYPE a counter\na{q=\"1\"} 5\na{q=\"2\"} 0.5\n\
             # HELP tickwheel_horizon_seconds x\n# TYPE tickwheel_horizon_seconds gauge\n\
             tickwheel_horizon_seconds 300\nown 1\n"
        );
        assert!(!merged([one].into_iter(), "own 1\n").contains("own"));
    }

    #[test]
    fn a_histogram_is_cumulative() {
        let mut histogram = Histogram::default();
        for millis in [1, 1, 40, 2_000, 10_000_000] {
            histogram.record(Duration::from_millis(millis));
        }
        let mut page = Page(String::new());
        page.histogram("h", "help", &histogram);
        let value = |line: &str| {
            let start = format!("{line} ");
            page.0
                .lines()
                .find_map(|it| it.strip_prefix(&start))
                .map(|it| it.parse::<f64>().unwrap())
        };
        assert_eq!(value("h_bucket{le=\"0.0005\"}"), Some(0.0));
        assert_eq!(value("h_bucket{le=\"0.0025\"}"), Some(2.0));
        assert_eq!(value("h_bucket{le=\"0.05\"}"), Some(3.0));
        assert_eq!(value("h_bucket{le=\"3600\"}"), Some(4.0));
        assert_eq!(value("h_bucket{le=\"+Inf\"}"), Some(5.0));
        assert_eq!(value("h_count"), Some(5.0));
        let sum = value("h_sum").unwrap();
        assert!((10_002.0..11_300.0).contains(&sum), "{sum}");
    }
}
