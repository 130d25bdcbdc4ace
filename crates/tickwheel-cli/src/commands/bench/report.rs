//! What a run shows at its end.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::plan::Plan;
use super::record::{Record, Stage};
use crate::args::{BenchArgs, BenchMode};
use crate::failure::Failure;
use crate::output::style::Style;
use crate::output::table::{Cell, Table};
use crate::output::time::rough;
use crate::output::{Output, text};

/// A rate below this share of the wanted one is worth a remark.
const ENOUGH: f64 = 0.95;
const QUANTILES: [(&str, &str, f64); 4] =
    [("p50", "p50", 0.5), ("p90", "p90", 0.9), ("p99", "p99", 0.99), ("p99.9", "p999", 0.999)];

pub(super) fn show(
    output: &Output,
    server: &str,
    args: &BenchArgs,
    plan: &Plan,
    record: &Record,
) -> Result<(), Failure> {
    // The last request is sent an interval before the end of the plan.
    let took = record.took.max(plan.duration());
    let rate = record.put as f64 / took.as_secs_f64().max(0.001);
    if output.json {
        return output.document(&document(server, args, plan, record, rate));
    }
    output.line(format!(
        "{} put in {}: {rate:.0}/s of {}/s wanted, {}, {} each, {} of payload",
        text::count(record.put, "job"),
        rough(took),
        text::grouped(args.rate.into()),
        text::count(args.connections.into(), "connection"),
        text::count(args.batch.into(), "job"),
        text::bytes(args.payload_bytes.into()),
    ))?;
    output.table(&table(record))?;
    for (kind, count) in &record.errors {
        let told = format!("{}: {}", text::count(*count, "error"), text::safe(kind));
        output.line(output.paint.text(Style::Bad, &told))?;
    }
    if record.early > 0 {
        let told = format!("{} came before they were due", text::count(record.early, "job"));
        output.line(output.paint.text(Style::Bad, &told))?;
    }
    if rate < ENOUGH * f64::from(args.rate) && record.errors() == 0 {
        output.remark(
            "the rate was not reached: latencies contain the time that requests waited to be sent; \
             more --connections or a larger --batch may help",
        );
    }
    Ok(())
}

fn table(record: &Record) -> Table {
    let mut table = Table::new(["", "count", "p50", "p90", "p99", "p99.9", "max"]);
    for stage in Stage::ALL {
        let times = record.of(stage);
        if times.is_empty() {
            continue;
        }
        let mut row = vec![Cell::new(stage.name()), Cell::number(times.len())];
        let values = QUANTILES.iter().map(|(_, _, quantile)| times.value_at_quantile(*quantile));
        row.extend(
            values.chain([times.max()]).map(|micros| Cell::new(told(micros)).right_aligned()),
        );
        table.row(row);
    }
    table
}

/// A time in three digits and its unit.
fn told(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.2} ms", micros as f64 / 1e3),
        10_000..100_000 => format!("{:.1} ms", micros as f64 / 1e3),
        100_000..1_000_000 => format!("{:.0} ms", micros as f64 / 1e3),
        1_000_000..10_000_000 => format!("{:.2} s", micros as f64 / 1e6),
        _ => rough(Duration::from_micros(micros)),
    }
}

fn document(server: &str, args: &BenchArgs, plan: &Plan, record: &Record, rate: f64) -> Value {
    let latencies: Map<String, Value> = Stage::ALL
        .into_iter()
        .filter(|stage| !record.of(*stage).is_empty())
        .map(|stage| (stage.field().to_owned(), percentiles(record.of(stage))))
        .collect();
    json!({
        "server": server,
        "mode": if args.mode == BenchMode::Put { "put" } else { "end-to-end" },
        "queue": plan.queue,
        "rate": args.rate,
        "duration_ms": plan.duration().as_millis() as u64,
        "connections": args.connections,
        "batch": args.batch,
        "payload_bytes": args.payload_bytes,
        "delay_ms": plan.delay.as_millis(),
        "jobs_put": record.put,
        "jobs_acked": record.acked,
        "achieved_rate": rate,
        "errors": record.errors,
        "early": record.early,
        "latency_us": latencies,
    })
}

fn percentiles(times: &Histogram<u64>) -> Value {
    let mut fields = Map::new();
    fields.insert("count".to_owned(), times.len().into());
    for (_, field, quantile) in QUANTILES {
        fields.insert(field.to_owned(), times.value_at_quantile(quantile).into());
    }
    fields.insert("max".to_owned(), times.max().into());
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let times = [7, 999, 1_234, 12_345, 123_456, 1_234_567, 75_000_000].map(told);
        let wanted = ["7 µs", "999 µs", "1.23 ms", "12.3 ms", "123 ms", "1.23 s", "1m 15s"];
        assert_eq!(times, wanted);
    }
}
