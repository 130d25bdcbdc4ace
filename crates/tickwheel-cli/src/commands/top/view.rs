//! What is shown, and what keys change: no terminal and no network.

use std::cmp::Ordering;
use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tickwheel_api::{Job, Overview, QueueOverview, Target, Wheel};

use super::feed::Update;
use crate::args::{TopArgs, TopSort};

/// Queues that a page of keys moves over.
const PAGE: isize = 10;

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    /// Pause or resume a queue.
    Switch {
        queue: String,
        pauses: bool,
    },
}

/// What keys go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dialog {
    /// The list of queues.
    None,
    /// The text of the filter.
    Filter,
    /// A question whether to pause or resume a queue.
    Confirm {
        queue: String,
        pauses: bool,
    },
    Help,
}

#[derive(Debug)]
pub(super) struct View {
    pub(super) server: String,
    pub(super) overview: Option<Overview>,
    pub(super) wheel: Option<Wheel>,
    /// When the numbers came.
    pub(super) received: Instant,
    /// Why the connection is lost, while it is.
    pub(super) lost: Option<String>,
    pub(super) targets: Option<Vec<Target>>,
    /// The next jobs of a queue.
    pub(super) next_jobs: Option<(String, Vec<Job>)>,
    pub(super) sort: TopSort,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    pub(super) dialog: Dialog,
    /// What became of the last action; the flag is `true` if it failed.
    pub(super) message: Option<(String, bool)>,
    selected: Option<String>,
}

impl View {
    pub(super) fn new(args: &TopArgs, server: &str) -> Self {
        Self {
            server: server.to_owned(),
            overview: None,
            wheel: None,
            received: Instant::now(),
            lost: None,
            targets: None,
            next_jobs: None,
            sort: args.sort,
            is_reversed: false,
            filter: args.filter.clone(),
            dialog: Dialog::None,
            message: None,
            selected: None,
        }
    }

    /// Shows what the first request answered, until the stream has begun.
    pub(super) fn show_first(&mut self, overview: Overview) {
        self.overview = Some(overview);
        self.received = Instant::now();
        self.keep_selection();
    }

    pub(super) fn update(&mut self, update: Update) {
        match update {
            Update::Live(live) => {
                self.overview = Some(live.overview);
                self.wheel = live.wheel;
                self.received = Instant::now();
                self.lost = None;
                self.keep_selection();
            }
            Update::Lost(why) => self.lost = Some(why),
            Update::Targets(targets) => self.targets = targets,
            Update::NextJobs(queue, jobs) => self.next_jobs = Some((queue, jobs)),
            Update::Switched(Ok(done)) => self.message = Some((done, false)),
            Update::Switched(Err(why)) => self.message = Some((why, true)),
        }
    }

    /// The queues that pass the filter, in order.
    pub(super) fn queues(&self) -> Vec<&QueueOverview> {
        let filter = self.filter.to_lowercase();
        let all = self.overview.iter().flat_map(|overview| &overview.queues);
        let mut queues: Vec<&QueueOverview> =
            all.filter(|queue| queue.name.to_lowercase().contains(&filter)).collect();
        queues.sort_by(|one, other| {
            let order = compare(self.sort, one, other);
            let order = if self.is_reversed { order.reverse() } else { order };
            order.then_with(|| one.name.cmp(&other.name))
        });
        queues
    }

    pub(super) fn selected(&self) -> Option<&str> {
        self.selected.as_deref()
    }

    /// The index of the selected queue among those that are shown.
    pub(super) fn selected_index(&self) -> Option<usize> {
        let selected = self.selected.as_deref()?;
        self.queues().iter().position(|queue| queue.name == selected)
    }

    /// Selects the first queue if the selected one is not shown any more.
    fn keep_selection(&mut self) {
        if self.selected_index().is_none() {
            self.selected = self.queues().first().map(|queue| queue.name.clone());
        }
    }

