//! Which partitions a request concerns.
//!
//! The name of a queue determines the partition of everything in the queue. The bucket in a job's
//! id determines the partition of the job, unless a caller chose the id: a job that is not there is
//! looked for in all others. A schedule is looked for in all partitions. The parameter `queue`
//! names the partition instead. Answers about all queues are merged.

use axum::http::Method;
use tickwheel_cluster::{Bucket, Layout};
use tickwheel_queue::JobId;

use super::merge::Merge;
use crate::api::Code;
use crate::problem::Failure;
use crate::query;

/// The partitions that answer a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// One partition.
    One(u32),
    /// One partition, which gets the query without the parameter that named it.
    OneWithout(u32, &'static str),
    /// Any partition: the answer is the same everywhere, or a page that asks the others itself.
    Any,
    /// The first of all partitions that is ready.
    Ready,
    /// The partition that has what is asked for. This one is asked first.
    Search(u32),
    /// All partitions; their answers are merged.
    All(Merge),
    /// A stream of all partitions.
    Stream(Stream),
    /// The partitions of the items of a batch.
    Batch(Items),
    /// The partition of the queue that a job is put into. A target in the body changes that queue.
    Put(String),
    /// The partition of the queue of a new schedule.
    Schedule,
    /// The partition of the queue that a form of the dashboard names.
    Form,
}

/// The streams of all partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Events,
    TargetEvents,
    Live,
}

/// The items of a batch, by what determines their partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Items {
    /// Puts: the queue.
    Puts,
    /// Imports: the queue.
    Imports,
    /// Changes of jobs: the bucket in the id.
    Ids,
}

/// Returns the partition of a queue.
pub(super) fn of_queue(layout: &Layout, queue: &str) -> u32 {
    layout.partition_of(Bucket::of_queue(queue))
}

/// Returns the partition of a job whose id a node has generated.
pub(super) fn of_job(layout: &Layout, id: JobId) -> u32 {
    layout.partition_of(Bucket::of_job(id))
}

/// Returns the partition that a target belongs to: that of a queue with its name.
pub(super) fn of_target(layout: &Layout, target: &str) -> u32 {
    of_queue(layout, target)
}

/// Returns the partitions that answer a request.
pub(super) fn route(
    layout: &Layout,
    method: &Method,
    path: &str,
    query: &str,
) -> Result<Route, Failure> {
    let segments: Vec<String> = path.split('/').skip(1).map(decoded).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let queue = |name: &str| Route::One(of_queue(layout, name));
    let named = || parameter(query, "queue");
    let job = |id: &str| match named() {
        Some(name) => Route::OneWithout(of_queue(layout, &name), "queue"),
        // An invalid id is refused by any partition.
        None => id.parse().map_or(Route::Any, |id| Route::Search(of_job(layout, id))),
    };
    let schedule = || match named() {
        Some(name) => Route::OneWithout(of_queue(layout, &name), "queue"),
        None => Route::Search(0),
    };
    Ok(match &segments[..] {
        ["v1", rest @ ..] => match rest {
            ["queues"] => Route::All(Merge::Queues),
            ["queues", name, "jobs"] if method == Method::POST => Route::Put((*name).to_owned()),
            ["queues", name, ..] => queue(name),
            ["jobs", "batch"] => Route::Batch(Items::Puts),
            ["jobs", "batch", "import"] => Route::Batch(Items::Imports),
            ["jobs", "batch", ..] => Route::Batch(Items::Ids),
            ["jobs", id, ..] => job(id),
            ["ids", _] => Route::All(Merge::Ids),
            ["errors"] => Route::All(Merge::Errors),
            ["schedules"] => Route::All(Merge::Schedules),
            ["schedules", _] if method == Method::PUT => Route::Schedule,
            ["schedules", ..] => schedule(),
            ["targets"] => Route::All(Merge::Targets),
            ["targets", name, ..] => Route::One(of_target(layout, name)),
            ["events"] => Route::Stream(Stream::Events),
            ["target-events"] => Route::Stream(Stream::TargetEvents),
            ["live"] => Route::Stream(Stream::Live),
            ["overview"] => Route::All(Merge::Overview),
            ["wheel"] => Route::All(Merge::Wheel),
            ["stats"] => Route::All(Merge::Stats),
            ["history"] => match named() {
                Some(name) => queue(&name),
                None => Route::All(Merge::History),
            },
            ["backup"] => Route::One(of_backup(layout, query)?),
            _ => Route::Any,
        },
        ["metrics"] => Route::All(Merge::Metrics),
        ["readyz"] => Route::Ready,
        // The dashboard.
        ["page", "live"] => Route::Stream(Stream::Live),
        ["page", "wheel"] => Route::All(Merge::Wheel),
        ["page", "history"] => match named() {
            Some(name) => queue(&name),
            None => Route::All(Merge::History),
        },
        ["queues", name, ..] => queue(name),
        ["jobs", "bulk", ..] | ["schedules", "check"] => Route::Any,
        ["jobs", id, ..] => id.parse().map_or(Route::Any, |id| Route::Search(of_job(layout, id))),
        ["put" | "schedules"] if method == Method::POST => Route::Form,
        ["schedules", _, ..] => Route::Search(0),
        ["targets", name, ..] => Route::One(of_target(layout, name)),
        _ => Route::Any,
    })
}

