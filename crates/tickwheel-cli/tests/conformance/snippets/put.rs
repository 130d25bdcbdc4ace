use std::time::Duration;
use tickwheel_client::{Client, Error, NewJob};

pub async fn put_and_cancel(url: &str) -> Result<(), Error> {
    let client = Client::new(url)?;
    let close = NewJob::json("orders", &42)?.key("order-42");
    client.put(close.delay(Duration::from_secs(30 * 60))).await?;
    client.cancel(("orders", "order-42")).await?;
    Ok(())
}
