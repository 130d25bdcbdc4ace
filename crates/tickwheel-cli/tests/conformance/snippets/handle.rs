use tickwheel_client::{Client, Error, Payload, Work};

pub async fn work(url: &str, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let worker = Client::new(url)?.worker().handle("orders", async |work: Work| {
        println!("closing order {}", work.job().json::<u64>()?);
        Ok::<_, Error>(())
    });
    worker.run(stop).await;
    Ok(())
}
