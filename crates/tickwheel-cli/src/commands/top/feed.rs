//! The threads that ask the server, and what they send.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tickwheel_api::{Job, JobPage, Live, Target, TargetList};

use crate::client::{Client, Path};
use crate::events::Events;
use crate::failure::Failure;

/// How long to wait before the next try: longer each time, up to the last.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];
/// How often targets and the next jobs of the selected queue are asked for.
const DETAILS: Duration = Duration::from_secs(1);
/// Jobs of the selected queue that are shown at most.
const NEXT_JOBS: &str = "20";

/// What a thread has learnt.
#[derive(Debug)]
pub(super) enum Update {
    /// The newest numbers.
    Live(Box<Live>),
    /// The connection is lost, and why. It is made again.
    Lost(String),
    /// All targets; `None` if the token may not see them.
    Targets(Option<Vec<Target>>),
    /// The next jobs of a queue.
    NextJobs(String, Vec<Job>),
    /// What became of a pause or a resume.
    Switched(Result<String, String>),
}

/// What comes from the server, and what is asked of it.
#[derive(Debug)]
pub(super) struct Feed {
    client: Client,
    updates: Receiver<Update>,
    sender: Sender<Update>,
    selected: Arc<Mutex<Option<String>>>,
}

impl Feed {
    pub(super) fn start(client: &Client) -> Self {
        let (sender, updates) = channel();
        let selected = Arc::default();
        let feed = Self { client: client.clone(), updates, sender, selected };
        let (client, sender) = (feed.client.clone(), feed.sender.clone());
        std::thread::spawn(move || follow(&client, &sender));
        let (client, sender) = (feed.client.clone(), feed.sender.clone());
        let selected = Arc::clone(&feed.selected);
        std::thread::spawn(move || ask_details(&client, &sender, &selected));
        feed
    }

    /// What has come since the last call.
    pub(super) fn updates(&self) -> impl Iterator<Item = Update> + '_ {
        self.updates.try_iter()
    }

    /// Names the queue whose next jobs are wanted.
    pub(super) fn select(&self, queue: Option<&str>) {
        let mut selected = self.selected.lock().unwrap_or_else(PoisonError::into_inner);
        if selected.as_deref() != queue {
            *selected = queue.map(str::to_owned);
        }
    }

    /// Pauses or resumes a queue. The answer comes as an update.
    pub(super) fn switch(&self, queue: String, pauses: bool) {
        let (client, sender) = (self.client.clone(), self.sender.clone());
        std::thread::spawn(move || {
            let (action, done) = if pauses { ("pause", "paused") } else { ("resume", "resumed") };
            let path = Path::new(&["queues", &queue, action]);
            let switched = match client.post(&path, &serde_json::json!({})) {
                Ok(_) => Ok(format!("queue {queue:?} is {done}")),
                Err(failure) => Err(first_line(&failure)),
            };
            // The view may be gone by now.
            let _ = sender.send(Update::Switched(switched));
        });
    }
}

fn first_line(failure: &Failure) -> String {
    failure.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Follows the live stream, and connects again when it ends.
fn follow(client: &Client, sender: &Sender<Update>) {
    let mut failures = 0;
    loop {
        let why = match client.stream(&Path::new(&["live"]), None) {
            Ok(stream) => {
                let mut events = Events::new(stream);
                let mut why = "the server ended the connection".to_owned();
                loop {
                    match events.next() {
                        Ok(Some(event)) => match serde_json::from_str::<Live>(&event.data) {
                            Ok(live) => {
                                failures = 0;
                                if sender.send(Update::Live(Box::new(live))).is_err() {
                                    return;
                                }
                            }
                            Err(error) => why = format!("an event cannot be read: {error}"),
                        },
                        Ok(None) => break why,
                        Err(error) => break error.to_string(),
                    }
                }
            }
            Err(failure) => first_line(&failure),
        };
        if sender.send(Update::Lost(why)).is_err() {
            return;
        }
        std::thread::sleep(PAUSES[failures.min(PAUSES.len() - 1)]);
        failures += 1;
    }
}

/// Asks for targets, and for the next jobs of the selected queue. Failures show in the live stream.
fn ask_details(client: &Client, sender: &Sender<Update>, selected: &Mutex<Option<String>>) {
    loop {
        let targets = match client.get(&Path::new(&["targets"])) {
            Ok(answer) => answer.read::<TargetList>().ok().map(|list| Some(list.targets)),
            Err(failure) if failure.code() == 5 => Some(None),
            Err(_) => None,
        };
        if let Some(targets) = targets
            && sender.send(Update::Targets(targets)).is_err()
        {
            return;
        }
        let queue = selected.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(queue) = queue {
            let path = Path::new(&["queues", &queue, "jobs"]);
            let path = path.query("state", "scheduled").query("limit", NEXT_JOBS);
            let page = client.get(&path).and_then(|answer| answer.read::<JobPage>());
            if let Ok(page) = page
                && sender.send(Update::NextJobs(queue, page.jobs)).is_err()
            {
                return;
            }
        }
        std::thread::sleep(DETAILS);
    }
}
