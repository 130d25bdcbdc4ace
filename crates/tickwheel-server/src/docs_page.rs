//! The API as a page for people, without external resources.

use std::fmt::Write;

use serde_json::{Map, Value};

const STYLE: &str = "\
:root{color-scheme:light dark;--soft:#8883;--accent:#2a6ebb}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem 1rem 4rem}\
h1,h2{line-height:1.2}h2{margin-top:3rem;border-bottom:1px solid var(--soft)}\
a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}\
code,pre{font:.9em/1.4 ui-monospace,monospace}\
article{border:1px solid var(--soft);border-radius:.5rem;padding:.5rem 1rem;margin:1rem 0}\
article h3{margin:.3rem 0;font-size:1rem}\
.method{display:inline-block;min-width:4.2em;font-weight:700;color:var(--accent)}\
pre{background:var(--soft);border-radius:.3rem;padding:.5rem .75rem;overflow-x:auto}\
table{border-collapse:collapse;width:100%;margin:.5rem 0}\
td,th{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-top:1px solid var(--soft)}\
th{font-weight:600;border:0}nav a{margin-right:1rem}";

/// The page at `/`, for people who open the address in a browser.
pub(crate) fn index() -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Tickwheel</title>\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <style>{STYLE}</style></head><body><h1>Tickwheel {version}</h1>\
         <p>This is a service for delayed jobs.</p><ul>\
         <li><a href=\"/docs\">/docs</a>: its API, with an example for every operation\
         <li><a href=\"/openapi.json\">/openapi.json</a>: the same for programs\
         <li><a href=\"/readyz\">/readyz</a>: whether it is ready\
         <li><a href=\"/v1/queues\">/v1/queues</a>: its queues\
         <li><a href=\"/metrics\">/metrics</a>: its metrics</ul>\
         <p>On the command line: <code>tickwheel --help</code></p></body></html>\n",
        version = env!("CARGO_PKG_VERSION")
    )
}

