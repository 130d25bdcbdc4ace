//! What the client does with queues, schedules and the server itself.

use std::time::Duration;

use hyper::Method;
use tickwheel_api::{
    AdvanceRequest, Clock, Count, Delay, FinishedState, Group, GroupPage, GroupPatch, Health,
    JobId, JobIds, KickRequest, NextRun, NextRuns, Queue, QueueList, QueueSettings,
    QueueSettingsPatch, RemoveFinishedRequest, Schedule, ScheduleList, ScheduleRequest, Stats,
};

use crate::client::{Client, Empty, encoded, query, queue_path};
use crate::error::Error;
use crate::transport::Call;

impl Client {
    /// Returns all queues, by name.
    ///
    /// # Errors
    ///
    /// If no answer comes.
    pub async fn queues(&self) -> Result<Vec<Queue>, Error> {
        let list: QueueList = self.call(Call::new(Method::GET, "/v1/queues")).await?;
        Ok(list.queues)
    }

    /// Returns a queue: its settings and its jobs in each state.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such queue.
    pub async fn queue(&self, queue: &str) -> Result<Queue, Error> {
        self.call(Call::new(Method::GET, queue_path(queue, ""))).await
    }

    /// Replaces the settings of a queue, which is created if there is none.
    ///
    /// # Errors
    ///
    /// If a setting is invalid.
    pub async fn put_settings(
        &self,
        queue: &str,
        settings: &QueueSettings,
    ) -> Result<Queue, Error> {
        let call = Call::new(Method::PUT, queue_path(queue, "/settings")).json(settings)?;
        self.call(call).await
    }

    /// Changes some settings of a queue, which is created if there is none.
    ///
    /// # Errors
    ///
    /// If a setting is invalid.
    pub async fn patch_settings(
        &self,
        queue: &str,
        patch: &QueueSettingsPatch,
    ) -> Result<Queue, Error> {
        let call = Call::new(Method::PATCH, queue_path(queue, "/settings")).json(patch)?;
        self.call(call).await
    }

    /// Pauses the deliveries of a queue.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such queue.
    pub async fn pause_queue(&self, queue: &str) -> Result<Queue, Error> {
        self.post(queue_path(queue, "/pause"), &Empty {}, true).await
    }

    /// Resumes the deliveries of a queue.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such queue.
    pub async fn resume_queue(&self, queue: &str) -> Result<Queue, Error> {
        self.post(queue_path(queue, "/resume"), &Empty {}, true).await
    }

    /// Makes dead jobs of a queue ready again, up to `limit`, and returns their number.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such queue.
    pub async fn kick_queue(&self, queue: &str, limit: Option<u64>) -> Result<u64, Error> {
        let request = KickRequest { limit };
        let count: Count = self.post(queue_path(queue, "/kick"), &request, false).await?;
        Ok(count.count)
    }

    /// Removes finished jobs of a queue, all of them or those that finished longer ago than
    /// `older_than`, and returns their number.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such queue.
    pub async fn remove_finished(
        &self,
        queue: &str,
        state: FinishedState,
        older_than: Option<Duration>,
    ) -> Result<u64, Error> {
        let request = RemoveFinishedRequest { state, older_than: older_than.map(Delay) };
        let count: Count =
            self.post(queue_path(queue, "/remove-finished"), &request, false).await?;
        Ok(count.count)
    }

    /// Cancels all waiting jobs of a queue, and returns their number.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such queue.
    pub async fn cancel_waiting(&self, queue: &str) -> Result<u64, Error> {
        let count: Count =
            self.post(queue_path(queue, "/cancel-waiting"), &Empty {}, false).await?;
        Ok(count.count)
    }

    /// Removes a queue, and returns the number of its jobs. A queue with jobs is removed only with
    /// `force`.
    ///
    /// # Errors
    ///
    /// If there is no such queue, or it has jobs and `force` is `false`.
    pub async fn remove_queue(&self, queue: &str, force: bool) -> Result<u64, Error> {
        let path = queue_path(queue, if force { "?force=true" } else { "" });
        let count: Count = self.call(Call::new(Method::DELETE, path).once()).await?;
        Ok(count.count)
    }

    /// Creates or replaces a schedule.
    ///
    /// # Errors
    ///
    /// If the schedule is invalid.
    pub async fn put_schedule(
        &self,
        name: &str,
        schedule: &ScheduleRequest,
    ) -> Result<Schedule, Error> {
        self.call(Call::new(Method::PUT, schedule_path(name, "")).json(schedule)?).await
    }

    /// Returns all schedules, by name.
    ///
    /// # Errors
    ///
    /// If no answer comes.
    pub async fn schedules(&self) -> Result<Vec<Schedule>, Error> {
        let list: ScheduleList = self.call(Call::new(Method::GET, "/v1/schedules")).await?;
        Ok(list.schedules)
    }

