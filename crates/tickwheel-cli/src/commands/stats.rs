//! `stats`: counters since the start of the server, and current numbers.

use std::time::Duration;

use tickwheel_api::{Activity, Percentiles, Stats};

use super::Context;
use crate::args::StatsArgs;
use crate::client::Path;
use crate::failure::Failure;
use crate::output::table::Table;
use crate::output::text::{bytes, grouped};
use crate::output::time::rough;

pub(crate) fn run(context: &Context, args: &StatsArgs) -> Result<(), Failure> {
    let mut path = Path::new(&["stats"]);
    if let Some(window) = args.since {
        path = path.query("since", &window.to_string());
    }
    let answer = context.client.get(&path)?;
    context.output.answer(&answer, |stats: &Stats| {
        context.output.line("Now")?;
        context.output.table(&now(stats))?;
        // A token for some queues sees no more.
        if stats.put.is_none() {
            return Ok(());
        }
        if let Some(recent) = &stats.recent {
            let window = rough(Duration::from_millis(recent.window_ms));
            context.output.line(format!("\nIn the last {window}"))?;
            return context.output.table(&lately(recent));
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

fn lately(recent: &Activity) -> Table {
    let seconds = (recent.window_ms as f64 / 1_000.0).max(0.001);
    let mut table = Table::of_fields();
    for (name, count) in [
        ("put", recent.put),
        ("delivered", recent.delivered),
        ("acked", recent.acked),
        ("failed", recent.failed),
        ("leases run out", recent.expired),
        ("released", recent.released),
        ("died", recent.died),
        ("cancelled", recent.cancelled),
        ("kicked", recent.kicked),
    ] {
        let rate = count as f64 / seconds;
        table.field(name, format!("{} ({rate:.1}/s)", grouped(count)));
    }
    table.field("lateness", percentiles(Some(&recent.lateness)));
    table
}

pub(crate) fn percentiles(times: Option<&Percentiles>) -> String {
    let Some(times) = times.filter(|times| times.count > 0) else { return "-".to_owned() };
    let told = |micros| match Duration::from_micros(micros) {
        short if short < Duration::from_millis(1) => format!("{micros}µs"),
        time => rough(time),
    };
    format!("p50 {}, p99 {}, max {}", told(times.p50_us), told(times.p99_us), told(times.max_us))
}
