//! The parameters of a query.
//!
//! Each route declares its parameters as a struct of optional fields. The struct derives
//! `utoipa::IntoParams`, which is its part of the `OpenAPI` document, and `query!` reads it from a
//! request. A field is read with `FromStr`; [`Number`] and [`Flag`] have bounds and wording of their
//! own. All errors have one form: the parameter, what is wrong, and what is possible.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Query as Pairs};
use axum::http::request::Parts;

use crate::api::Code;
use crate::app::App;
use crate::problem::Failure;

/// The parameters that a route takes.
pub(crate) trait Query: Sized {
    /// Their names.
    const NAMES: &'static [&'static str];

    fn read(given: &Given) -> Result<Self, Failure>;
}

/// Reads a struct of parameters: `query!(ListQuery { state, limit });` names all its fields.
macro_rules! query {
    ($query:ident { $($field:ident),+ $(,)? }) => {
        impl crate::query::Query for $query {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];

            fn read(given: &crate::query::Given) -> Result<Self, crate::problem::Failure> {
                Ok(Self { $($field: given.parse(stringify!($field))?),+ })
            }
        }
    };
}
pub(crate) use query;

/// The parameters of a request, as a route declares them.
pub(crate) struct Params<Q>(pub(crate) Q);

impl<Q: Query> FromRequestParts<App> for Params<Q> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let pairs = Pairs::<Vec<(String, String)>>::from_request_parts(parts, app)
            .await
            .map_err(|error| Failure::new(Code::InvalidParameter, error.to_string()))?;
        let mut given = Given(BTreeMap::new());
        for (name, value) in pairs.0 {
            if !Q::NAMES.contains(&&name[..]) {
                return Err(unknown(&name, Q::NAMES));
            }
            if given.0.contains_key(&name) {
                return Err(invalid(&name, "is given twice: send it once"));
            }
            given.0.insert(name, value);
        }
        Q::read(&given).map(Self)
    }
}

/// The parameters of a request as text, by name.
pub(crate) struct Given(BTreeMap<String, String>);

impl Given {
    /// Parses a parameter; `None` if it is not given.
    pub(crate) fn parse<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Failure> {
        let value = self.0.get(name).map(|text| text.parse::<T>());
        value.transpose().map_err(|error| invalid(name, error))
    }
}

/// Returns the refusal of a parameter that a route does not have.
pub(crate) fn unknown(name: &str, known: &[&str]) -> Failure {
    let name = shown(name);
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let why = format!("unknown parameter {name:?}: this route takes {known}");
    Failure::new(Code::InvalidParameter, why).at(name)
}

/// Returns the refusal of a parameter with this value.
pub(crate) fn invalid(name: &str, why: impl Display) -> Failure {
    Failure::new(Code::InvalidParameter, format!("parameter {name:?}: {why}")).at(name)
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// A number within bounds, both included.
#[derive(Clone, Copy)]
pub(crate) struct Number<const MIN: usize, const MAX: usize>(pub(crate) usize);

impl<const MIN: usize, const MAX: usize> FromStr for Number<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|number| (MIN..=MAX).contains(number));
        number.map(Self).ok_or_else(|| {
            format!("must be a number between {MIN} and {MAX}, got {:?}", shown(text))
        })
    }
}

/// `true` or `false`.
#[derive(Clone, Copy)]
pub(crate) struct Flag(pub(crate) bool);

impl FromStr for Flag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("must be true or false, got {:?}", shown(text));
        text.parse().map(Self).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Example {
        limit: Option<Number<1, 10>>,
        force: Option<Flag>,
    }
    query!(Example { limit, force });

    fn read(pairs: &[(&str, &str)]) -> Result<Example, String> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Example::read(&Given(pairs.collect())).map_err(|failure| failure.problem.detail)
    }

    #[test]
    fn a_parameter_is_read_or_refused_with_its_name_and_its_bounds() {
        let example = read(&[("limit", "10"), ("force", "true")]).unwrap();
        assert_eq!(example.limit.map(|limit| limit.0), Some(10));
        assert!(example.force.is_some_and(|force| force.0));
        assert!(read(&[]).is_ok_and(|example| example.limit.is_none()));
        for (name, value, why) in [
            ("limit", "11", r#"parameter "limit": must be a number between 1 and 10, got "11""#),
            ("limit", "x", r#"parameter "limit": must be a number between 1 and 10, got "x""#),
            ("force", "no", r#"parameter "force": must be true or false, got "no""#),
        ] {
            assert_eq!(read(&[(name, value)]).err().as_deref(), Some(why));
        }
    }

    #[test]
    fn an_unknown_parameter_is_refused_with_those_that_are_known() {
        let refusal = unknown("colour", Example::NAMES).problem;
        assert_eq!(refusal.detail, r#"unknown parameter "colour": this route takes limit, force"#);
        assert_eq!(refusal.field.as_deref(), Some("colour"));
        let refusal = unknown("delay", &[]).problem;
        assert_eq!(refusal.detail, r#"unknown parameter "delay": this route takes none"#);
    }
}
