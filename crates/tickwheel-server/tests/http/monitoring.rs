//! The alerts and the dashboard of packaging/ against the metrics of a real server: every name, and
//! every label.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::client::{Request, Service};

const ALERTS: &str = include_str!("../../../../packaging/prometheus/alerts.yaml");
const DASHBOARD: &str = include_str!("../../../../packaging/grafana/tickwheel.json");

/// Labels that Prometheus adds to each series of a target.
const ADDED: [&str; 2] = ["instance", "job"];

/// The labels of each series on the page, and the values of each.
type Labels = BTreeMap<String, BTreeSet<String>>;

/// The metrics of a server that has seen everything that has metrics of its own.
async fn metrics() -> BTreeMap<String, Labels> {
    let service = Service::start().await;
    service.put("/v1/targets/partner", json!({"url": "http://partner.example/"})).await;
    service.put_text("q", "").await;
    let (id, token) = service.reserve_one("q").await;
    service.post(&format!("/v1/jobs/{id}/ack"), json!({"token": token})).await;
    // An answer of each kind but those of a server in trouble.
    service.get("/nowhere").await;
    service.send(Request::new("GET", "/v1/queues")).await;
    let page = service.get("/metrics").await.body;
    service.stop().await;
    let mut metrics = BTreeMap::<String, Labels>::new();
    for line in page.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            metrics.entry(declared.split(' ').next().unwrap().to_owned()).or_default();
        } else if !line.starts_with('#') {
            let (series, _) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let known = metrics.entry(name.to_owned()).or_default();
            for (label, _, value) in matchers(labels.strip_suffix('}').unwrap()) {
                known.entry(label).or_default().insert(value);
            }
        }
    }
    metrics
}

/// The parts `label="value"` of a list, with the operator between.
fn matchers(list: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut rest = list;
    while let Some(end) = rest.find('"') {
        let head = rest[..end].trim_start_matches([',', ' ']);
        let value = &rest[end + 1..];
        let close = value.find('"').expect("a closed value");
        let label = head.trim_end_matches(['=', '~', '!']);
        found.push((label.to_owned(), head[label.len()..].to_owned(), value[..close].to_owned()));
        rest = &value[close + 1..];
    }
    found
}

/// The queries of the alerts and of the dashboard, with the templates beside each.
fn queries() -> Vec<(String, Vec<String>)> {
    let mut queries = Vec::new();
    for alert in ALERTS.split("- alert: ").skip(1) {
        let part = |name: &str| {
            let lines = alert.lines().filter_map(move |line| line.trim().strip_prefix(name));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let [expression] = &part("expr: ")[..] else { panic!("one expression in\n{alert}") };
        let texts = [part("summary: "), part("description: ")].concat();
        queries.push((expression.clone(), texts));
    }
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("the dashboard is JSON");
    let before = queries.len();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let text = |name: &str| target[name].as_str().unwrap_or_default().to_owned();
            queries.push((text("expr"), vec![text("legendFormat")]));
        }
    }
    assert!(before >= 10 && queries.len() >= before + 20, "{} queries", queries.len());
    for variable in dashboard["templating"]["list"].as_array().expect("variables") {
        let query = &variable["query"];
        let query = query.as_str().or_else(|| query["query"].as_str()).unwrap_or_default();
        // `label_values(metric, label)` is a grouping by that label, as far as this test goes.
        if let Some(list) = query.strip_prefix("label_values(") {
            let (metric, label) = list.trim_end_matches(')').split_once(", ").expect("two values");
            queries.push((format!("sum by ({label}) ({metric})"), Vec::new()));
        }
    }
    queries
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The metrics that a query reads, each with what follows its name.
fn selectors(query: &str) -> Vec<(&str, &str)> {
    let starts = query.match_indices("tickwheel_").filter(|(at, _)| {
        !query[..*at].ends_with(is_word) && query[..*at].matches('"').count().is_multiple_of(2)
    });
    starts
        .map(|(at, _)| {
            let rest = &query[at..];
            rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()))
        })
        .collect()
}

/// The labels in parentheses after each of these words.
fn groupings(query: &str) -> Vec<String> {
    let words = ["by (", "on (", "without (", "ignoring (", "group_left (", "group_right ("];
    let lists = words.iter().flat_map(|word| query.split(word).skip(1));
    let lists = lists.filter_map(|rest| rest.split(')').next());
    lists.flat_map(|list| list.split(',')).map(|label| label.trim().to_owned()).collect()
}

/// The labels that a text for people takes from the result.
fn templates(text: &str) -> Vec<String> {
    let inner = text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    inner.map(|name| name.trim().trim_start_matches("$labels.").to_owned()).collect()
}

#[tokio::test]
async fn alerts_and_dashboard_use_metrics_and_labels_that_exist() {
    let metrics = metrics().await;
    for (query, texts) in queries() {
        let mut common: Option<BTreeSet<String>> = None;
        for (name, rest) in selectors(&query) {
            let labels = metrics.get(name).unwrap_or_else(|| panic!("there is no metric {name}"));
            let is_known = |label: &str| labels.contains_key(label) || ADDED.contains(&label);
            let list = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
            for (label, operator, value) in matchers(list.unwrap_or_default()) {
                assert!(is_known(&label), "{name} has no label {label}: {query}");
                // Every state of a job is on the page; an answer with an error of the server is not.
                if operator == "=" && label == "state" {
                    assert!(labels[&label].contains(&value), "{name} has no {label} {value}");
                } else if operator == "=" && label == "status" {
                    assert!(["2xx", "4xx", "5xx"].contains(&&*value), "{query}");
                }
            }
            let own = labels.keys().cloned().chain(ADDED.map(str::to_owned)).collect();
            common = Some(match common {
                Some(before) => before.intersection(&own).cloned().collect(),
                None => own,
            });
        }
        let common = common.unwrap_or_else(|| ADDED.map(str::to_owned).into());
        let grouped = groupings(&query);
        for label in &grouped {
            assert!(common.contains(label), "no metric of {query} has the label {label}");
        }
        // Aggregation drops every label that it does not name.
        let is_aggregated = query.contains("sum(") || !grouped.is_empty();
        for label in texts.iter().flat_map(|text| templates(text)) {
            let is_left =
                if is_aggregated { grouped.contains(&label) } else { common.contains(&label) };
            assert!(is_left, "the result of {query} has no label {label}: {texts:?}");
        }
    }
}

#[test]
fn the_parts_of_a_query_are_found() {
    let query = r#"sum by (queue, le) (rate(tickwheel_a_total{x="1",y=~"tickwheel_b"}[5m])) / on (z) tickwheel_c"#;
    let names: Vec<_> = selectors(query).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["tickwheel_a_total", "tickwheel_c"]);
    assert_eq!(groupings(query), ["queue", "le", "z"]);
    let found = matchers(r#"x="1",y=~"b""#);
    let part = |text: &str| text.to_owned();
    assert_eq!(found, [(part("x"), part("="), part("1")), (part("y"), part("=~"), part("b"))]);
    assert_eq!(templates("{{ $labels.queue }} and {{route}}"), ["queue", "route"]);
}