    fn select(&mut self, index: isize) {
        let queues = self.queues();
        let last = queues.len().saturating_sub(1);
        let index = usize::try_from(index).unwrap_or(0).min(last);
        self.selected = queues.get(index).map(|queue| queue.name.clone());
    }

    fn move_by(&mut self, by: isize) {
        let index = self.selected_index().and_then(|index| isize::try_from(index).ok());
        self.select(index.unwrap_or(0).saturating_add(by));
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Action> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Action::Quit);
        }
        match self.dialog.clone() {
            Dialog::None => self.press_in_list(key.code),
            Dialog::Filter => {
                self.press_in_filter(key.code);
                None
            }
            Dialog::Help => {
                self.dialog = Dialog::None;
                None
            }
            Dialog::Confirm { queue, pauses } => {
                self.dialog = Dialog::None;
                let agrees = matches!(key.code, KeyCode::Char('y' | 'Y'));
                if !agrees {
                    self.message = Some(("nothing was changed".to_owned(), false));
                }
                agrees.then_some(Action::Switch { queue, pauses })
            }
        }
    }

    fn press_in_list(&mut self, code: KeyCode) -> Option<Action> {
        self.message = None;
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Action::Quit),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-PAGE),
            KeyCode::PageDown => self.move_by(PAGE),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(isize::MAX),
            KeyCode::Char('s') => {
                self.sort = next(self.sort);
                self.is_reversed = false;
            }
            KeyCode::Char('S') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('/') => self.dialog = Dialog::Filter,
            KeyCode::Char('?' | 'h') => self.dialog = Dialog::Help,
            KeyCode::Char('p') => {
                let queues = self.queues();
                let queue = self.selected_index().and_then(|index| queues.get(index).copied());
                if let Some(queue) = queue {
                    let (queue, pauses) = (queue.name.clone(), !queue.paused);
                    self.dialog = Dialog::Confirm { queue, pauses };
                }
            }
            _ => {}
        }
        None
    }

    fn press_in_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.dialog = Dialog::None,
            KeyCode::Esc => {
                self.filter.clear();
                self.dialog = Dialog::None;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(character) if !character.is_control() => self.filter.push(character),
            _ => {}
        }
        self.keep_selection();
    }
}

fn next(sort: TopSort) -> TopSort {
    match sort {
        TopSort::Name => TopSort::Scheduled,
        TopSort::Scheduled => TopSort::Ready,
        TopSort::Ready => TopSort::Dead,
        TopSort::Dead => TopSort::In,
        TopSort::In => TopSort::Out,
        TopSort::Out => TopSort::Oldest,
        TopSort::Oldest => TopSort::Late,
        TopSort::Late => TopSort::Name,
    }
}

