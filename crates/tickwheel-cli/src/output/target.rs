//! Push targets, for people.

use tickwheel_api::{
    HeaderLine, Pacing, Target, TargetResponse, TargetSettings, TargetState, TargetTest,
};

use super::Output;
use super::queue::{pacing, retry};
use super::style::Style;
use super::table::{Cell, Table};
use super::text::{grouped, safe, safe_lines};
use crate::failure::Failure;

fn state_cell(state: TargetState) -> Cell {
    let style = match state {
        TargetState::Active => Style::Good,
        TargetState::Slow | TargetState::Paused => Style::Warning,
        TargetState::Held | TargetState::Stopped => Style::Bad,
    };
    Cell::new(state.as_str()).style(style)
}

pub(crate) fn list(output: &Output, targets: &[Target]) -> Result<(), Failure> {
    if targets.is_empty() {
        return Ok(());
    }
    let mut table =
        Table::new(["target", "state", "in flight", "delivered", "failed", "held", "url"]);
    for target in targets {
        table.row([
            safe(&target.name).into(),
            state_cell(target.state),
            Cell::number(target.in_flight),
            Cell::number(target.counts.delivered),
            Cell::number(target.counts.failed),
            Cell::number(target.counts.held),
            safe(&target.settings.url).into(),
        ]);
    }
    output.table(&table)
}

pub(crate) fn show(output: &Output, target: &Target) -> Result<(), Failure> {
    let Target { settings, counts, .. } = target;
    let mut table = Table::of_fields();
    table.field("target", safe(&target.name));
    table.field("state", state_cell(target.state));
    if let Some(reason) = &target.reason {
        table.field("reason", safe(reason));
    }
    if let Some(probe) = target.next_probe_ms {
        table.field("next probe", output.wall.both(probe));
    }
    let queues: Vec<_> = target.queues.iter().map(|queue| safe(queue)).collect();
    table.field("queues", if queues.is_empty() { "none".to_owned() } else { queues.join(", ") });
    table.field("in flight", grouped(target.in_flight));
    table.field("delivered", grouped(counts.delivered));
    table.field("failed", grouped(counts.failed));
    table.field("held", grouped(counts.held));
    output.table(&table)?;
    output.line("")?;
    let mut table = Table::of_fields();
    table.field("url", safe(&settings.url));
    table.field("method", settings.method.as_str());
    for (name, value) in &settings.headers {
        table.field("header", safe(&format!("{name}: {value}")));
    }
    if !settings.forward.is_empty() {
        table.field("forwards", safe(&settings.forward.join(", ")));
    }
    table.field("timeout", settings.timeout.to_string());
    table.field("trusts", if settings.ca.is_some() { "its own CA" } else { "public CAs" });
    let concurrency = settings.pacing.concurrency.or(Some(TargetSettings::DEFAULT_CONCURRENCY));
    table.field("pacing", pacing(&Pacing { concurrency, ..settings.pacing.clone() }));
    table.field("retry", settings.retry.as_ref().map_or("by the queue".to_owned(), retry));
    if let Some(attempts) = settings.max_attempts {
        table.field("attempts", attempts.to_string());
    }
    for secret in &target.secrets {
        let until = secret.expires_ms.map(|time| format!(", until {}", output.wall.absolute(time)));
        let since = output.wall.absolute(secret.created_ms);
        table.field("secret", format!("since {since}{}", until.unwrap_or_default()));
    }
    output.table(&table)?;
    if target.responses.is_empty() {
        return Ok(());
    }
    output.line("")?;
    responses(output, &target.responses)
}

/// The last answers, the newest first.
fn responses(output: &Output, responses: &[TargetResponse]) -> Result<(), Failure> {
    let mut table = Table::new(["answered", "status", "took", "job", "response"]);
    for response in responses {
        let status = response.status.map_or("none".to_owned(), |status| status.to_string());
        let style = if response.verdict == "delivered" { Style::Good } else { Style::Bad };
        let text = response.error.as_deref().or(response.excerpt.as_deref());
        table.row([
            output.wall.absolute(response.at_ms).into(),
            Cell::new(status).style(style),
            format!("{} ms", response.duration_ms).into(),
            safe(&response.verdict).into(),
            safe(text.unwrap_or_default()).into(),
        ]);
    }
    output.table(&table)
}

/// A test request: as it went over the wire, and what came back.
pub(crate) fn test(output: &Output, test: &TargetTest) -> Result<(), Failure> {
    let address = test.address.as_ref().map(|address| format!(" ({})", safe(address)));
    output.line(format!("{} {}{}", test.method, safe(&test.url), address.unwrap_or_default()))?;
    for HeaderLine { name, value } in &test.request_headers {
        output.line(format!("> {}: {}", safe(name), safe(value)))?;
    }
    output.line(format!("> {}", safe(&test.request_body)))?;
    output.line("")?;
    if let Some(status) = test.status {
        output.line(format!("< {status} after {} ms", test.duration_ms))?;
    }
    for HeaderLine { name, value } in &test.response_headers {
        output.line(format!("< {}: {}", safe(name), safe(value)))?;
    }
    if let Some(body) = test.response_body.as_ref().filter(|body| !body.is_empty()) {
        output.line(safe_lines(body))?;
    }
    if test.verdict == "delivered" {
        output.line("\na job would be delivered")?;
    }
    Ok(())
}

/// Fails if a job would not be delivered, so that a script need not read the answer.
pub(crate) fn verdict(test: &TargetTest) -> Result<(), Failure> {
    let outcome = match &*test.verdict {
        "delivered" => return Ok(()),
        "held" => "a job would go back to its queue, and the target would wait".to_owned(),
        "stopped" => {
            "a job would go back to its queue, and the target would stop until it is resumed"
                .to_owned()
        }
        verdict => format!("a job would be {verdict}"),
    };
    let error = test.error.as_ref().map(|error| format!(": {}", safe(error)));
    Err(Failure::Other(format!("{outcome}{}", error.unwrap_or_default())))
}
