//! How queues are spread over partitions.
//!
//! A queue belongs to one of 4,096 *buckets* by a hash of its name. Ranges of buckets belong to
//! partitions. The buckets never change: ids of jobs contain them. The ranges are decided when a
//! cluster is created, and are the first record of a log of their own, so that all nodes agree.
//!
//! ```text
//! queue "mail" ──hash──▶ bucket 2,730 ──range 2,048..3,072──▶ partition 2 ──▶ its log
//! job 0190163d-8694-739b-aaa…  ──bits──▶ bucket 2,730 ──▶ the same partition
//! ```

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tickwheel_queue::{JobId, Placement};
use xxhash_rust::xxh3::xxh3_64;

use crate::log::{AppendError, AppendId, Log, LogError, Position};

/// The number of buckets.
pub const BUCKETS: u16 = 4_096;
/// The largest number of partitions.
pub const MAX_PARTITIONS: u32 = 256;
/// The partitions of a cluster whose creator does not choose a number. One keeps every promise of a
/// single server; several add throughput, and weaken what spans queues.
pub const DEFAULT_PARTITIONS: u32 = 1;

/// The version of the record.
const VERSION: u8 = 1;
/// Bits of a hash that are left out of a bucket.
const UNUSED_HASH_BITS: u32 = 64 - BUCKETS.trailing_zeros();
/// Bytes of the record that are read. It has about six for each partition.
const READ_BYTES: usize = 64 << 10;
/// How often reading and appending the record are tried, and the pause between two attempts.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// One of the [`BUCKETS`] that queues belong to.
///
/// ```
/// use tickwheel_cluster::{BUCKETS, Bucket};
///
/// let bucket = Bucket::of_queue("mail");
/// assert_eq!(bucket, Bucket::of_queue("mail"));
/// assert!(bucket.number() < BUCKETS);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bucket(u16);

impl Bucket {
    /// Returns the bucket of a queue. It depends on nothing but the name.
    pub fn of_queue(name: &str) -> Self {
        Self((xxh3_64(name.as_bytes()) >> UNUSED_HASH_BITS) as u16)
    }

    /// Returns the bucket in a job's id. It is that of the job's queue if a node has generated the
    /// id, and any bucket if a caller has chosen the id.
    pub fn of_job(id: JobId) -> Self {
        Self(id.bucket())
    }

    /// Returns its number, from 0.
    pub fn number(self) -> u16 {
        self.0
    }
}

/// The ranges of buckets that belong to the partitions of a cluster.
///
/// ```
/// use tickwheel_cluster::{Bucket, Layout};
///
/// let layout = Layout::even(4)?;
/// let partition = layout.partition_of(Bucket::of_queue("mail"));
/// assert!(layout.buckets(partition).contains(&Bucket::of_queue("mail").number()));
/// # Ok::<(), tickwheel_cluster::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The first bucket of each partition, in ascending order; the first is 0.
    starts: Vec<u16>,
}

/// The record, as JSON.
#[derive(Serialize, Deserialize)]
struct LayoutRecord {
    version: u8,
    starts: Vec<u16>,
}