    /// Returns a schedule.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such schedule.
    pub async fn schedule(&self, name: &str) -> Result<Schedule, Error> {
        self.call(Call::new(Method::GET, schedule_path(name, ""))).await
    }

    /// Pauses a schedule. Occurrences that fall into a pause are skipped.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such schedule.
    pub async fn pause_schedule(&self, name: &str) -> Result<Schedule, Error> {
        self.post(schedule_path(name, "/pause"), &Empty {}, true).await
    }

    /// Resumes a schedule.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such schedule.
    pub async fn resume_schedule(&self, name: &str) -> Result<Schedule, Error> {
        self.post(schedule_path(name, "/resume"), &Empty {}, true).await
    }

    /// Removes a schedule, and returns it as it was.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such schedule.
    pub async fn remove_schedule(&self, name: &str) -> Result<Schedule, Error> {
        self.call(Call::new(Method::DELETE, schedule_path(name, "")).once()).await
    }

    /// Returns the next times at which a schedule puts jobs.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such schedule.
    pub async fn next_runs(&self, name: &str, count: u32) -> Result<Vec<NextRun>, Error> {
        let path = schedule_path(name, &format!("/next?n={count}"));
        let runs: NextRuns = self.call(Call::new(Method::GET, path)).await?;
        Ok(runs.next)
    }

    /// Returns counters since the start of the server, and current numbers.
    ///
    /// # Errors
    ///
    /// If no answer comes.
    pub async fn stats(&self) -> Result<Stats, Error> {
        self.call(Call::new(Method::GET, "/v1/stats")).await
    }

    /// Returns the counters with what happened in a window up to now, of 10 s to 1 h.
    ///
    /// # Errors
    ///
    /// If the window is out of bounds.
    pub async fn stats_since(&self, window: Duration) -> Result<Stats, Error> {
        let path = format!("/v1/stats?since={}ms", window.as_millis());
        self.call(Call::new(Method::GET, path)).await
    }

    /// Returns the ids of the jobs that a short id stands for: the first four or more digits of an
    /// id, or the first twelve, two dots and some of the last.
    ///
    /// # Errors
    ///
    /// If the short id is malformed.
    pub async fn find_ids(&self, short: &str) -> Result<Vec<JobId>, Error> {
        let path = format!("/v1/ids/{}", encoded(short));
        let found: JobIds = self.call(Call::new(Method::GET, path)).await?;
        Ok(found.ids)
    }

    /// Returns a page of the groups of a queue that have live jobs or settings, by name: up to
    /// `limit` groups whose name begins with `prefix`, from `next` of the `page` before.
    ///
    /// # Errors
    ///
    /// If no answer comes.
    pub async fn groups(
        &self,
        queue: &str,
        prefix: Option<&str>,
        limit: Option<u32>,
        page: Option<&str>,
    ) -> Result<GroupPage, Error> {
        let limit = limit.map(|limit| limit.to_string());
        let query = query(&[("prefix", prefix), ("limit", limit.as_deref()), ("page", page)]);
        let path = queue_path(queue, &format!("/groups{query}"));
        self.call(Call::new(Method::GET, path)).await
    }

    /// Changes settings of a group: pauses or resumes it, or gives it limits of its own.
    ///
    /// # Errors
    ///
    /// If a setting is invalid.
    pub async fn patch_group(
        &self,
        queue: &str,
        group: &str,
        change: &GroupPatch,
    ) -> Result<Group, Error> {
        let path = queue_path(queue, &format!("/groups/{}", encoded(group)));
        self.call(Call::new(Method::PATCH, path).json(change)?).await
    }

    /// Returns the health of the server if it is ready. Does not retry.
    ///
    /// # Errors
    ///
    /// If the server is starting or stopping.
    pub async fn ready(&self) -> Result<Health, Error> {
        self.call(Call::new(Method::GET, "/readyz").single()).await
    }

    /// Returns the version of the server, if it is alive.
    ///
    /// # Errors
    ///
    /// If no answer comes.
    pub async fn health(&self) -> Result<Health, Error> {
        self.call(Call::new(Method::GET, "/healthz")).await
    }

    /// Returns the time of the server.
    ///
    /// # Errors
    ///
    /// If no answer comes.
    pub async fn clock(&self) -> Result<Clock, Error> {
        self.call(Call::new(Method::GET, "/v1/clock")).await
    }

    /// Advances the clock of a server that was started with `--clock manual`. Returns when everything
    /// that is due at the new time is done.
    ///
    /// # Errors
    ///
    /// If the server uses the real clock.
    pub async fn advance(&self, by: Duration) -> Result<Clock, Error> {
        self.post("/v1/clock/advance".to_owned(), &AdvanceRequest { by: Delay(by) }, false).await
    }
}

fn schedule_path(name: &str, rest: &str) -> String {
    format!("/v1/schedules/{}{rest}", encoded(name))
}
