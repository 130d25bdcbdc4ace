use std::time::Duration;
use tickwheel_client::{Client, NewJob, Payload, Work};

#[tokio::main]
async fn main() -> Result<(), tickwheel_client::Error> {
    let url = std::env::var("TICKWHEEL_URL").unwrap_or("http://127.0.0.1:7300".to_owned());
    let client = Client::new(url)?;

    // An order is placed.
    let close = NewJob::json("orders", &42)?.key("order-42");
    client.put(close.delay(Duration::from_secs(30 * 60))).await?;

    // If it is paid in time, nothing has to be closed:
    // client.cancel(("orders", "order-42")).await?;

    let worker = client.worker().concurrency(8).handle("orders", async |work: Work| {
        let order: u64 = work.job().json()?;
        println!("closing order {order}");
        Ok::<_, tickwheel_client::Error>(())
    });
    worker.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await;
    Ok(())
}
