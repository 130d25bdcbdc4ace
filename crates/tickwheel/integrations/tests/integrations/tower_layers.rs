//! Services behind the layers, composed and called with tower itself.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tickwheel::integration::tower::{BoxError, RateLimitLayer, TimeoutLayer};
use tickwheel::pace::{PaceError, Pacer};
use tickwheel::{Elapsed, ManualClock, Timer};
use tower::load_shed::LoadShedLayer;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use super::{SECOND, manual, until};

/// Returns twice the number.
async fn double(number: u32) -> Result<u32, Infallible> {
    Ok(2 * number)
}

/// Waits as many seconds as the request says.
fn slow(
    timer: &Timer,
) -> impl Service<u32, Response = u32, Error = Infallible, Future: Send> + Clone + Send + 'static + use<>
{
    let timer = timer.clone();
    service_fn(move |seconds: u32| {
        let sleep = timer.sleep(seconds * SECOND);
        async move {
            sleep.await;
            Ok(seconds)
        }
    })
}

#[tokio::test]
async fn a_request_without_a_response_in_time_fails() {
    let (timer, clock) = manual();
    let service =
        ServiceBuilder::new().layer(TimeoutLayer::new(&timer, 5 * SECOND)).service(slow(&timer));
    let quick = tokio::spawn(service.clone().oneshot(4));
    let late = tokio::spawn(service.oneshot(6));
    // Each waits for its sleep and for its limit.
    until(|| timer.pending() == 4).await;
    for _ in clock.steps(5 * SECOND) {
        tokio::task::yield_now().await;
    }
    assert_eq!(quick.await.unwrap().unwrap(), 4);
    assert!(late.await.unwrap().unwrap_err().is::<Elapsed>());
    assert_eq!(timer.pending(), 0, "a request that failed leaves its timers");
}

#[tokio::test]
async fn an_error_of_the_inner_service_stays_what_it_is() {
    #[derive(Debug, PartialEq)]
    struct Broken;
    impl std::fmt::Display for Broken {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("broken")
        }
    }
    impl std::error::Error for Broken {}

    let timer = Timer::new();
    let pacer = Pacer::new(&timer, 10, SECOND);
    let service = ServiceBuilder::new()
        .layer(RateLimitLayer::new(&pacer))
        .layer(TimeoutLayer::new(&timer, 60 * SECOND))
        .service(service_fn(|()| async { Err::<(), _>(Broken) }));
    let error: BoxError = service.oneshot(()).await.unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&Broken));
}

/// Sends this many requests at once through clones of one service, and returns how many have a
/// response after each of these seconds.
async fn responses_per_second(
    timer: &Timer,
    clock: &ManualClock,
    pacer: &Pacer,
    requests: usize,
    seconds: usize,
) -> Vec<usize> {
    let service = ServiceBuilder::new()
        .layer(RateLimitLayer::new(pacer))
        .layer(TimeoutLayer::new(timer, 5 * SECOND))
        .service_fn(double);
    let answered = Arc::new(AtomicUsize::new(0));
    for _ in 0..requests {
        let (service, answered) = (service.clone(), answered.clone());
        tokio::spawn(async move {
            assert_eq!(service.oneshot(21).await.unwrap(), 42);
            answered.fetch_add(1, Ordering::SeqCst);
        });
    }
    until(|| pacer.queued() + answered.load(Ordering::SeqCst) == requests).await;
    let mut counts = vec![answered.load(Ordering::SeqCst)];
    for _ in 0..seconds {
        for _ in clock.steps(SECOND) {
            for _ in 0..requests {
                tokio::task::yield_now().await;
            }
        }
        counts.push(answered.load(Ordering::SeqCst));
    }
    counts
}

#[tokio::test]
async fn clones_share_one_rate() {
    let (timer, clock) = manual();
    let pacer = Pacer::new(&timer, 3, SECOND);
    let counts = responses_per_second(&timer, &clock, &pacer, 10, 3).await;
    assert_eq!(counts, [3, 6, 9, 10]);
}

#[tokio::test]
async fn a_request_counts_as_running_until_its_response() {
    let (timer, clock) = manual();
    let pacer = Pacer::builder(&timer, 100, SECOND).max_running(1).build().unwrap();
    let mut service =
        ServiceBuilder::new().layer(RateLimitLayer::new(&pacer)).service(slow(&timer));
    let first = tokio::spawn(service.ready().await.unwrap().call(1));
    assert!(poll_once(service.ready()).await.is_pending());
    until(|| timer.pending() > 0).await;
    clock.advance(SECOND);
    assert_eq!(first.await.unwrap().unwrap(), 1);
    // On a manual clock the pacer starts what waits when the clock is moved.
    clock.advance(Duration::ZERO);
    let second = service.ready().await.unwrap().call(1);
    drop(second); // a dropped response ends the request
    assert!(service.ready().await.is_ok());
}

#[tokio::test]
async fn load_is_shed_while_the_rate_is_used_up() {
    let (timer, clock) = manual();
    let pacer = Pacer::new(&timer, 1, SECOND);
    let mut service = ServiceBuilder::new()
        .layer(LoadShedLayer::new())
        .layer(RateLimitLayer::new(&pacer))
        .service_fn(double);
    assert_eq!(service.ready().await.unwrap().call(1).await.unwrap(), 2);
    let error = service.ready().await.unwrap().call(2).await.unwrap_err();
    assert!(error.is::<tower::load_shed::error::Overloaded>());
    clock.advance(SECOND);
    assert_eq!(service.ready().await.unwrap().call(3).await.unwrap(), 6);
}

#[tokio::test]
async fn a_stopped_pacer_refuses_requests() {
    let timer = Timer::new();
    let pacer = Pacer::new(&timer, 1, SECOND);
    let service = ServiceBuilder::new()
        .layer(RateLimitLayer::new(&pacer))
        .service_fn(|()| pending::<Result<(), Infallible>>());
    pacer.stop();
    let error = service.oneshot(()).await.unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&PaceError::Stopped));
}

/// Polls a future once.
async fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}
