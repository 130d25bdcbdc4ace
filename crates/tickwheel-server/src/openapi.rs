//! The description of all routes, in `OpenAPI`.
//!
//! The description of one route is at its handler. Parts that follow from the path, from a body or
//! from the middleware are added here, to all routes by the same rules: names in the path,
//! problems, the token, the request id.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use tickwheel_queue::{NewSchedule, Pacing, RetryPolicy};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder};

use crate::api::Code;
use crate::examples;

const PROBLEM: &str = "application/problem+json";
/// Routes with an optional body.
const OPTIONAL_BODY: [&str; 3] = ["reserveJobs", "kickQueue", "rotateTarget"];
/// Routes that need an existing queue.
const NEEDS_QUEUE: [&str; 9] = [
    "getQueue",
    "removeQueue",
    "pauseQueue",
    "resumeQueue",
    "kickQueue",
    "removeFinishedJobs",
    "cancelWaitingJobs",
    "listErrors",
    "changeMatchingJobs",
];

/// Returns the head of the document.
pub(crate) fn head() -> OpenApi {
    let tags = [
        ("jobs", "Put, see, cancel and reschedule jobs"),
        ("workers", "Reserve jobs, and say what became of them"),
        ("batches", "Many at once: one commit, one answer for each item"),
        ("queues", "Queues and their settings"),
        ("schedules", "Jobs that are put again and again"),
        ("targets", "HTTP endpoints that get the jobs of queues"),
        ("events", "What happens, as it happens"),
        ("insight", "Overview, history and timing wheel, for dashboards"),
        ("cluster", "The nodes of a cluster, and the partitions that they own"),
        ("system", "How the service is"),
    ];
    let license = LicenseBuilder::new().name("MIT OR Apache-2.0");
    let info = InfoBuilder::new()
        .title("Tickwheel")
        .version(env!("CARGO_PKG_VERSION"))
        .license(Some(license.build()))
        .description(Some(
            "Durable delayed jobs. Times in answers come as RFC 3339 text and in milliseconds; \
             lengths of time in requests are milliseconds or texts like \"1h30m\". Everything that \
             goes wrong is answered with a problem document of RFC 9457.",
        ));
    let tags =
        tags.map(|(name, about)| TagBuilder::new().name(name).description(Some(about)).build());
    OpenApiBuilder::new().info(info.build()).tags(Some(tags)).build()
}

/// Returns the whole document.
pub(crate) fn finish(api: &OpenApi) -> Value {
    let mut document = serde_json::to_value(api).unwrap_or_default();
    let problem = <crate::api::Problem as utoipa::PartialSchema>::schema();
    let code = <Code as utoipa::PartialSchema>::schema();
    let components = &mut document["components"];
    components["schemas"]["Problem"] = serde_json::to_value(problem).unwrap_or_default();
    components["schemas"]["Code"] = serde_json::to_value(code).unwrap_or_default();
    components["securitySchemes"]["token"] = json!({
        "type": "http", "scheme": "bearer",
        "description": "A token from `tickwheel token new`. Required as soon as one exists.",
    });
    components["headers"]["X-Request-Id"] = json!({
        "description": "The id of the request, which the log of the server shows too",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"},
    });
    components["schemas"].as_object_mut().into_iter().for_each(|schemas| {
        schemas.values_mut().for_each(merge_choices);
        schemas.values_mut().for_each(drop_empty_times);
    });
    for (property, keyword, bound) in bounds() {
        let property = document.pointer_mut(&format!("/components/schemas/{property}"));
        if let Some(property) = property {
            property[keyword] = bound.into();
        }
    }
    document["security"] = json!([{}, {"token": []}]);
    tidy(&mut document);
    let mut document = name_generics(&document);
    if let Some(paths) = document["paths"].as_object_mut() {
        for (path, item) in paths {
            let operations = item.as_object_mut().into_iter().flatten();
            for (method, operation) in operations {
                complete(path, operation);
                examples::add(method, operation);
            }
        }
    }
    document
}

