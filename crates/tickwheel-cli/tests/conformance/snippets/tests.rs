use std::time::Duration;
use tickwheel_client::NewJob;
use tickwheel_client::api::ReserveRequest;
use tickwheel_client::testing::{Fake, Server};

type Outcome = Result<(), Box<dyn std::error::Error>>;

// In a project of yours: #[tokio::test].
pub async fn an_unpaid_order_is_closed() -> Outcome {
    let server = Server::start()?; // The real binary; its clock stands still.
    let client = server.client()?;
    client.put(NewJob::text("orders", "42").delay(Duration::from_secs(30 * 60))).await?;
    client.advance(Duration::from_secs(31 * 60)).await?;
    let due = client.reserve("orders", ReserveRequest::default()).await?;
    assert_eq!(due[0].job.text.as_deref(), Some("42"));
    Ok(())
}

pub async fn a_paid_order_is_not_closed() -> Outcome {
    let fake = Fake::new(); // No process, no socket.
    let client = fake.client();
    let close = NewJob::text("orders", "42").key("order-42");
    client.put(close.delay(Duration::from_secs(30 * 60))).await?;
    client.cancel(("orders", "order-42")).await?;
    fake.advance(Duration::from_secs(31 * 60));
    assert!(fake.jobs("orders").is_empty());
    Ok(())
}