/// Why the partitions of a cluster are not known, or are not those that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// The number of partitions is out of bounds.
    Number(u32),
    /// The cluster was created with another number of partitions.
    Differs {
        /// The number that was asked for.
        wanted: u32,
        /// The number that the cluster has.
        recorded: u32,
    },
    /// The cluster has no layout yet, and this node may not create one.
    NotCreated,
    /// The record cannot be read: it is damaged, or of a newer version.
    Record(String),
    /// The log and the data of this node disagree, and nothing may continue on either.
    Contradiction(String),
    /// The log failed.
    Log(LogError),
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(
                f,
                "the number of partitions must be between 1 and {MAX_PARTITIONS}, got {number}"
            ),
            Self::Differs { wanted, recorded } => write!(
                f,
                "the cluster was created with {recorded} partitions, and this node was started \
                 with --cluster-partitions {wanted}: use {recorded}, or leave the option out"
            ),
            Self::NotCreated => f.write_str(
                "the cluster has no partitions yet: if it is new, start one node with \
                 --cluster-create",
            ),
            Self::Contradiction(why) => f.write_str(why),
            Self::Record(why) => write!(f, "the record of the partitions cannot be read: {why}"),
            Self::Log(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LayoutError {}

impl From<LogError> for LayoutError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl Layout {
    /// Returns a layout with ranges of equal size, up to one bucket.
    ///
    /// # Errors
    ///
    /// If the number is 0 or greater than [`MAX_PARTITIONS`].
    pub fn even(partitions: u32) -> Result<Self, LayoutError> {
        if !(1..=MAX_PARTITIONS).contains(&partitions) {
            return Err(LayoutError::Number(partitions));
        }
        let start = |partition| (partition * u32::from(BUCKETS) / partitions) as u16;
        Ok(Self { starts: (0..partitions).map(start).collect() })
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> u32 {
        self.starts.len() as u32
    }

    /// Returns the partition of a bucket.
    pub fn partition_of(&self, bucket: Bucket) -> u32 {
        self.starts.partition_point(|start| *start <= bucket.0) as u32 - 1
    }

    /// Returns the buckets of a partition; none if there is no such partition.
    pub fn buckets(&self, partition: u32) -> Range<u16> {
        let index = partition as usize;
        let Some(&first) = self.starts.get(index) else { return BUCKETS..BUCKETS };
        first..self.starts.get(index + 1).copied().unwrap_or(BUCKETS)
    }

    /// Returns which queues the store of a partition has.
    pub fn placement(&self, partition: u32) -> Placement {
        let Range { start, end } = self.buckets(partition);
        Placement { bucket_of: |queue| Bucket::of_queue(queue).number(), first: start, end }
    }

    /// Reads the layout of a cluster from its log, or appends it there if the cluster is new.
    ///
    /// `wanted` is the number of partitions that the caller asks for: a new cluster gets so many,
    /// or [`DEFAULT_PARTITIONS`]. Of several nodes that create a cluster, the log admits one.
    ///
    /// # Errors
    ///
    /// If the cluster has another number of partitions than `wanted`, or none and `may_create` is
    /// false, or if the log fails.
    pub fn agree(
        log: &dyn Log,
        wanted: Option<u32>,
        may_create: bool,
    ) -> Result<Self, LayoutError> {
        let new = Self::even(wanted.unwrap_or(DEFAULT_PARTITIONS))?;
        let mut failed = LayoutError::NotCreated;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            match log.read(Position::START.next(), READ_BYTES) {
                Ok(entries) => {
                    if let Some(entry) = entries.first() {
                        return Self::decode(&entry.record)?.expect_number(wanted);
                    }
                }
                Err(error @ LogError::Unavailable(_)) => {
                    failed = error.into();
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            if !may_create {
                return Err(LayoutError::NotCreated);
            }
            let record = new.encode();
            match log.append(Position::START, AppendId::of(&record), &record) {
                Ok(_) => return Ok(new),
                // Another node was faster: its record is read.
                Err(AppendError::Conflict { .. }) => {}
                Err(error) if error.is_worth_repeating() => {
                    failed = LogError::Unavailable(error.to_string()).into();
                }
                Err(AppendError::Failed(error) | AppendError::Unknown(error)) => {
                    return Err(error.into());
                }
                Err(error) => return Err(LayoutError::Record(error.to_string())),
            }
        }
        Err(failed)
    }

    fn expect_number(self, wanted: Option<u32>) -> Result<Self, LayoutError> {
        let recorded = self.partitions();
        match wanted {
            Some(wanted) if wanted != recorded => Err(LayoutError::Differs { wanted, recorded }),
            _ => Ok(self),
        }
    }

    /// Returns the record.
    pub fn encode(&self) -> Bytes {
        let record = LayoutRecord { version: VERSION, starts: self.starts.clone() };
        serde_json::to_vec(&record).unwrap_or_default().into()
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// If it is damaged, or of a newer version.
    pub fn decode(record: &[u8]) -> Result<Self, LayoutError> {
        let LayoutRecord { version, starts } = serde_json::from_slice(record)
            .map_err(|error| LayoutError::Record(error.to_string()))?;
        if version != VERSION {
            let why = format!("it has version {version}, this node knows version {VERSION}");
            return Err(LayoutError::Record(why));
        }
        let is_ascending = starts.windows(2).all(|pair| pair[0] < pair[1]);
        let is_within = starts.first() == Some(&0) && starts.last().is_some_and(|it| *it < BUCKETS);
        if !is_ascending || !is_within || starts.len() > MAX_PARTITIONS as usize {
            return Err(LayoutError::Record(format!("{starts:?} are no ranges of buckets")));
        }
        Ok(Self { starts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::SimulatedLog;
    use proptest::prelude::*;

    #[test]
    fn the_bucket_of_a_queue_never_changes() {
        // Ids of jobs and layouts in logs depend on these numbers.
        let buckets = ["mail", "orders", "a"].map(|name| Bucket::of_queue(name).number());
        assert_eq!(buckets, [954, 2_696, 3_692]);
    }

    #[test]
    fn queues_spread_over_buckets() {
        let mut used = vec![0_u32; usize::from(BUCKETS)];
        for number in 0..40_960 {
            used[usize::from(Bucket::of_queue(&format!("queue-{number}")).number())] += 1;
        }
        assert!(used.iter().all(|count| (0..40).contains(count)), "{used:?}");
        assert!(used.iter().filter(|count| **count == 0).count() < 10);
    }

    proptest! {
        #[test]
        fn every_bucket_has_one_partition(partitions in 1..=MAX_PARTITIONS) {
            let layout = Layout::even(partitions).unwrap();
            prop_assert_eq!(layout.partitions(), partitions);
            let mut next = 0;
            for partition in 0..partitions {
                let range = layout.buckets(partition);
                prop_assert_eq!(range.start, next);
                let even = usize::from(BUCKETS) / partitions as usize;
                prop_assert!((even..=even + 1).contains(&range.len()));
                for bucket in range.clone() {
                    prop_assert_eq!(layout.partition_of(Bucket(bucket)), partition);
                }
                next = range.end;
            }
            prop_assert_eq!(next, BUCKETS);
            prop_assert!(layout.buckets(partitions).is_empty());
            prop_assert_eq!(Layout::decode(&layout.encode()), Ok(layout));
        }

        #[test]
        fn any_record_is_decoded_or_refused(starts in prop::collection::vec(0..5_000_u16, 0..9)) {
            let record = LayoutRecord { version: VERSION, starts };
            if let Ok(layout) = Layout::decode(&serde_json::to_vec(&record).unwrap()) {
                for bucket in 0..BUCKETS {
                    let partition = layout.partition_of(Bucket(bucket));
                    prop_assert!(layout.buckets(partition).contains(&bucket));
                }
            }
        }
    }

    #[test]
    fn all_nodes_agree_on_the_first_layout() {
        let log = SimulatedLog::new(1);
        let agree = |wanted, may_create| Layout::agree(&log.connect(), wanted, may_create);
        assert_eq!(agree(Some(0), true), Err(LayoutError::Number(0)));
        assert_eq!(agree(Some(257), true), Err(LayoutError::Number(257)));
        assert_eq!(agree(Some(3), false), Err(LayoutError::NotCreated));
        let layout = agree(Some(3), true).unwrap();
        assert_eq!(layout.partitions(), 3);
        assert_eq!(agree(None, false), Ok(layout.clone()));
        assert_eq!(agree(None, true), Ok(layout.clone()));
        assert_eq!(agree(Some(3), false), Ok(layout));
        let error = agree(Some(5), true).unwrap_err();
        assert_eq!(error, LayoutError::Differs { wanted: 5, recorded: 3 });
        assert!(error.to_string().contains("created with 3 partitions"), "{error}");
    }

    #[test]
    fn nodes_that_create_a_cluster_at_once_get_one_layout() {
        for seed in 0..20 {
            let log = SimulatedLog::new(seed);
            let layouts: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (1..=4)
                    .map(|number| {
                        let log = log.connect();
                        scope.spawn(move || Layout::agree(&log, Some(number), true))
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let winners: Vec<_> = layouts.iter().flatten().collect();
            assert_eq!(winners.len(), 1, "{layouts:?}");
            let recorded = winners[0].partitions();
            for refused in layouts.iter().filter_map(|layout| layout.as_ref().err()) {
                assert!(
                    matches!(refused, LayoutError::Differs { recorded: it, .. } if *it == recorded),
                    "{refused}"
                );
            }
        }
    }

    #[test]
    fn a_newer_record_is_refused() {
        let newer = Layout::decode(br#"{"version": 2, "starts": [0]}"#);
        assert!(matches!(newer, Err(LayoutError::Record(_))), "{newer:?}");
        for starts in ["[]", "[1]", "[0, 9, 9]", "[0, 4096]"] {
            let record = format!(r#"{{"version": 1, "starts": {starts}}}"#);
            let decoded = Layout::decode(record.as_bytes());
            assert!(matches!(decoded, Err(LayoutError::Record(_))), "{starts}: {decoded:?}");
        }
    }
}
