//! No timeout: the cost of a receive alone.

use std::convert::Infallible;
use std::time::Duration;

use crate::r#async::contender::Limits;

#[derive(Clone)]
pub(in crate::r#async) struct Bare;

impl Limits for Bare {
    type Elapsed = Infallible;

    async fn timeout<F: Future<Output: Send> + Send>(
        &self,
        _limit: Duration,
        future: F,
    ) -> Result<F::Output, Infallible> {
        Ok(future.await)
    }
}
