//! Layers for tower services: a time limit for each request, and a rate limit for all.
//!
//! Both fit wherever the layers of tower itself do. Their services have the error type of tower's,
//! a boxed error, and are [`Clone`] if the inner service is. All clones share the timer and the
//! rate.
//!
//! ```
//! use std::time::Duration;
//! use tickwheel::Timer;
//! use tickwheel::integration::tower::{RateLimitLayer, TimeoutLayer};
//! use tickwheel::pace::Pacer;
//! use tower_layer::Layer;
//!
//! # #[derive(Clone)] struct Partner;
//! let timer = Timer::new();
//! let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
//! // A request waits for the rate limit first; its 5 seconds begin with the call.
//! let limited = RateLimitLayer::new(&pacer)
//!     .layer(TimeoutLayer::new(&timer, Duration::from_secs(5)).layer(Partner));
//! ```

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::boxed::Box;

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::pace::{Acquire, Pacer, Permit};
use crate::{TimeoutFuture, Timer};

/// The error of both services: that of the inner service, [`Elapsed`](crate::Elapsed) or
/// [`PaceError`](crate::pace::PaceError). `downcast_ref` tells which.
pub type BoxError = Box<dyn core::error::Error + Send + Sync>;

/// Limits the time of each request.
///
/// A request that has no response in time fails with [`Elapsed`](crate::Elapsed), and the future of
/// the inner service is dropped. The time begins when the response is first awaited.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::integration::tower::TimeoutLayer;
/// use tickwheel::{Elapsed, Timer};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # futures::executor::block_on(async {
/// let timer = Timer::new();
/// let silent = service_fn(|_: u32| std::future::pending::<Result<(), std::io::Error>>());
/// let service = ServiceBuilder::new()
///     .layer(TimeoutLayer::new(&timer, Duration::from_millis(5)))
///     .service(silent);
/// let error = service.oneshot(1).await.unwrap_err();
/// assert!(error.is::<Elapsed>());
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct TimeoutLayer {
    timer: Timer,
    limit: Duration,
}

impl TimeoutLayer {
    /// Makes a layer that gives each request `limit`; [`Duration::MAX`] is no limit.
    pub fn new(timer: &Timer, limit: Duration) -> Self {
        Self { timer: timer.clone(), limit }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = WithTimeout<S>;

    fn layer(&self, inner: S) -> WithTimeout<S> {
        WithTimeout { inner, layer: self.clone() }
    }
}

/// A service with a time limit for each request: made by [`TimeoutLayer`].
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::integration::tower::{TimeoutLayer, WithTimeout};
/// use tower_layer::Layer;
///
/// /// Gives each request of a client 5 seconds.
/// fn limited<S>(client: S, timer: &Timer) -> WithTimeout<S> {
///     TimeoutLayer::new(timer, Duration::from_secs(5)).layer(client)
/// }
/// # limited((), &Timer::new());
/// ```
#[derive(Clone, Debug)]
pub struct WithTimeout<S> {
    inner: S,
    layer: TimeoutLayer,
}

impl<S, Request> Service<Request> for WithTimeout<S>
where
    S: Service<Request>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = TimeoutResponse<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let response = self.inner.call(request);
        TimeoutResponse { response: self.layer.timer.timeout(self.layer.limit, response) }
    }
}

pin_project! {
    /// The response of a [`WithTimeout`].
    #[doc(hidden)]
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is polled"]
    pub struct TimeoutResponse<F> {
        #[pin]
        response: TimeoutFuture<F>,
    }
}

impl<F, Response, Error> Future for TimeoutResponse<F>
where
    F: Future<Output = Result<Response, Error>>,
    Error: Into<BoxError>,
{
    type Output = Result<Response, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().response.poll(cx)) {
            Ok(response) => response.map_err(Into::into),
            Err(elapsed) => Err(elapsed.into()),
        })
    }
}

