//! Which request is due when, and what it carries.

use std::time::Duration;

use tickwheel_api::{Batch, Delay, PutRequest};

use crate::args::{BenchArgs, BenchMode};
use crate::client::Path;
use crate::failure::Failure;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3_600);
/// Requests that one run can have: histograms and numbers of jobs bear it.
const MAX_JOBS: u64 = 1_000_000_000;

/// A load that is to be put on a server.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) queue: String,
    pub(super) is_end_to_end: bool,
    pub(super) delay: Delay,
    pub(super) connections: u16,
    pub(super) workers: u16,
    /// Requests, of `batch` jobs each.
    pub(super) requests: u64,
    pub(super) batch: u32,
    rate: u32,
    payload_bytes: usize,
}

impl Plan {
    pub(super) fn new(args: &BenchArgs, queue: String) -> Result<Self, Failure> {
        let duration = args.duration.0;
        if !(SHORTEST..=LONGEST).contains(&duration) {
            let told = args.duration;
            let why = format!("--duration must be between 100ms and 1h, got {told}");
            return Err(Failure::Usage(why));
        }
        let is_end_to_end = args.mode == BenchMode::EndToEnd;
        let usual = Delay::from_millis(if is_end_to_end { 1_000 } else { 3_600_000 });
        let jobs = (duration.as_secs_f64() * f64::from(args.rate)).ceil();
        let requests = (jobs / f64::from(args.batch)).ceil().max(1.0);
        #[allow(clippy::cast_sign_loss, reason = "a product of positive numbers")]
        let requests = requests as u64;
        if requests * u64::from(args.batch) > MAX_JOBS {
            let why =
                format!("this would put more than {MAX_JOBS} jobs: lower --rate or --duration");
            return Err(Failure::Usage(why));
        }
        Ok(Self {
            queue,
            is_end_to_end,
            delay: args.delay.unwrap_or(usual),
            connections: args.connections,
            workers: args.workers,
            requests,
            batch: args.batch,
            rate: args.rate,
            payload_bytes: args.payload_bytes as usize,
        })
    }

    pub(super) fn jobs(&self) -> u64 {
        self.requests * u64::from(self.batch)
    }

    /// When a request is to be sent, after the start.
    pub(super) fn offset_of(&self, request: u64) -> Duration {
        let jobs = u128::from(request) * u128::from(self.batch);
        let nanos = jobs * 1_000_000_000 / u128::from(self.rate);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// When the first request after the last one would be sent.
    pub(super) fn duration(&self) -> Duration {
        self.offset_of(self.requests)
    }

    /// Where a request goes.
    pub(super) fn path(&self) -> Path {
        if self.batch == 1 {
            Path::new(&["queues", &self.queue, "jobs"])
        } else {
            Path::new(&["jobs", "batch"])
        }
    }

    /// The only job of a request.
    pub(super) fn job(&self, request: u64) -> PutRequest {
        let mut text = format!("{request}:");
        text.extend(std::iter::repeat_n('x', self.payload_bytes.saturating_sub(text.len())));
        PutRequest { text: Some(text), delay: Some(self.delay), ..PutRequest::default() }
    }

    /// The jobs of a request.
    pub(super) fn batch(&self, request: u64) -> Batch<PutRequest> {
        let job = PutRequest { queue: Some(self.queue.clone()), ..self.job(request) };
        Batch { items: vec![job; self.batch as usize] }
    }

    /// The request that put a job with this payload; `None` if it is not one of this plan.
    pub(super) fn request_of(&self, payload: &str) -> Option<u64> {
        let request = payload.split_once(':')?.0.parse().ok()?;
        (request < self.requests).then_some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn plan(line: &[&str]) -> Result<Plan, Failure> {
        let line = Line::parse_from(std::iter::once(&"bench").chain(line));
        Plan::new(&line.args, "q".to_owned())
    }

    #[test]
    fn requests_are_spread_by_the_rate_alone() {
        let one = plan(&["--rate", "1000", "--duration", "2s"]).unwrap();
        assert_eq!((one.requests, one.jobs()), (2_000, 2_000));
        assert_eq!(one.offset_of(1_500), Duration::from_millis(1_500));
        let many = plan(&["--rate", "1000", "--duration", "2s", "--batch", "300"]).unwrap();
        assert_eq!((many.requests, many.jobs()), (7, 2_100));
        assert_eq!(many.offset_of(6), Duration::from_millis(1_800));
        assert_eq!(many.duration(), Duration::from_millis(2_100));
    }

    #[test]
    fn a_payload_has_its_size_and_says_whose_it_is() {
        let plan = plan(&["--payload-bytes", "100", "--rate", "10"]).unwrap();
        let text = plan.job(42).text.unwrap();
        assert_eq!((text.len(), plan.request_of(&text)), (100, Some(42)));
        assert_eq!(plan.request_of("100:xx"), None);
        assert_eq!(plan.request_of("hello"), None);
    }

    #[test]
    fn a_load_without_end_is_refused() {
        assert!(plan(&["--duration", "99ms"]).unwrap_err().to_string().contains("99ms"));
        let endless = ["--duration", "1h", "--rate", "1000000"];
        assert!(plan(&endless).unwrap_err().to_string().contains("lower --rate"));
    }
}