/// Names ascend; of numbers the largest comes first, and what is not known last.
fn compare(sort: TopSort, one: &QueueOverview, other: &QueueOverview) -> Ordering {
    let rate = |queue: &QueueOverview, of: fn(&tickwheel_api::Rates) -> f64| {
        queue.rates.as_ref().map_or(-1.0, of)
    };
    let by_rate = |of: fn(&tickwheel_api::Rates) -> f64| rate(other, of).total_cmp(&rate(one, of));
    match sort {
        TopSort::Name => one.name.cmp(&other.name),
        TopSort::Scheduled => other.jobs.scheduled.cmp(&one.jobs.scheduled),
        TopSort::Ready => other.jobs.ready.cmp(&one.jobs.ready),
        TopSort::Dead => other.jobs.dead.cmp(&one.jobs.dead),
        TopSort::In => by_rate(|rates| rates.put),
        TopSort::Out => by_rate(|rates| rates.acked),
        TopSort::Oldest => other.waiting_ms.cmp(&one.waiting_ms),
        TopSort::Late => other.lateness_p99_ms.cmp(&one.lateness_p99_ms),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tickwheel_api::Live;

    /// A view of queues with a name and a number of ready jobs each.
    pub(in crate::commands::top) fn view(queues: &[(&str, u64)]) -> View {
        let queues: Vec<_> = queues.iter().map(|(name, ready)| queue(name, *ready)).collect();
        let live = serde_json::json!({
            "overview": {
                "at": "2026-01-01T00:00:00Z", "at_ms": 1_767_225_600_000_u64,
                "summary": "all on time", "health": [], "queues": queues, "queues_left_out": 0,
                "totals": null,
            },
            "point": null, "wheel": null,
        });
        let args = TopArgs { sort: TopSort::Name, filter: String::new() };
        let mut view = View::new(&args, "http://127.0.0.1:7300");
        let live: Live = serde_json::from_value(live).expect("a live event");
        view.update(Update::Live(Box::new(live)));
        view
    }

    fn queue(name: &str, ready: u64) -> serde_json::Value {
        serde_json::json!({
            "name": name, "paused": name.starts_with("paused"), "target": null,
            "more_ready": false, "held": 0, "rates": null, "oldest_ready_ms": null,
            "waiting_ms": null, "lateness_p50_ms": null, "lateness_p99_ms": null,
            "workers": null, "upcoming": null, "pacing_utilisation": null,
            "jobs": {
                "scheduled": 0, "ready": ready, "leased": 0, "dead": 0, "done": 0, "cancelled": 0
            },
        })
    }

    fn names(view: &View) -> Vec<&str> {
        view.queues().into_iter().map(|queue| &*queue.name).collect()
    }

    fn press(view: &mut View, keys: &str) -> Option<Action> {
        let code = |key| match key {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            '↓' => KeyCode::Down,
            key => KeyCode::Char(key),
        };
        keys.chars()
            .map(|key| view.press(KeyEvent::new(code(key), KeyModifiers::NONE)))
            .last()
            .flatten()
    }

    #[test]
    fn queues_are_sorted_and_the_selection_stays_on_its_queue() {
        let mut view = view(&[("b", 1), ("a", 5), ("c", 9)]);
        assert_eq!((names(&view), view.selected()), (vec!["a", "b", "c"], Some("a")));
        press(&mut view, "ss");
        assert_eq!((view.sort, names(&view)), (TopSort::Ready, vec!["c", "a", "b"]));
        assert_eq!((view.selected(), view.selected_index()), (Some("a"), Some(1)));
        press(&mut view, "S");
        assert_eq!(names(&view), ["b", "a", "c"]);
        press(&mut view, "↓↓↓");
        assert_eq!(view.selected(), Some("c"), "the end holds");
    }

    #[test]
    fn a_filter_is_typed_and_cleared() {
        let mut view = view(&[("mail", 1), ("orders", 5)]);
        press(&mut view, "/Ordq\x08");
        assert_eq!((names(&view), view.selected()), (vec!["orders"], Some("orders")));
        press(&mut view, "\n");
        assert_eq!((&view.dialog, names(&view)), (&Dialog::None, vec!["orders"]));
        press(&mut view, "/\x1b");
        assert_eq!(names(&view), ["mail", "orders"]);
        press(&mut view, "/nothing\n");
        assert_eq!((names(&view).len(), view.selected()), (0, None));
        assert_eq!(press(&mut view, "p"), None, "there is nothing to pause");
    }

    #[test]
    fn a_queue_is_paused_only_after_a_yes() {
        let mut view = view(&[("mail", 1), ("paused", 5)]);
        assert_eq!(press(&mut view, "pn"), None);
        assert_eq!(press(&mut view, "p\n"), None);
        let switch = |queue: &str, pauses| Action::Switch { queue: queue.to_owned(), pauses };
        assert_eq!(press(&mut view, "py"), Some(switch("mail", true)));
        assert_eq!(press(&mut view, "jpy"), Some(switch("paused", false)));
        assert_eq!(press(&mut view, "?q"), None, "any key leaves the help");
        assert_eq!(press(&mut view, "q"), Some(Action::Quit));
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        view.dialog = Dialog::Filter;
        assert_eq!(view.press(ctrl_c), Some(Action::Quit));
    }
}
