//! Parsing server-sent events from the lines of a stream.
//!
//! The format is that of the HTML standard: `field: value` lines, an empty line at the end of each
//! event, and lines that begin with a colon as signs of life.

use std::io::{self, BufRead};

/// One event of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The kind; `message` by default.
    pub(crate) name: String,
    /// The data.
    pub(crate) data: String,
    /// The position of the stream after it.
    pub(crate) id: Option<String>,
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events<R> {
    lines: R,
    /// The position from which the stream can be resumed. It also advances without events.
    pub(crate) position: Option<String>,
}

impl<R: BufRead> Events<R> {
    pub(crate) fn new(lines: R) -> Self {
        Self { lines, position: None }
    }

    /// Returns the next event, or `None` at the end of the stream. An incomplete event is dropped.
    pub(crate) fn next(&mut self) -> io::Result<Option<Event>> {
        let (mut name, mut data, mut id) = (String::new(), None::<String>, None);
        let mut line = Vec::new();
        loop {
            line.clear();
            self.lines.read_until(b'\n', &mut line)?;
            let Some(content) = line.strip_suffix(b"\n") else { return Ok(None) };
            let content = content.strip_suffix(b"\r").unwrap_or(content);
            let content = String::from_utf8_lossy(content);
            if content.is_empty() {
                self.position = id.take().or(self.position.take());
                if let Some(data) = data {
                    let name = if name.is_empty() { "message".to_owned() } else { name };
                    return Ok(Some(Event { name, data, id: self.position.clone() }));
                }
                name.clear();
                continue;
            }
            let (field, value) = content.split_once(':').unwrap_or((&content, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match (field, &mut data) {
                ("event", _) => value.clone_into(&mut name),
                ("id", _) if !value.contains('\0') => id = Some(value.to_owned()),
                ("data", Some(data)) => {
                    data.push('\n');
                    data.push_str(value);
                }
                ("data", data) => *data = Some(value.to_owned()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<Event> {
        let mut events = Events::new(text);
        std::iter::from_fn(|| events.next().unwrap()).collect()
    }

    fn event(name: &str, data: &str, id: Option<&str>) -> Event {
        Event { name: name.to_owned(), data: data.to_owned(), id: id.map(str::to_owned) }
    }

    #[test]
    fn lines_become_events() {
        let text = b": alive\n\nid: 7\nevent: put\ndata: {\"a\":1}\n\ndata:x\r\ndata: y\r\n\r\n";
        let expected = [event("put", "{\"a\":1}", Some("7")), event("message", "x\ny", Some("7"))];
        assert_eq!(all(text), expected);
    }

    #[test]
    fn what_is_cut_off_is_no_event() {
        assert_eq!(all(b"data: a\n\ndata: b\n"), [event("message", "a", None)]);
        assert_eq!(all(b"data: a"), []);
        assert_eq!(all(b""), []);
    }

    #[test]
    fn events_without_data_and_unknown_fields_are_passed_over() {
        assert_eq!(all(b"event: x\n\nretry: 5\nfoo\ndata: a\n\n"), [event("message", "a", None)]);
    }

    #[test]
    fn the_position_moves_without_events_and_not_by_half_of_one() {
        let mut events = Events::new(&b"retry: 1\nid: 3\n\nid: 4\n\nid: 5\ndata: a\n"[..]);
        assert_eq!(events.next().unwrap(), None);
        assert_eq!(events.position.as_deref(), Some("4"));
    }
}
