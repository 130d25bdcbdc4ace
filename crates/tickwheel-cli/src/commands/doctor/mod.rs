//! `doctor`: what is wrong with a server or its directory, and what to do about it.
//!
//! The checks of a directory are in the server's crate, which knows the files. Those of a running
//! server ask its API, and are in `server` and `cluster`.

mod cluster;
mod server;

use serde_json::json;
use tickwheel_server::diagnosis::{self, Finding, Severity};

use super::Context;
use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::output::style::Style;
use crate::output::{Output, text};

/// Checks a directory if one is named, else the running server.
pub(crate) fn run<'a>(
    output: &Output,
    args: &DoctorArgs,
    context: impl FnOnce() -> Result<Context<'a>, Failure>,
) -> Result<(), Failure> {
    let Some(data) = &args.data else {
        let context = context()?;
        let findings = server::check(&context)?;
        return report(output, context.client.base(), &findings, &[]);
    };
    let flags = [("data".to_owned(), data.clone())];
    let settings = super::config::load(&flags, args.config.as_deref())?;
    let check = || diagnosis::checkup(settings.config());
    let findings = check();
    if !args.repair {
        return report(output, data, &findings, &[]);
    }
    let repairs: Vec<_> = findings.iter().filter_map(|finding| finding.repair.as_ref()).collect();
    if repairs.is_empty() {
        output.remark("there is nothing that --repair can repair");
        return report(output, data, &findings, &[]);
    }
    if !output.json {
        show(output, &findings)?;
        output.line("\nRepair:")?;
        for repair in &repairs {
            output.line(format!("  {}", text::safe(&repair.to_string())))?;
        }
    }
    if !args.yes && !output.is_confirmed("this changes the directory")? {
        output.remark("nothing was changed");
        return verdict(&findings);
    }
    let mut done = Vec::new();
    for repair in repairs {
        let told = repair.run().map_err(|why| Failure::Other(format!("{repair}: {why}")))?;
        output.remark(&text::safe(&told));
        done.push(told);
    }
    report(output, data, &check(), &done)
}

fn worst(findings: &[Finding]) -> Severity {
    findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Fine)
}

fn verdict(findings: &[Finding]) -> Result<(), Failure> {
    match worst(findings) {
        Severity::Fine | Severity::Note => Ok(()),
        Severity::Warning => Err(Failure::Findings { are_errors: false }),
        Severity::Error => Err(Failure::Findings { are_errors: true }),
    }
}

/// Shows the findings, and turns the worst into an exit code.
fn report(
    output: &Output,
    checked: &str,
    findings: &[Finding],
    repaired: &[String],
) -> Result<(), Failure> {
    if output.json {
        output.document(&json!({
            "checked": checked,
            "status": worst(findings),
            "findings": findings,
            "repaired": repaired,
        }))?;
        return verdict(findings);
    }
    show(output, findings)?;
    let number =
        |severity| findings.iter().filter(|finding| finding.severity == severity).count() as u64;
    let (errors, warnings) = (number(Severity::Error), number(Severity::Warning));
    let checked = text::safe(checked);
    output.line(match (errors, warnings) {
        (0, 0) => format!("\n{checked}: nothing is wrong"),
        (0, warnings) => format!("\n{checked}: {}", text::count(warnings, "warning")),
        (errors, warnings) => format!(
            "\n{checked}: {}, {}",
            text::count(errors, "error"),
            text::count(warnings, "warning")
        ),
    })?;
    verdict(findings)
}

fn show(output: &Output, findings: &[Finding]) -> Result<(), Failure> {
    for finding in findings {
        let (label, style) = match finding.severity {
            Severity::Fine => ("ok", Style::Good),
            Severity::Note => ("note", Style::Active),
            Severity::Warning => ("warning", Style::Warning),
            Severity::Error => ("error", Style::Bad),
        };
        let label = output.paint.text(style, &format!("{label:<7}"));
        let (check, message) = (finding.check, text::safe(&finding.message));
        output.line(format!("{label}  {check}: {message}"))?;
        if let Some(advice) = &finding.advice {
            output.line(format!("         → {}", text::safe(advice)))?;
        }
    }
    Ok(())
}
