//! A timeout made of a future and a timer.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// The timer was ready first.
pub(in crate::r#async) struct TooLate;

/// Waits for a future until the timer is ready.
pub(super) async fn limited<F: Future, S: Future>(
    timer: S,
    future: F,
) -> Result<F::Output, TooLate> {
    let (mut future, mut timer) = (pin!(future), pin!(timer));
    std::future::poll_fn(|cx| poll_both(future.as_mut(), timer.as_mut(), cx)).await
}

fn poll_both<F: Future, S: Future>(
    future: Pin<&mut F>,
    timer: Pin<&mut S>,
    cx: &mut Context<'_>,
) -> Poll<Result<F::Output, TooLate>> {
    match future.poll(cx) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => timer.poll(cx).map(|_| Err(TooLate)),
    }
}
