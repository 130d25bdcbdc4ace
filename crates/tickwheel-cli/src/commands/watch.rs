//! `watch`: events of jobs as they happen.
//!
//! A broken connection is reopened after the last event. Only a server that does not answer at the
//! start is a failure; later the command waits for it.

use std::time::Duration;

use tickwheel_api as api;

use super::Context;
use crate::args::WatchArgs;
use crate::client::Path;
use crate::events::{Event, Events};
use crate::failure::Failure;
use crate::output::style::Style;
use crate::output::text::safe;

/// The delays between attempts to reconnect. The last one repeats.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// The event that says that earlier events are lost.
const RESET: &str = "reset";

pub(crate) fn run(context: &Context, args: &WatchArgs) -> Result<(), Failure> {
    let mut path = match args.queue.as_ref().or(args.queue_option.as_ref()) {
        Some(queue) => Path::new(&["queues", queue, "events"]),
        None => Path::new(&["events"]),
    };
    let filters = [
        ("event", args.event.clone()),
        ("state", args.state.map(|state| state.to_string())),
        ("key", args.key.clone()),
        ("key_prefix", args.key_prefix.clone()),
        ("error", args.error.clone()),
    ];
    for (filter, value) in filters {
        if let Some(value) = value {
            path = path.query(filter, &value);
        }
    }
    let mut watch = Watch {
        context,
        path,
        last: args.since.clone(),
        left: args.count.unwrap_or(u64::MAX),
        is_connected: false,
    };
    let mut failures = 0;
    loop {
        match watch.follow() {
            Ok(End::Enough) => return Ok(()),
            Ok(End::Lost) => failures = 0,
            // The first attempt must succeed. Later the server may be restarting or overloaded.
            Err(failure) if watch.is_connected && matches!(failure.code(), 6 | 7) => failures += 1,
            Err(failure) => return Err(failure),
        }
        if failures == 0 {
            context.output.remark("the connection is lost; waiting for the server");
        }
        std::thread::sleep(PAUSES[failures.min(PAUSES.len() - 1)]);
    }
}

/// Why a stream has ended.
enum End {
    /// The requested number of events has arrived.
    Enough,
    /// The connection broke, or the server ended it.
    Lost,
}

struct Watch<'a> {
    context: &'a Context<'a>,
    path: Path,
    /// The event after which to resume.
    last: Option<String>,
    left: u64,
    is_connected: bool,
}

impl Watch<'_> {
    /// Shows events until the stream ends.
    fn follow(&mut self) -> Result<End, Failure> {
        let stream = self.context.client.stream(&self.path, self.last.as_deref())?;
        self.is_connected = true;
        let mut events = Events::new(stream);
        // A stream that breaks is the same as one that ends.
        while let Ok(Some(event)) = events.next() {
            self.show(&event)?;
            // That events may be missing is not an event of a job.
            if event.name == RESET {
                continue;
            }
            self.left -= 1;
            if self.left == 0 {
                return Ok(End::Enough);
            }
        }
        if events.position.is_some() {
            self.last = events.position;
        }
        Ok(End::Lost)
    }

    fn show(&self, event: &Event) -> Result<(), Failure> {
        let output = self.context.output;
        if output.json {
            // The id is part of the event: `--since` accepts it.
            let mut document: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(&event.data).unwrap_or_default();
            document.insert("event".to_owned(), event.name.clone().into());
            if let Some(id) = &event.id {
                document.insert("id".to_owned(), id.clone().into());
            }
            return output.document(&document);
        }
        if event.name == RESET
            && let Ok(reset) = serde_json::from_str::<api::Reset>(&event.data)
        {
            output.remark(&safe(&reset.reason));
            return Ok(());
        }
        let Ok(told) = serde_json::from_str::<api::Event>(&event.data) else {
            output.remark(&format!("{}: {}", safe(&event.name), safe(&event.data)));
            return Ok(());
        };
        let time = output.wall.absolute(told.at_ms);
        let name = format!("{:<11}", safe(&told.event));
        let name = output.paint.text(Style::of_state(told.state), &name);
        let until = match (told.due_ms, told.until_ms) {
            (_, Some(until)) => format!("  until {}", output.wall.absolute(until)),
            (Some(due), None) => format!("  due {}", output.wall.absolute(due)),
            (None, None) => String::new(),
        };
        let key = told.key.map_or_else(String::new, |key| format!("  {}", safe(&key)));
        let first_line = |error: &String| safe(error.trim().lines().next().unwrap_or_default());
        let error = told.error.as_ref().map_or_else(String::new, |error| {
            format!("  {}", output.paint.text(Style::Bad, &first_line(error)))
        });
        let queue = safe(&told.queue);
        output.line(format!("{time}  {name}  {queue}  {}{key}{until}{error}", told.job))
    }
}
