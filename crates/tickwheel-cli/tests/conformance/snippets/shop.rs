use std::time::Duration;
use tickwheel_client::{Client, Error, NewJob};

async fn order_placed(client: &Client, order: u64) -> Result<(), Error> {
    let close = NewJob::json("orders", &order)?
        .delay(Duration::from_secs(30 * 60))
        .key(format!("order-{order}"));
    client.put(close).await?;
    Ok(())
}

async fn order_paid(client: &Client, order: u64) -> Result<(), Error> {
    match client.cancel(("orders", format!("order-{order}"))).await {
        Err(error) if error.is_not_found() => {
            println!("too late: order {order} was closed");
            Ok(())
        }
        other => other.map(drop),
    }
}

pub async fn run(url: &str) -> Result<(), Error> {
    let client = Client::new(url)?; // With a token: Client::builder(url).token("twk_…").build()?
    order_placed(&client, 42).await?;
    order_paid(&client, 42).await?;
    order_paid(&client, 42).await
}