/// Limits the rate of requests with a [`Pacer`].
///
/// `poll_ready` waits in the queue of the pacer, so a caller that awaits it is slowed down to the
/// rate, and all services and tasks of the same pacer start in one order. If the pacer limits how
/// many run at once, a request counts until its response is there or is dropped.
///
/// The start counts when `poll_ready` is ready, so call the service right after it, as
/// `oneshot` does. `poll_ready` fails with a [`PaceError`](crate::pace::PaceError) if the queue of
/// the pacer is full, or the pacer or its timer is stopped.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::integration::tower::{BoxError, RateLimitLayer};
/// use tickwheel::pace::Pacer;
/// use tickwheel::{ManualClock, Timer};
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let pacer = Pacer::new(&timer, 2, Duration::from_secs(1));
/// let mut partner = ServiceBuilder::new()
///     .layer(RateLimitLayer::new(&pacer))
///     .service(service_fn(|number: u32| async move { Ok::<_, std::io::Error>(number) }));
///
/// let calls = async {
///     assert_eq!(partner.ready().await?.call(1).await?, 1);
///     assert_eq!(partner.ready().await?.call(2).await?, 2);
///     assert!(futures::poll!(partner.ready()).is_pending()); // the third waits
///     clock.advance(Duration::from_secs(1));
///     assert_eq!(partner.ready().await?.call(3).await?, 3);
///     Ok::<(), BoxError>(())
/// };
/// futures::executor::block_on(calls).unwrap();
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateLimitLayer {
    pacer: Pacer,
}

impl RateLimitLayer {
    /// Makes a layer whose requests start at the rate of `pacer`.
    pub fn new(pacer: &Pacer) -> Self {
        Self { pacer: pacer.clone() }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimited<S>;

    fn layer(&self, inner: S) -> RateLimited<S> {
        RateLimited { inner, pacer: self.pacer.clone(), turn: Turn::None }
    }
}

/// A service with a rate limit: made by [`RateLimitLayer`].
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::integration::tower::{RateLimitLayer, RateLimited};
/// use tickwheel::pace::Pacer;
/// use tower_layer::Layer;
///
/// /// Sends at most 100 requests of a client in any second.
/// fn limited<S>(client: S, timer: &Timer) -> RateLimited<S> {
///     RateLimitLayer::new(&Pacer::new(timer, 100, Duration::from_secs(1))).layer(client)
/// }
/// # limited((), &Timer::new());
/// ```
pub struct RateLimited<S> {
    inner: S,
    pacer: Pacer,
    turn: Turn,
}

/// How far a service is on the way to its next request.
enum Turn {
    None,
    Waiting(Acquire),
    Granted(Permit),
}

impl<S: Clone> Clone for RateLimited<S> {
    /// Returns a service with the same rate limit, and its own turn in the queue.
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), pacer: self.pacer.clone(), turn: Turn::None }
    }
}

impl<S: fmt::Debug> fmt::Debug for RateLimited<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimited")
            .field("inner", &self.inner)
            .field("pacer", &self.pacer)
            .finish_non_exhaustive()
    }
}

impl<S, Request> Service<Request> for RateLimited<S>
where
    S: Service<Request>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = RateLimitedResponse<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The permit comes last: a start that counted while the inner service was not ready would
        // begin later than the window assumes.
        ready!(self.inner.poll_ready(cx)).map_err(Into::into)?;
        if let Turn::None = self.turn {
            self.turn = Turn::Waiting(self.pacer.acquire());
        }
        if let Turn::Waiting(acquire) = &mut self.turn {
            let permit = ready!(Pin::new(acquire).poll(cx));
            self.turn = Turn::None;
            self.turn = Turn::Granted(permit?);
        }
        Poll::Ready(Ok(()))
    }

    /// # Panics
    ///
    /// If `poll_ready` has not returned ready since the last call.
    fn call(&mut self, request: Request) -> Self::Future {
        let Turn::Granted(permit) = core::mem::replace(&mut self.turn, Turn::None) else {
            panic!("`call` needs `poll_ready` to be ready first");
        };
        RateLimitedResponse { response: self.inner.call(request), permit: Some(permit) }
    }
}

pin_project! {
    /// The response of a [`RateLimited`].
    #[doc(hidden)]
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is polled"]
    pub struct RateLimitedResponse<F> {
        #[pin]
        response: F,
        // Returned as soon as the response is there.
        permit: Option<Permit>,
    }
}

impl<F, Response, Error> Future for RateLimitedResponse<F>
where
    F: Future<Output = Result<Response, Error>>,
    Error: Into<BoxError>,
{
    type Output = Result<Response, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.response.poll(cx));
        *this.permit = None;
        Poll::Ready(response.map_err(Into::into))
    }
}