/// Turns a choice between objects of one property each, which is what a Rust enum is as JSON, into
/// one object that has exactly one of these properties. Generators of clients make a plain class of
/// it, and cannot name the anonymous objects of a `oneOf`.
fn merge_choices(schema: &mut Value) {
    let Some(choices) = schema["oneOf"].as_array() else { return };
    let mut properties = Map::new();
    for choice in choices {
        match choice["properties"].as_object() {
            Some(fields) if fields.len() == 1 => properties.extend(fields.clone()),
            _ => return,
        }
    }
    let mut merged = json!({
        "type": "object", "properties": properties, "additionalProperties": false,
        "minProperties": 1, "maxProperties": 1,
    });
    merged["description"] = schema["description"].take();
    *schema = merged;
}

/// Removes defaults that are empty texts where a time is expected. They come from types that default
/// as a whole, and generators of clients refuse them.
fn drop_empty_times(schema: &mut Value) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(|properties| properties.values_mut()) {
        if property["format"] == "date-time" && property["default"] == "" {
            property.as_object_mut().map(|property| property.remove("default"));
        }
    }
}

/// Gives schemas of generic types a plain name, `AckedResults` instead of `Results_Acked`, because
/// generators of clients make class names from them. The copy of the inner type that such a schema
/// contains becomes a reference.
fn name_generics(document: &Value) -> Value {
    let mut document = document.clone();
    let schemas = &mut document["components"]["schemas"];
    let all: Vec<String> =
        schemas.as_object().into_iter().flatten().map(|it| it.0.clone()).collect();
    let generics: Vec<_> =
        all.iter().filter_map(|name| Some((name, name.split_once('_')?))).collect();
    for &(name, (_, inner)) in &generics {
        let copy = schemas[inner].clone();
        refer(&mut schemas[name], &copy, &json!({"$ref": format!("#/components/schemas/{inner}")}));
    }
    let text = generics.into_iter().fold(document.to_string(), |text, (old, (generic, inner))| {
        text.replace(&format!("\"{old}\""), &format!("\"{inner}{generic}\""))
            .replace(&format!("/schemas/{old}\""), &format!("/schemas/{inner}{generic}\""))
    });
    serde_json::from_str(&text).unwrap_or_default()
}

/// Replaces copies of a schema within another one by a reference.
fn refer(within: &mut Value, copy: &Value, reference: &Value) {
    match within {
        value if value == copy => *value = reference.clone(),
        Value::Object(fields) => fields.values_mut().for_each(|it| refer(it, copy, reference)),
        Value::Array(items) => items.iter_mut().for_each(|it| refer(it, copy, reference)),
        _ => {}
    }
}

/// The bounds that the queue checks: a property's place among the schemas, a keyword of JSON
/// Schema, and the bound.
fn bounds() -> [(&'static str, &'static str, usize); 5] {
    [
        ("Pacing/properties/starts", "maximum", Pacing::MAX_STARTS as usize),
        ("Exponential/properties/jitter", "maximum", RetryPolicy::MAX_JITTER.into()),
        ("Retry/properties/list", "minItems", 1),
        ("Retry/properties/list", "maxItems", RetryPolicy::MAX_DELAYS),
        ("ScheduleRequest/properties/misfire_limit", "maximum", NewSchedule::MAX_MISSED),
    ]
}

/// Returns `METHOD /path` of each route, with its description.
fn operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flatten();
        methods.map(move |(method, it)| (format!("{} {path}", method.to_uppercase()), it))
    })
}

/// Returns `METHOD /path` of each route.
pub(crate) fn routes(document: &Value) -> Vec<String> {
    operations(document).map(|(name, _)| name).collect()
}

