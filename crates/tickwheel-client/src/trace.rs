//! Passes the trace of a job on to the jobs that its handler puts.

use tickwheel_api::PutRequest;

/// The header of W3C Trace Context.
pub(crate) const TRACEPARENT: &str = "traceparent";

tokio::task_local! {
    /// The trace of the job that this task handles.
    static CURRENT: Option<String>;
}

/// Runs a handler with the trace of its job.
pub(crate) async fn within<F: Future>(traceparent: Option<String>, handler: F) -> F::Output {
    CURRENT.scope(traceparent, handler).await
}

/// Adds the trace of the job that is being handled, unless the put names its own.
pub(crate) fn add_to(request: &mut PutRequest) {
    let current = CURRENT.try_with(Clone::clone).ok().flatten();
    if let Some(traceparent) = current {
        request.headers.entry(TRACEPARENT.to_owned()).or_insert(traceparent);
    }
}
