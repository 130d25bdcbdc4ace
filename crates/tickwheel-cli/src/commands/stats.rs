//! `stats`: what the server has done since it started, and what it has.

use std::time::Duration;

use tickwheel_api::{Percentiles, Stats};

use super::Context;
use crate::client::Path;
use crate::failure::Failure;
use crate::output::table::Table;
use crate::output::text::{bytes, grouped};
use crate::output::time::rough;

pub(crate) fn run(context: &Context) -> Result<(), Failure> {
    let answer = context.client.get(&Path::new(&["stats"]))?;
    context.output.answer(&answer, |stats: &Stats| {
        context.output.line("Now")?;
        context.output.table(&now(stats))?;
        // A token that is limited to some queues sees no more.
        if stats.put.is_none() {
            return Ok(());
        }
        context.output.line("\nSince the server started")?;
        context.output.table(&since(stats))
    })
}

fn now(stats: &Stats) -> Table {
    let mut table = Table::of_fields();
    let durability = serde_json::to_value(stats.durability).unwrap_or_default();
    table.field("durability", durability.as_str().unwrap_or_default());
    table.field("horizon", stats.horizon.to_string());
    table.field("queues", grouped(stats.queues));
    table.field("pending", grouped(stats.pending));
    table.field("leased", grouped(stats.leased));
    if let (Some(jobs), Some(disk)) = (stats.in_memory, stats.disk_bytes) {
        table.field("in memory", grouped(jobs));
        table.field("on disk", bytes(disk));
    }
    table
}

fn since(stats: &Stats) -> Table {
    let mut table = Table::of_fields();
    let counts = [
        ("put", stats.put),
        ("delivered", stats.delivered),
        ("acked", stats.acked),
        ("failed", stats.failed),
        ("leases run out", stats.expired),
        ("released", stats.released),
        ("died", stats.died),
        ("cancelled", stats.cancelled),
        ("kicked", stats.kicked),
        ("damaged", stats.damaged),
        ("commits", stats.commits),
        ("store failures", stats.failures),
    ];
    for (name, count) in counts {
        table.field(name, grouped(count.unwrap_or_default()));
    }
    table.field("commit time", percentiles(stats.commit_time.as_ref()));
    table.field("lateness", percentiles(stats.lateness.as_ref()));
    table
}

fn percentiles(times: Option<&Percentiles>) -> String {
    let Some(times) = times.filter(|times| times.count > 0) else { return "-".to_owned() };
    let told = |micros| match Duration::from_micros(micros) {
        short if short < Duration::from_millis(1) => format!("{micros}µs"),
        time => rough(time),
    };
    format!("p50 {}, p99 {}, max {}", told(times.p50_us), told(times.p99_us), told(times.max_us))
}