/// The page.
pub(crate) fn render(document: &Value) -> String {
    let mut page = String::with_capacity(128 << 10);
    let info = &document["info"];
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} API</title>\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <style>{STYLE}</style></head><body><h1>{title} {version}</h1><p>{about}</p>\
         <p>The same for programs: <a href=\"/openapi.json\">openapi.json</a></p>\
         <p>Once the service has tokens, add <code>-H 'authorization: Bearer TOKEN'</code> to the \
         examples.</p><nav>",
        title = text(&info["title"]),
        version = text(&info["version"]),
        about = text(&info["description"]),
    );
    let tags: Vec<_> = document["tags"].as_array().into_iter().flatten().collect();
    for tag in &tags {
        let name = text(&tag["name"]);
        let _ = write!(page, "<a href=\"#{name}\">{name}</a>");
    }
    page.push_str("<a href=\"#schemas\">schemas</a></nav>");
    for tag in tags {
        let name = text(&tag["name"]);
        let _ = write!(page, "<h2 id=\"{name}\">{name}</h2><p>{}</p>", text(&tag["description"]));
        for (path, item) in object(&document["paths"]) {
            for (method, operation) in object(item) {
                if operation["tags"][0] == tag["name"] {
                    write_operation(&mut page, method, path, operation);
                }
            }
        }
    }
    page.push_str("<h2 id=\"schemas\">schemas</h2>");
    for (name, schema) in object(&document["components"]["schemas"]) {
        write_schema(&mut page, name, schema);
    }
    page.push_str("</body></html>\n");
    page
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// Escapes a text of the document for HTML.
fn text(value: &Value) -> String {
    escape(value.as_str().unwrap_or_default())
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

fn write_operation(page: &mut String, method: &str, path: &str, operation: &Value) {
    let id = text(&operation["operationId"]);
    let _ = write!(
        page,
        "<article id=\"{id}\"><h3><span class=\"method\">{}</span> <code>{}</code></h3>\
         <p>{}</p>",
        method.to_uppercase(),
        escape(path),
        text(&operation["summary"]),
    );
    if operation["description"].is_string() {
        let _ = write!(page, "<p>{}</p>", text(&operation["description"]));
    }
    let params: Vec<_> = operation["parameters"].as_array().into_iter().flatten().collect();
    if !params.is_empty() {
        page.push_str("<table><tr><th>parameter<th>in<th>type<th>");
        for param in params {
            let _ = write!(
                page,
                "<tr><td><code>{}</code><td>{}<td>{}<td>{}",
                text(&param["name"]),
                text(&param["in"]),
                kind_of(&param["schema"]),
                text(&param["description"])
            );
        }
        page.push_str("</table>");
    }
    for (content_type, content) in object(&operation["requestBody"]["content"]) {
        let _ = write!(
            page,
            "<p>Body: {} as <code>{content_type}</code></p>",
            kind_of(&content["schema"])
        );
    }
    for sample in operation["x-codeSamples"].as_array().into_iter().flatten() {
        let _ = write!(page, "<pre>{}</pre>", text(&sample["source"]));
    }
    page.push_str("<table><tr><th>status<th>body<th>");
    for (status, response) in object(&operation["responses"]) {
        let kinds: Vec<_> =
            object(&response["content"]).map(|(_, content)| kind_of(&content["schema"])).collect();
        let about = text(&response["description"]);
        let _ = write!(page, "<tr><td>{}<td>{}<td>{about}", escape(status), kinds.join(", "));
    }
    page.push_str("</table></article>");
}

fn write_schema(page: &mut String, name: &str, schema: &Value) {
    let name = escape(name);
    let _ = write!(page, "<article id=\"schema-{name}\"><h3><code>{name}</code></h3>");
    if schema["description"].is_string() {
        let _ = write!(page, "<p>{}</p>", text(&schema["description"]));
    }
    if schema.get("properties").is_some() {
        page.push_str("<table><tr><th>field<th>type<th>");
        let required = |field: &str| {
            schema["required"].as_array().is_some_and(|all| all.iter().any(|it| it == field))
        };
        for (field, inner) in object(&schema["properties"]) {
            let mark = if required(field) { " (always)" } else { "" };
            let _ = write!(
                page,
                "<tr><td><code>{}</code>{mark}<td>{}<td>{}",
                escape(field),
                kind_of(inner),
                text(&inner["description"])
            );
        }
        page.push_str("</table>");
    } else {
        let _ = write!(page, "<p>{}</p>", kind_of(schema));
    }
    page.push_str("</article>");
}

/// Describes the values of a schema in a few words.
fn kind_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let name = escape(name);
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    for choice in ["oneOf", "anyOf", "allOf"] {
        if let (Some(items), None) = (schema[choice].as_array(), schema.get("properties")) {
            let kinds: Vec<_> = items.iter().map(kind_of).filter(|kind| kind != "null").collect();
            return kinds.join(" or ");
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|it| format!("<code>{}</code>", text(it))).collect();
        return values.join(" ");
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).filter(|it| *it != "null").collect()
        }
        Value::String(kind) => vec![&kind[..]],
        _ => Vec::new(),
    };
    match kinds[..] {
        ["array"] => format!("list of {}", kind_of(&schema["items"])),
        ["object"] if schema.get("properties").is_some() => {
            let fields = object(&schema["properties"])
                .map(|(name, inner)| format!("<code>{}</code>: {}", escape(name), kind_of(inner)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        [] => "any JSON".to_owned(),
        _ => {
            let format = schema["format"].as_str().map_or(String::new(), |it| format!(" ({it})"));
            escape(&format!("{}{format}", kinds.join(" or ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_route_and_needs_nothing_from_elsewhere() {
        let document = crate::openapi::finish(&crate::routes::all().into_openapi());
        let page = render(&document);
        for route in crate::openapi::routes(&document) {
            let path = route.split_once(' ').unwrap().1;
            assert!(page.contains(&format!("<code>{path}</code>")), "{route}");
            assert!(page.matches("<pre>curl ").count() == crate::openapi::routes(&document).len());
        }
        for (name, _) in object(&document["components"]["schemas"]) {
            assert!(page.contains(&format!("id=\"schema-{name}\"")), "{name}");
        }
        for foreign in ["href=\"http", "src=", "url(", "@import", "<script", "<link"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        for link in page.split("href=\"#").skip(1) {
            let target = link.split('"').next().unwrap();
            assert!(page.contains(&format!("id=\"{target}\"")), "{target}");
        }
    }
}
