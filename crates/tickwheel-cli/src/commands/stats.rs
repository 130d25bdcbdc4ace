//! `stats`: what the server has done since it started, and what it has.

use std::time::Duration;

use tickwheel_server::api::{Percentiles, Stats};

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
    table.field("in memory", grouped(stats.in_memory));
    table.field("on disk", bytes(stats.disk_bytes));
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
        table.field(name, grouped(count));
    }
    table.field("commit time", percentiles(&stats.commit_time));
    table.field("lateness", percentiles(&stats.lateness));
    table
}

fn percentiles(times: &Percentiles) -> String {
    if times.count == 0 {
        return "-".to_owned();
    }
    let told = |micros| match Duration::from_micros(micros) {
        short if short < Duration::from_millis(1) => format!("{micros}µs"),
        time => rough(time),
    };
    format!("p50 {}, p99 {}, max {}", told(times.p50_us), told(times.p99_us), told(times.max_us))
}
