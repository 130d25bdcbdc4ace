use std::time::Duration;
use tickwheel_client::NewJob;
use tickwheel_client::api::ReserveRequest;
use tickwheel_client::testing::Server;

pub async fn thirty_minutes() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start()?;
    let client = server.client()?;
    client.put(NewJob::json("orders", &42)?.delay(Duration::from_secs(30 * 60))).await?;
    client.advance(Duration::from_secs(31 * 60)).await?;
    assert_eq!(client.reserve("orders", ReserveRequest::default()).await?.len(), 1);
    Ok(())
}
