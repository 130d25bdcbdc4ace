//! Variables in values, and the comparison of values with expectations.

use std::collections::HashMap;

use serde_json::{Map, Value};
use tickwheel_client::api::Delay;

/// Returns the value with its variables and sums replaced.
pub(crate) fn filled(value: &Value, variables: &HashMap<String, Value>) -> Value {
    match value {
        Value::String(text) => text_of(text, variables),
        Value::Array(items) => items.iter().map(|item| filled(item, variables)).collect(),
        Value::Object(members) => {
            if let Some(Value::Array(terms)) = members.get("$sum") {
                let number = |term| filled(term, variables).as_i64().expect("a number to add");
                return terms.iter().map(number).sum::<i64>().into();
            }
            let filled = |(name, value): (&String, _)| (name.clone(), filled(value, variables));
            Value::Object(members.iter().map(filled).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

fn text_of(text: &str, variables: &HashMap<String, Value>) -> Value {
    let variable =
        |name: &str| variables.get(name).unwrap_or_else(|| panic!("there is no variable {name:?}"));
    if let Some(name) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
        && !name.contains("${")
    {
        return variable(name).clone();
    }
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').expect("a variable ends with a brace");
        result.push_str(before);
        match variable(name) {
            Value::String(text) => result.push_str(text),
            other => result.push_str(&other.to_string()),
        }
        rest = after;
    }
    Value::String(result + rest)
}

/// Returns `true` if a value, or its absence, is as expected.
pub(crate) fn matches(expected: &Value, found: Option<&Value>) -> bool {
    let found = found.filter(|value| !value.is_null());
    match expected {
        Value::Null => found.is_none(),
        Value::Object(members) => match special(members) {
            Some((name, argument)) => matches_special(name, argument, found),
            None => found.and_then(Value::as_object).is_some_and(|object| {
                members.iter().all(|(name, value)| matches(value, object.get(name)))
            }),
        },
        Value::Array(items) => found.and_then(Value::as_array).is_some_and(|array| {
            array.len() == items.len()
                && items.iter().zip(array).all(|(item, found)| matches(item, Some(found)))
        }),
        Value::Number(number) => number.as_f64() == found.and_then(Value::as_f64),
        other => found == Some(other),
    }
}

fn special(members: &Map<String, Value>) -> Option<(&str, &Value)> {
    let (name, argument) = members.iter().next().filter(|_| members.len() == 1)?;
    name.starts_with('$').then_some((name, argument))
}

fn matches_special(name: &str, argument: &Value, found: Option<&Value>) -> bool {
    match name {
        "$any" => found.is_some(),
        "$absent" => found.is_none(),
        "$exact" => found == Some(argument),
        "$contains" => {
            let wanted = argument.as_str().expect("a text");
            found.and_then(Value::as_str).is_some_and(|text| text.contains(wanted))
        }
        "$duration" => found.is_some_and(|found| duration(argument) == duration(found)),
        "$between" => {
            let bound = |index| argument[index].as_f64().expect("a bound");
            found.and_then(Value::as_f64).is_some_and(|it| bound(0) <= it && it <= bound(1))
        }
        "$not" => !matches(argument, found),
        other => panic!("unknown kind of match {other:?}"),
    }
}

fn duration(value: &Value) -> Delay {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}
