//! The TOML file: its values with their lines.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ConfigError, OPTIONS, Origin, Setting};

/// Adds the values of a file.
pub(super) fn read(path: &Path, all: &mut [Setting]) -> Result<(), ConfigError> {
    let at = |line| Origin::File { path: path.to_owned(), line };
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
        origin: at(0),
        option: None,
        why: format!("the file cannot be read: {error}"),
    })?;
    let line_of = |offset: usize| 1 + text[..offset.min(text.len())].matches('\n').count();
    let table = DeTable::parse(&text).map_err(|error| ConfigError {
        origin: at(line_of(error.span().map_or(0, |span| span.start))),
        option: None,
        why: error.message().to_owned(),
    })?;
    walk("", table.get_ref(), &mut |name, value| {
        take(name, value, at(line_of(value.span().start)), all)
    })
}

type Take<'a> = dyn FnMut(&str, &Spanned<DeValue<'_>>) -> Result<(), ConfigError> + 'a;

fn walk(prefix: &str, table: &DeTable<'_>, take: &mut Take<'_>) -> Result<(), ConfigError> {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) if prefix.is_empty() => walk(&format!("{name}."), inner, take)?,
            _ => take(&name, value)?,
        }
    }
    Ok(())
}

fn take(
    name: &str,
    value: &Spanned<DeValue<'_>>,
    origin: Origin,
    all: &mut [Setting],
) -> Result<(), ConfigError> {
    let Some(place) = OPTIONS.iter().position(|option| option.name == name) else {
        let why = format!("there is no option `{name}`");
        return Err(ConfigError { origin, option: None, why });
    };
    let option = Some(OPTIONS[place].name);
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Boolean(yes) => yes.to_string(),
        DeValue::Array(_) => return Err(wrong_type(origin, option, "an array")),
        DeValue::Table(_) => return Err(wrong_type(origin, option, "a table")),
        DeValue::Float(_) | DeValue::Integer(_) => {
            return Err(wrong_type(origin, option, "a number that is not a plain integer"));
        }
        DeValue::Datetime(_) => return Err(wrong_type(origin, option, "a date or time")),
    };
    all[place].value = text;
    all[place].origin = origin;
    Ok(())
}

fn wrong_type(origin: Origin, option: Option<&'static str>, what: &str) -> ConfigError {
    ConfigError {
        origin,
        option,
        why: format!("the value must be a text, an integer or a boolean, got {what}"),
    }
}
