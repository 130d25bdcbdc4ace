//! Why jobs fail, changes to every job that matches a filter, and the numbers of dashboards.

use hyper::Method;
use tickwheel_api::{
    BulkRequest, BulkResponse, ErrorGroups, History, HistoryWindow, Overview, Wheel,
};

use crate::client::{Client, query, queue_path};
use crate::error::Error;
use crate::transport::Call;

impl Client {
    /// Returns why jobs of one queue, or of all queues, fail: their last errors, grouped. The answer
    /// has up to `limit` groups, 1 to 1,000. Defaults to 100.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such queue.
    pub async fn errors(
        &self,
        queue: Option<&str>,
        limit: Option<u32>,
    ) -> Result<ErrorGroups, Error> {
        let path = queue.map_or("/v1/errors".to_owned(), |queue| queue_path(queue, "/errors"));
        let query = query(&[("limit", limit.map(|limit| limit.to_string()).as_deref())]);
        self.call(Call::new(Method::GET, path + &query)).await
    }

    /// Changes jobs of a queue that match: one step of up to 1,000 jobs. The next step has `next` of
    /// the answer as its `cursor`.
    ///
    /// # Errors
    ///
    /// If there is no such queue, or the action cannot change jobs in the state of the filter.
    pub async fn change_matching(
        &self,
        queue: &str,
        change: &BulkRequest,
    ) -> Result<BulkResponse, Error> {
        self.post(queue_path(queue, "/bulk"), change, change.dry_run).await
    }

    /// Changes every job of a queue that matches, step by step. Returns the sums of all steps, and
    /// why the first job was skipped.
    ///
    /// ```
    /// # async fn example(client: tickwheel_client::Client) -> Result<(), tickwheel_client::Error> {
    /// use tickwheel_client::api::{BulkAction, BulkRequest, JobFilter};
    ///
    /// let filter = JobFilter { error: Some("connection refused".to_owned()), ..Default::default() };
    /// let retry = BulkRequest { filter, ..BulkRequest::new(BulkAction::Retry) };
    /// let done = client.change_all_matching("mail", retry).await?;
    /// println!("{} jobs are ready again, {} are not", done.changed, done.skipped);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`change_matching`](Self::change_matching). The jobs of earlier steps stay changed.
    pub async fn change_all_matching(
        &self,
        queue: &str,
        mut change: BulkRequest,
    ) -> Result<BulkResponse, Error> {
        let mut sums = BulkResponse::default();
        loop {
            let step = self.change_matching(queue, &change).await?;
            sums.matched += step.matched;
            sums.changed += step.changed;
            sums.skipped += step.skipped;
            sums.why = sums.why.or(step.why);
            change.cursor = step.next;
            if change.cursor.is_none() {
                return Ok(sums);
            }
        }
    }

    /// Returns everything at one glance: health, totals, and the numbers of each queue.
    ///
    /// # Errors
    ///
    /// If no answer comes.
    pub async fn overview(&self) -> Result<Overview, Error> {
        self.call(Call::new(Method::GET, "/v1/overview")).await
    }

    /// Returns what happened in the last 15 minutes or 24 hours, in one queue or in all.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such queue.
    pub async fn history(
        &self,
        window: HistoryWindow,
        queue: Option<&str>,
    ) -> Result<History, Error> {
        let query = query(&[("window", Some(window.as_str())), ("queue", queue)]);
        self.call(Call::new(Method::GET, format!("/v1/history{query}"))).await
    }

    /// Returns the timing wheel: how many jobs and leases each slot holds.
    ///
    /// # Errors
    ///
    /// If no answer comes.
    pub async fn wheel(&self) -> Result<Wheel, Error> {
        self.call(Call::new(Method::GET, "/v1/wheel")).await
    }
}
