use std::time::Duration;
use tickwheel_client::{Client, Error, Next, Outcome, Payload, Work};

async fn close_order(work: Work) -> Result<Outcome, Error> {
    let Ok(order) = work.job().json::<u64>() else {
        return Ok(Outcome::dead("not the number of an order")); // A retry would not help.
    };
    if work.job().attempts > 3 {
        return Ok(Outcome::retry_after("the shop is busy", Duration::from_secs(300)));
    }
    println!("closing order {order}");
    Outcome::result(&"closed") // The result is kept with the job.
}

async fn timed(work: Work, next: Next) -> Outcome {
    let (id, start) = (work.job().id, std::time::Instant::now());
    let outcome = next.run(work).await;
    println!("job {id} took {:?}", start.elapsed());
    outcome
}

pub async fn run(url: &str, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let worker = Client::new(url)?
        .worker()
        .name("closer-1")
        .concurrency(20)
        .prefetch(20)
        .lease(Duration::from_secs(60))
        .layer(timed)
        .handle("orders", close_order);
    worker.run(stop).await; // stop is, for example, tokio::signal::ctrl_c().
    Ok(())
}
