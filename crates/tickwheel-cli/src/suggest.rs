//! Suggestions for misspelt names.
//!
//! A suggestion costs a request or two after one has failed, and never causes an error of its own:
//! if a request fails, there is no suggestion.

use tickwheel_api::{JobPage, QueueList, ScheduleList, TargetList};

use crate::client::{Client, Path};

/// The least similarity of two names: one or two letters differ.
const ALIKE: f64 = 0.8;
/// The number of keys that are compared.
const KEYS: &str = "200";

/// Returns the most similar name, if any is similar enough.
fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names
        .into_iter()
        .filter(|name| *name != wanted)
        .map(|name| (strsim::jaro_winkler(&wanted.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

fn meant(what: &str, name: &str) -> String {
    format!("did you mean the {what} {:?}?", crate::output::text::safe(name))
}

/// Returns a queue with a similar name; nothing if the queue exists.
pub(crate) fn queue(client: &Client, wanted: &str) -> Option<String> {
    let list: QueueList = client.get(&Path::new(&["queues"])).ok()?.read().ok()?;
    let names = || list.queues.iter().map(|queue| &*queue.name);
    if names().any(|name| name == wanted) {
        return None;
    }
    nearest(wanted, names()).map(|name| meant("queue", name))
}

/// Returns a similar key of the queue, or else a similar queue.
pub(crate) fn key(client: &Client, queue_name: &str, wanted: &str) -> Option<String> {
    let first: String = wanted.chars().take(1).collect();
    let path =
        Path::new(&["queues", queue_name, "jobs"]).query("key_prefix", &first).query("limit", KEYS);
    let page: Option<JobPage> = client.get(&path).ok().and_then(|answer| answer.read().ok());
    let jobs = page.iter().flat_map(|page| &page.jobs);
    let keys = jobs.filter_map(|job| job.key.as_deref());
    nearest(wanted, keys).map(|name| meant("key", name)).or_else(|| queue(client, queue_name))
}

/// Returns a target with a similar name.
pub(crate) fn target(client: &Client, wanted: &str) -> Option<String> {
    let list: TargetList = client.get(&Path::new(&["targets"])).ok()?.read().ok()?;
    let names = list.targets.iter().map(|target| &*target.name);
    nearest(wanted, names).map(|name| meant("target", name))
}

/// Returns a schedule with a similar name.
pub(crate) fn schedule(client: &Client, wanted: &str) -> Option<String> {
    let list: ScheduleList = client.get(&Path::new(&["schedules"])).ok()?.read().ok()?;
    let names = list.schedules.iter().map(|schedule| &*schedule.name);
    nearest(wanted, names).map(|name| meant("schedule", name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_seen_and_another_word_is_not() {
        let names = ["orders", "mail", "calls"];
        assert_eq!(nearest("ordesr", names), Some("orders"));
        assert_eq!(nearest("Mails", names), Some("mail"));
        assert_eq!(nearest("order-42", ["order-43", "x"]), Some("order-43"));
        assert_eq!(nearest("invoices", names), None);
        assert_eq!(nearest("mail", names), None);
        assert_eq!(nearest("", names), None);
    }
}
