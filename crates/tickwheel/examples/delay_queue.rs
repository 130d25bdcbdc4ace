//! Orders that are closed when nobody pays: `cargo run --release -p tickwheel --example delay_queue`.
//!
//! One thread takes orders and payments; two workers, a thread and an async task, share the
//! orders whose time is over.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use tickwheel::{DelayQueue, Timer};

#[derive(Debug)]
struct Order {
    number: u32,
    placed: Instant,
}

const TIME_TO_PAY: Duration = Duration::from_millis(200);

fn close(who: &str, order: &Order) {
    println!("{who} closes order {} after {:?}", order.number, order.placed.elapsed());
    thread::sleep(Duration::from_millis(15)); // tells the warehouse
}

fn main() -> Result<(), Box<dyn Error>> {
    // At most a thousand orders wait; whoever pushes more waits as well.
    let unpaid: DelayQueue<Order> = DelayQueue::bounded(&Timer::new(), 1_000);

    let worker = thread::spawn({
        let unpaid = unpaid.clone();
        move || {
            while let Some(order) = unpaid.pop_blocking() {
                close("the thread", &order);
            }
        }
    });
    let task = thread::spawn({
        let unpaid = unpaid.clone();
        move || {
            futures::executor::block_on(async {
                while let Some(order) = unpaid.pop().await {
                    close("the task", &order);
                }
            });
        }
    });

    for number in 1..=12 {
        let order = Order { number, placed: Instant::now() };
        unpaid.key(number).push_blocking(order, TIME_TO_PAY)?;
        thread::sleep(Duration::from_millis(10));
    }
    for number in [2, 3, 5, 7, 11] {
        if let Some(order) = unpaid.key(number).remove() {
            println!("order {} is paid", order.number);
        }
    }
    unpaid.key(12).reset(Duration::from_secs(3_600)); // called, and wants an hour
    thread::sleep(2 * TIME_TO_PAY);

    for order in unpaid.close() {
        println!("order {} is left for the next start", order.number);
    }
    worker.join().and_then(|()| task.join()).map_err(|_| "a worker panicked")?;
    Ok(())
}