/// Returns the partition that a request for a backup names.
fn of_backup(layout: &Layout, query: &str) -> Result<u32, Failure> {
    let most = layout.partitions() - 1;
    let Some(number) = parameter(query, "partition") else {
        let why = format!(
            "a backup is that of one partition: name it, from 0 to {most}, or use `tickwheel backup`, \
             which makes a backup of each"
        );
        return Err(query::invalid("partition", why));
    };
    let number = number.parse().ok().filter(|number| *number <= most);
    number.ok_or_else(|| {
        Failure::new(Code::NotFound, format!("partitions have the numbers 0 to {most}"))
    })
}

/// Returns the first value of a parameter of a query.
pub(super) fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Returns a query without a parameter.
pub(super) fn without(query: &str, name: &str) -> String {
    let is_kept = |pair: &&str| {
        form_urlencoded::parse(pair.as_bytes()).next().is_none_or(|(key, _)| key != name)
    };
    query.split('&').filter(is_kept).collect::<Vec<_>>().join("&")
}

/// Returns a segment of a path without its percent encoding.
fn decoded(segment: &str) -> String {
    let bytes = segment.as_bytes();
    let mut text = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = segment.get(at + 1..at + 3).filter(|_| byte == b'%');
        let escaped = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        text.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::even(4).unwrap()
    }

    fn get(address: &str) -> Route {
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        route(&layout(), &Method::GET, path, query).unwrap()
    }

    #[test]
    fn everything_of_a_queue_goes_to_its_partition() {
        // Buckets 954, 2,696 and 3,692 of 4,096.
        for (name, partition) in [("mail", 0), ("orders", 2), ("a", 3)] {
            for rest in ["", "/jobs", "/keys/k", "/reserve", "/events", "/settings", "/groups/g"] {
                assert_eq!(get(&format!("/v1/queues/{name}{rest}")), Route::One(partition));
            }
            assert_eq!(get(&format!("/queues/{name}/confirm")), Route::One(partition));
            assert_eq!(get(&format!("/v1/history?queue={name}")), Route::One(partition));
        }
        assert_eq!(get("/v1/queues/ord%65rs"), Route::One(2));
        let put = route(&layout(), &Method::POST, "/v1/queues/a/jobs", "").unwrap();
        assert_eq!(put, Route::Put("a".into()));
    }

    #[test]
    fn a_job_is_looked_for_where_its_bucket_is() {
        // The bucket is 0xaaa.
        let id = "0190163d-8694-739b-aaa8-966c26f8ad91";
        let wanted = Route::Search(of_job(&layout(), id.parse().unwrap()));
        for rest in ["", "/ack", "/reschedule"] {
            assert_eq!(get(&format!("/v1/jobs/{id}{rest}")), wanted);
        }
        assert_eq!(get(&format!("/jobs/{id}")), wanted);
        assert_eq!(get(&format!("/v1/jobs/{id}?queue=a")), Route::OneWithout(3, "queue"));
        assert_eq!(get("/v1/jobs/nonsense"), Route::Any);
        assert_eq!(get("/jobs"), Route::Any);
    }

    #[test]
    fn what_is_about_all_queues_is_merged() {
        assert_eq!(get("/v1/queues"), Route::All(Merge::Queues));
        assert_eq!(get("/v1/stats?since=5m"), Route::All(Merge::Stats));
        assert_eq!(get("/metrics"), Route::All(Merge::Metrics));
        assert_eq!(get("/v1/history?window=24h"), Route::All(Merge::History));
        assert_eq!(get("/v1/events"), Route::Stream(Stream::Events));
        assert_eq!(get("/page/live"), Route::Stream(Stream::Live));
        assert_eq!(get("/v1/schedules/s/next"), Route::Search(0));
        assert_eq!(get("/v1/schedules/s?queue=orders"), Route::OneWithout(2, "queue"));
        for path in ["/", "/docs", "/openapi.json", "/problems/full", "/v1/clock", "/nothing"] {
            assert_eq!(get(path), Route::Any, "{path}");
        }
    }

    #[test]
    fn a_backup_names_its_partition() {
        assert_eq!(get("/v1/backup?partition=3"), Route::One(3));
        for query in ["", "partition=4", "partition=x"] {
            assert!(route(&layout(), &Method::GET, "/v1/backup", query).is_err(), "{query}");
        }
    }

    #[test]
    fn a_parameter_is_taken_out_of_a_query() {
        assert_eq!(without("a=1&queue=x&b=2", "queue"), "a=1&b=2");
        assert_eq!(without("queue=x", "queue"), "");
        assert_eq!(without("queued=x", "queue"), "queued=x");
    }
}
