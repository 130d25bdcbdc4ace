//! `config`: the configuration that `serve` would use here, with the origin of each value.

use std::path::Path;

use serde_json::json;
use tickwheel_server::config::{self, Origin, Settings};

use crate::args::{ConfigArgs, ServerOptions};
use crate::failure::Failure;
use crate::output::style::Style;
use crate::output::table::{Cell, Table};
use crate::output::{Output, text};

/// Returns the configuration from flags, environment and file.
pub(crate) fn load(flags: &[(String, String)], file: Option<&Path>) -> Result<Settings, Failure> {
    config::load(flags, std::env::vars_os(), file)
        .map_err(|wrong| Failure::Usage(wrong.to_string()))
}

pub(crate) fn run(output: &Output, args: &ConfigArgs) -> Result<(), Failure> {
    let ServerOptions { config: file, flags } = &args.options;
    let settings = load(&flags.0, file.as_deref())?;
    super::serve::check_log(&settings)?;
    for warning in settings.warnings() {
        output.remark(&format!("warning: {}", text::safe(warning)));
    }
    if output.json {
        return output.document(&document(&settings, file.as_deref()));
    }
    let mut table = Table::new(["option", "value", "from"]);
    for setting in settings.all() {
        let from = setting.origin.to_string();
        let is_default = setting.origin == Origin::Default;
        table.row([
            setting.name.into(),
            text::safe(&setting.value).into(),
            Cell::new(from).style(if is_default { Style::Faint } else { Style::Good }),
        ]);
    }
    output.table(&table)
}

fn document(settings: &Settings, file: Option<&Path>) -> serde_json::Value {
    let options: Vec<_> = config::OPTIONS
        .iter()
        .zip(settings.all())
        .map(|(option, setting)| {
            let (origin, place) = match &setting.origin {
                Origin::Default => ("default", None),
                Origin::File { path, line } => ("file", Some(format!("{}:{line}", path.display()))),
                Origin::Environment(name) => ("environment", Some(name.clone())),
                Origin::Flag(name) => ("flag", Some(name.clone())),
            };
            json!({
                "name": setting.name,
                "value": setting.value,
                "origin": origin,
                "place": place,
                "default": option.default,
                "flag": format!("--{}", option.flag()),
                "variable": option.variable(),
            })
        })
        .collect();
    json!({ "file": file, "options": options, "warnings": settings.warnings() })
}
