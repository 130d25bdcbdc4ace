//! Orders that are closed if they are not paid in time.
//!
//! Three orders come in. One is paid, one is given more time, one is forgotten. The program ends in
//! between, as a crash would end it, and starts again on the same directory: nothing is lost.
//!
//! ```sh
//! cargo run -p tickwheel-queue --example order_close
//! ```

use std::time::Duration;

use tickwheel_queue::{NewJob, Queues, Retry};

/// Half an hour in a shop; half a second here.
const TIME_TO_PAY: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    take_orders(&Queues::open(folder.path())?)?;
    println!("the shop restarts");
    close_orders(&Queues::open(folder.path())?)
}

fn take_orders(queues: &Queues) -> Result<(), Box<dyn std::error::Error>> {
    for order in [1, 2, 3] {
        let close = NewJob::new("close", order.to_string()).key(format!("order-{order}"));
        queues.put(close.delay(TIME_TO_PAY)).wait()?;
        println!("order {order} came in");
    }
    queues.cancel(("close", "order-1")).wait()?;
    println!("order 1 was paid");
    queues.reschedule(("close", "order-2"), TIME_TO_PAY * 2).wait()?;
    println!("order 2 gets more time");
    Ok(())
}

fn close_orders(queues: &Queues) -> Result<(), Box<dyn std::error::Error>> {
    let (lease, wait) = (Duration::from_secs(30), Duration::from_secs(5));
    while queues.stats().wait()?.pending > 0 {
        for delivery in queues.reserve_within("close", 10, lease, wait).wait()? {
            let order = String::from_utf8_lossy(&delivery.job.payload);
            if order == "3" && delivery.job.attempts == 1 {
                println!("order {order}: the warehouse does not answer, tried again later");
                let again = Retry::After(Duration::from_millis(100));
                queues.fail(delivery.lease, "timeout", again).wait()?;
                continue;
            }
            println!("order {order} is closed");
            queues.ack(delivery.lease).wait()?;
        }
    }
    Ok(())
}
