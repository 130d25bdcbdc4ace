//! Operations on targets: HTTP endpoints that get the jobs of queues.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use tickwheel_api::{
    Delay, RotateRequest, Target, TargetList, TargetPatch, TargetSettings, TargetTest,
};

use crate::client::{Client, Empty, encoded};
use crate::error::Error;
use crate::events::TargetEvents;
use crate::transport::Call;

/// The longest timeout of a target.
const MAX_TARGET_TIMEOUT: Duration = Duration::from_secs(30 * 60);

impl Client {
    /// Returns all targets, by name.
    ///
    /// # Errors
    ///
    /// If no answer comes.
    pub async fn targets(&self) -> Result<Vec<Target>, Error> {
        let list: TargetList = self.call(Call::new(Method::GET, "/v1/targets")).await?;
        Ok(list.targets)
    }

    /// Returns a target.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such target.
    pub async fn target(&self, name: &str) -> Result<Target, Error> {
        self.call(Call::new(Method::GET, target_path(name, ""))).await
    }

    /// Adds a target, or replaces its settings as a whole. The answer that adds it has its signing
    /// secret.
    ///
    /// # Errors
    ///
    /// If a setting is invalid.
    pub async fn put_target(&self, name: &str, settings: &TargetSettings) -> Result<Target, Error> {
        self.call(Call::new(Method::PUT, target_path(name, "")).json(settings)?).await
    }

    /// Changes the settings of a target that are given.
    ///
    /// # Errors
    ///
    /// If a setting is invalid.
    pub async fn patch_target(&self, name: &str, patch: &TargetPatch) -> Result<Target, Error> {
        self.call(Call::new(Method::PATCH, target_path(name, "")).json(patch)?).await
    }

    /// Removes a target, and returns it as it was.
    ///
    /// # Errors
    ///
    /// If a queue names the target.
    pub async fn remove_target(&self, name: &str) -> Result<Target, Error> {
        self.call(Call::new(Method::DELETE, target_path(name, "")).once()).await
    }

    /// Pauses a target: its jobs stay in their queues.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such target.
    pub async fn pause_target(&self, name: &str) -> Result<Target, Error> {
        self.post(target_path(name, "/pause"), &Empty {}, true).await
    }

    /// Resumes a target that is paused, held or stopped.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such target.
    pub async fn resume_target(&self, name: &str) -> Result<Target, Error> {
        self.post(target_path(name, "/resume"), &Empty {}, true).await
    }

    /// Adds a signing secret, which the answer has. The old ones sign beside it for `keep_old`,
    /// 24 hours if it is `None`.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such target.
    pub async fn rotate_target(
        &self,
        name: &str,
        keep_old: Option<Duration>,
    ) -> Result<Target, Error> {
        let request = RotateRequest { keep_old: keep_old.map(Delay) };
        self.post(target_path(name, "/rotate"), &request, false).await
    }

    /// Sends one signed request to a target. It counts in the rate of the target, and changes
    /// neither jobs nor its state.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such target.
    pub async fn test_target(&self, name: &str) -> Result<TargetTest, Error> {
        let call = Call::new(Method::POST, target_path(name, "/test")).once();
        self.call(call.waiting(MAX_TARGET_TIMEOUT)).await
    }

    /// Opens the stream of the states of all targets.
    ///
    /// # Errors
    ///
    /// If no answer comes.
    pub async fn target_events(&self) -> Result<TargetEvents, Error> {
        TargetEvents::open(Arc::clone(self.transport())).await
    }
}

fn target_path(name: &str, rest: &str) -> String {
    format!("/v1/targets/{}{rest}", encoded(name))
}
