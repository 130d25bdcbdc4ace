//! Operations on many jobs in one request.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tickwheel_api::{
    Acked, Cancelled, ExtendItem, Extended, FailItem, Failed, ImportRequest, Imported, JobItem,
    Kicked, LeaseItem, ReleaseItem, Released, RescheduleItem, Rescheduled, Results,
};

use crate::client::Client;
use crate::error::Error;
use crate::puts;

/// A result for each item of a batch, in order.
pub type BatchResult<T> = Result<Vec<Result<T, Error>>, Error>;

impl Client {
    /// Imports jobs of another server, with their ids. A job whose id exists is refused, so that an
    /// import can be repeated.
    ///
    /// # Errors
    ///
    /// If the request as a whole fails.
    pub async fn import_all(&self, items: Vec<ImportRequest>) -> BatchResult<Imported> {
        self.batch("/import", items, false).await
    }

    /// Acknowledges jobs in one request.
    ///
    /// # Errors
    ///
    /// If the request as a whole fails.
    pub async fn ack_all(&self, items: Vec<LeaseItem>) -> BatchResult<Acked> {
        self.batch("/ack", items, false).await
    }

    /// Reports failed attempts in one request.
    ///
    /// # Errors
    ///
    /// If the request as a whole fails.
    pub async fn fail_all(&self, items: Vec<FailItem>) -> BatchResult<Failed> {
        self.batch("/fail", items, false).await
    }

    /// Extends leases in one request.
    ///
    /// # Errors
    ///
    /// If the request as a whole fails.
    pub async fn extend_all(&self, items: Vec<ExtendItem>) -> BatchResult<Extended> {
        self.batch("/extend", items, true).await
    }

    /// Gives jobs back in one request.
    ///
    /// # Errors
    ///
    /// If the request as a whole fails.
    pub async fn release_all(&self, items: Vec<ReleaseItem>) -> BatchResult<Released> {
        self.batch("/release", items, false).await
    }

    /// Cancels jobs in one request.
    ///
    /// # Errors
    ///
    /// If the request as a whole fails.
    pub async fn cancel_all(&self, items: Vec<JobItem>) -> BatchResult<Cancelled> {
        self.batch("/cancel", items, false).await
    }

    /// Moves jobs in one request.
    ///
    /// # Errors
    ///
    /// If the request as a whole fails.
    pub async fn reschedule_all(&self, items: Vec<RescheduleItem>) -> BatchResult<Rescheduled> {
        self.batch("/reschedule", items, true).await
    }

    /// Makes dead jobs ready again in one request.
    ///
    /// # Errors
    ///
    /// If the request as a whole fails.
    pub async fn kick_all(&self, items: Vec<JobItem>) -> BatchResult<Kicked> {
        self.batch("/kick", items, false).await
    }

    async fn batch<I: Serialize, T: DeserializeOwned>(
        &self,
        operation: &str,
        items: Vec<I>,
        repeatable: bool,
    ) -> BatchResult<T> {
        #[derive(Serialize)]
        struct Items<I> {
            items: Vec<I>,
        }
        let path = format!("/v1/jobs/batch{operation}");
        let results: Results<T> = self.post(path, &Items { items }, repeatable).await?;
        Ok(results.results.into_iter().map(puts::result).collect())
    }
}
