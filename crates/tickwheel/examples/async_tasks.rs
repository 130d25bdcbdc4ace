//! Timer tasks that are futures, on tokio.
//!
//! A timer runs its tasks on threads of its own, where `tokio::spawn` panics. A `Spawner` hands
//! their futures to the runtime instead.
//!
//! `cargo run --release -p tickwheel --example async_tasks`

use std::error::Error;
use std::time::Duration;

use tickwheel::{Spawner, Timer};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let timer = Timer::new();
    let handle = Handle::current();
    let on_tokio = Spawner::new(move |future| {
        handle.spawn(future);
    });

    // Each run takes 25 ms, so of the runs that are due every 10 ms two in three are skipped.
    let (pauses, mut number) = (timer.clone(), 0);
    let beat = timer.every(
        Duration::from_millis(10),
        on_tokio.repeat(move || {
            number += 1;
            println!("beat {number}");
            pauses.sleep(Duration::from_millis(25))
        }),
    )?;

    let (closed, is_closed) = oneshot::channel();
    let close = on_tokio.once(async move {
        // Code of the runtime works here: sockets, channels, `tokio::spawn`.
        println!("order 42 is closed");
        let _ = closed.send(());
    });
    timer.key("order-42").after(Duration::from_millis(100), close)?;

    is_closed.await?;
    beat.cancel();
    Ok(())
}