/// Returns `METHOD /path` of each route that has parameters in its query.
pub(crate) fn with_query(document: &Value) -> HashSet<String> {
    let has_query = |operation: &Value| {
        let mut parameters = operation["parameters"].as_array().into_iter().flatten();
        parameters.any(|parameter| parameter["in"] == "query")
    };
    operations(document).filter(|(_, it)| has_query(it)).map(|(name, _)| name).collect()
}

/// Removes Rust examples and links from all descriptions.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(text) if name == "description" => *text = plain(text),
                    _ => tidy(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn plain(text: &str) -> String {
    let words = text.split("```").next().unwrap_or_default().trim_end();
    let mut parts = words.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    let text = parts.fold(first, |text, part| text + part.split_once(')').map_or("", |it| it.1));
    text.replace("[`", "`").replace("`]", "`")
}

/// Removes `null` from the schema of a parameter: an absent parameter is left out.
fn without_null(schema: &mut Value) {
    if let Some(kinds) = schema["type"].as_array() {
        let kinds: Vec<_> = kinds.iter().filter(|kind| *kind != "null").cloned().collect();
        if let [kind] = &kinds[..] {
            schema["type"] = kind.clone();
        }
    }
    if let Some(choices) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
        choices.retain(|choice| choice["type"] != "null");
    }
}

fn complete(path: &str, operation: &mut Value) {
    for parameter in
        operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten()
    {
        without_null(&mut parameter["schema"]);
    }
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let in_path: Vec<_> = names.map(path_parameter).collect();
    let has_names = !in_path.is_empty();
    let has_params = has_names || operation.get("parameters").is_some();
    let has_body = operation.get("requestBody").is_some();
    if has_names {
        let given = operation["parameters"].take();
        let given = given.as_array().cloned().unwrap_or_default();
        operation["parameters"] = in_path.into_iter().chain(given).collect();
    }
    let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
    if has_body {
        operation["requestBody"]["required"] = Value::Bool(!OPTIONAL_BODY.contains(&&id[..]));
    }
    let is_open = operation.get("security").is_some();
    let needs_something =
        ["{id}", "{key}", "{name}", "{target}", "{code}"].iter().any(|it| path.contains(it))
            || NEEDS_QUEUE.contains(&&id[..]);
    let mut problems = vec![(403, "The token, the host or the origin does not allow this")];
    problems.push((429, "Too many requests, or no room for more"));
    if has_params || has_body || path.starts_with("/v1/") {
        problems.push((400, "The body is not JSON, or a parameter or header is invalid"));
    }
    if has_params {
        problems.push((414, "The address is longer than 8 KiB"));
    }
    if !is_open {
        problems.push((401, "A valid token is required"));
        problems.push((500, "Internal error"));
    }
    if !is_open || id == "readyz" {
        problems.push((503, "The server cannot answer now"));
    }
    if needs_something {
        problems.push((404, "Not found"));
    }
    if has_body {
        problems.push((413, "The body, or something in it, is too large"));
        problems.push((415, "The body must be JSON"));
        problems.push((422, "A field is invalid, unknown or missing"));
    }
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    add_problems(responses, &problems);
    for response in responses.values_mut() {
        response["headers"]["X-Request-Id"] = json!({"$ref": "#/components/headers/X-Request-Id"});
    }
}

fn add_problems(responses: &mut Map<String, Value>, problems: &[(u16, &str)]) {
    for (status, about) in problems {
        responses.entry(status.to_string()).or_insert_with(|| json!({"description": about}));
    }
    for (status, response) in responses {
        if status.starts_with(['4', '5']) {
            let schema = json!({"$ref": "#/components/schemas/Problem"});
            response["content"][PROBLEM]["schema"] = schema;
        }
    }
}

