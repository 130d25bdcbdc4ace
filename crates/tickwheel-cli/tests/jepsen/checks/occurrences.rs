//! Each occurrence of a schedule has one job.

use std::collections::{BTreeMap, BTreeSet};

/// The jobs that were delivered for each occurrence of a schedule with a fixed period.
#[derive(Debug, Default)]
pub(crate) struct Occurrences {
    jobs: BTreeMap<u64, BTreeSet<String>>,
}

impl Occurrences {
    /// Records the delivery of a job, which may be delivered more than once.
    pub(crate) fn note(&mut self, occurrence_ms: u64, job: &str) {
        self.jobs.entry(occurrence_ms).or_default().insert(job.to_owned());
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Checks the occurrences between the first and the last one that were delivered.
    pub(crate) fn check(&self, period_ms: u64) -> Vec<String> {
        let mut wrong = Vec::new();
        for (occurrence, jobs) in &self.jobs {
            if jobs.len() > 1 {
                wrong.push(format!("the occurrence at {occurrence} has several jobs: {jobs:?}"));
            }
        }
        let times: Vec<_> = self.jobs.keys().copied().collect();
        for pair in times.windows(2) {
            if pair[1] - pair[0] != period_ms {
                wrong.push(format!(
                    "the occurrences at {} and {} follow each other, with a period of {period_ms} ms",
                    pair[0], pair[1]
                ));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(jobs: &[(u64, &str)]) -> String {
        let mut occurrences = Occurrences::default();
        for (occurrence, job) in jobs {
            occurrences.note(*occurrence, job);
        }
        occurrences.check(500).join("\n")
    }

    #[test]
    fn a_job_may_be_delivered_again() {
        assert_eq!(seen(&[(1_000, "a"), (1_500, "b"), (1_000, "a"), (2_000, "c")]), "");
    }

    #[test]
    fn a_second_job_of_an_occurrence_is_detected() {
        assert!(seen(&[(1_000, "a"), (1_000, "b")]).contains("several jobs"));
    }

    #[test]
    fn a_missing_occurrence_is_detected() {
        assert!(seen(&[(1_000, "a"), (2_000, "b")]).contains("follow each other"));
    }

    #[test]
    fn an_occurrence_at_the_wrong_time_is_detected() {
        assert!(seen(&[(1_000, "a"), (1_499, "b")]).contains("follow each other"));
    }
}
