//! What the user may have meant.
//!
//! A suggestion costs a request or two after one has failed, and is never worth an error of its
//! own: whatever goes wrong on the way just means that there is none.

use tickwheel_api::{JobPage, QueueList, ScheduleList, TargetList};

use crate::client::{Client, Path};

/// How alike two names have to be: a letter or two off in a word.
const ALIKE: f64 = 0.8;
/// How many keys are looked through.
const KEYS: &str = "200";

/// The one of these names that is most like the wanted one, if any is like it at all.
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

/// A queue with a name like this one; nothing if there is a queue of this name.
pub(crate) fn queue(client: &Client, wanted: &str) -> Option<String> {
    let list: QueueList = client.get(&Path::new(&["queues"])).ok()?.read().ok()?;
    let names = || list.queues.iter().map(|queue| &*queue.name);
    if names().any(|name| name == wanted) {
        return None;
    }
    nearest(wanted, names()).map(|name| meant("queue", name))
}

/// A key of the queue like this one, or else a queue.
pub(crate) fn key(client: &Client, queue_name: &str, wanted: &str) -> Option<String> {
    let first: String = wanted.chars().take(1).collect();
    let path =
        Path::new(&["queues", queue_name, "jobs"]).query("key_prefix", &first).query("limit", KEYS);
    let page: Option<JobPage> = client.get(&path).ok().and_then(|answer| answer.read().ok());
    let jobs = page.iter().flat_map(|page| &page.jobs);
    let keys = jobs.filter_map(|job| job.key.as_deref());
    nearest(wanted, keys).map(|name| meant("key", name)).or_else(|| queue(client, queue_name))
}

/// A target with a name like this one.
pub(crate) fn target(client: &Client, wanted: &str) -> Option<String> {
    let list: TargetList = client.get(&Path::new(&["targets"])).ok()?.read().ok()?;
    let names = list.targets.iter().map(|target| &*target.name);
    nearest(wanted, names).map(|name| meant("target", name))
}

/// A schedule with a name like this one.
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