fn path_parameter(name: &str) -> Value {
    let (about, schema) = match name {
        "id" => ("The job", json!({"type": "string", "format": "uuid"})),
        "short" => (
            "The short id of a job",
            json!({"type": "string", "minLength": 4, "maxLength": 38,
                   "pattern": "^[0-9A-Fa-f-]+([.][.][0-9A-Fa-f-]+)?$"}),
        ),
        "key" => (
            "The caller's name for the job",
            json!({"type": "string", "minLength": 1, "maxLength": 512}),
        ),
        "group" => ("The group", json!({"type": "string", "minLength": 1, "maxLength": 512})),
        "code" => {
            let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
            ("The kind of problem", json!({"type": "string", "enum": codes}))
        }
        _ => (
            match name {
                "queue" => "The queue",
                "target" => "The target",
                _ => "The schedule",
            },
            json!({"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$"}),
        ),
    };
    json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
        let document = finish(&crate::routes::all().into_openapi());
        let mut references = Vec::new();
        collect(&document, &mut references);
        assert!(references.len() > 100);
        for reference in references {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn every_bound_of_the_queue_has_its_place() {
        let document = finish(&crate::routes::all().into_openapi());
        for (property, keyword, bound) in bounds() {
            let pointer = format!("/components/schemas/{property}/{keyword}");
            assert_eq!(document.pointer(&pointer), Some(&bound.into()), "{pointer}");
        }
    }

    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(reference)) = object.get("$ref") {
                    found.push(reference.clone());
                }
                object.values().for_each(|value| collect(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_schema_can_become_a_class() {
        let document = finish(&crate::routes::all().into_openapi());
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for (name, schema) in schemas {
            assert!(name.chars().all(char::is_alphanumeric), "{name}");
            // Only durations and times are a choice: text or a number.
            let is_choice = ["oneOf", "anyOf", "allOf"].iter().any(|it| schema.get(it).is_some());
            assert_eq!(is_choice, ["Delay", "Timestamp"].contains(&&name[..]), "{name}");
            for property in schema["properties"].as_object().into_iter().flatten() {
                assert_ne!(property.1["default"], "", "{name}.{}", property.0);
            }
        }
        let retry = &schemas["Retry"];
        assert_eq!((&retry["minProperties"], &retry["maxProperties"]), (&json!(1), &json!(1)));
        assert_eq!(retry["properties"].as_object().unwrap().len(), 3);
        let ok = &schemas["AckedVerdict"]["properties"]["ok"];
        assert_eq!(ok["$ref"], "#/components/schemas/Acked");
        let items = &schemas["PutRequestBatch"]["properties"]["items"]["items"];
        assert_eq!(items["$ref"], "#/components/schemas/PutRequest");
    }

    #[test]
    fn descriptions_are_for_people() {
        assert_eq!(plain("As in [`Put`](super::Put), so.\n\n```\ncode\n```"), "As in `Put`, so.");
        assert_eq!(plain("As [`Put`] is."), "As `Put` is.");
        let document = finish(&crate::routes::all().into_openapi()).to_string();
        assert!(!document.contains("```") && !document.contains("](super::"));
    }

    #[test]
    fn every_operation_has_a_name_words_and_problems() {
        let document = finish(&crate::routes::all().into_openapi());
        let mut names = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let at = format!("{method} {path}");
                names.push(operation["operationId"].as_str().expect(&at).to_owned());
                assert!(operation["summary"].is_string(), "{at}");
                assert!(operation["tags"].is_array(), "{at}");
                let example = operation["x-codeSamples"][0]["source"].as_str().expect(&at);
                if let Some(body) = operation.get("requestBody") {
                    assert!(body["content"]["application/json"]["example"].is_object(), "{at}");
                }
                let start = path.split('{').next().unwrap();
                assert!(example.contains(&format!("localhost:7300{start}")), "{at}: {example}");
                for status in ["403", "429"] {
                    let problem = &operation["responses"][status]["content"][PROBLEM];
                    assert!(problem.is_object(), "{at} {status}");
                }
                for (status, response) in operation["responses"].as_object().unwrap() {
                    let content = response["content"].as_object();
                    assert!(content.is_some_and(|it| !it.is_empty()), "{at} {status}");
                }
            }
        }
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
