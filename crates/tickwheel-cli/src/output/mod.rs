//! The output of commands.
//!
//! Ground rules: answers go to standard output, everything else to standard error. With `--json`,
//! standard output holds only JSON: the unchanged answer of the HTTP API, which is documented and
//! stable. All output goes through [`Output`], because `println!` panics when the reader of a pipe
//! goes away.

pub(crate) mod cluster;
pub(crate) mod errors;
pub(crate) mod job;
mod json;
pub(crate) mod queue;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod target;
pub(crate) mod text;
pub(crate) mod time;

use std::io::{self, BufRead, IsTerminal, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use self::style::{ColorWhen, Paint, Style};
use self::table::Table;
use self::time::Wall;
use crate::client::Answer;
use crate::failure::Failure;

/// The destination and the form of a command's output.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) paint: Paint,
    pub(crate) wall: Wall,
    color: ColorWhen,
}

impl Output {
    pub(crate) fn new(json: bool, color: ColorWhen) -> Self {
        Self { json, paint: Paint::new(color, &io::stdout()), wall: Wall::system(), color }
    }

    /// Prints a line for people.
    pub(crate) fn line(&self, text: impl AsRef<str>) -> Result<(), Failure> {
        self.raw(format!("{}\n", text.as_ref()).as_bytes())
    }

    pub(crate) fn table(&self, table: &Table) -> Result<(), Failure> {
        self.raw(table.render(self.paint).as_bytes())
    }

    /// Prints the server's answer: unchanged for programs, otherwise formatted by `show`.
    pub(crate) fn answer<T: DeserializeOwned>(
        &self,
        answer: &Answer,
        show: impl FnOnce(&T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.json { self.line(&answer.text) } else { show(&answer.read()?) }
    }

    /// Prints a document of the command's own for programs, on one line.
    pub(crate) fn document(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(io::Error::from)?;
        self.line(text)
    }

    /// Writes these bytes and flushes.
    #[allow(clippy::unused_self, reason = "printing is a method of the output")]
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()?;
        Ok(())
    }

    /// Prints a remark beside the answer, for people only.
    pub(crate) fn remark(&self, text: &str) {
        if !self.json {
            let paint = Paint::new(self.color, &io::stderr());
            // Without standard error, the remark is lost.
            let _ = writeln!(io::stderr(), "{}", paint.text(Style::Faint, text));
        }
    }

    /// Asks at the terminal whether to do something. Without a terminal, `--yes` is required.
    pub(crate) fn is_confirmed(&self, what: &str) -> Result<bool, Failure> {
        if !io::stdin().is_terminal() || self.json {
            return Err(Failure::Usage(format!("{what}: repeat it with --yes")));
        }
        write!(io::stderr(), "Go ahead? [y/N] ")?;
        io::stderr().flush()?;
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// Shows the progress of a long command on one line of the terminal, which the next call
    /// overwrites.
    pub(crate) fn progress(&self, done: u64, all: u64) {
        let end = if done >= all { "\n" } else { "" };
        let bar = bar(done, all);
        self.status(&format!("{bar} {} of {}{end}", text::grouped(done), text::grouped(all)));
    }

    /// Shows progress in bytes. `is_exact` says whether `all` is the total or an estimate of it.
    pub(crate) fn progress_bytes(&self, done: u64, all: u64, is_exact: bool) {
        let (bar, about) = (bar(done, all), if is_exact { "" } else { "about " });
        self.status(&format!("{bar} {} of {about}{}", text::bytes(done), text::bytes(all)));
    }

    /// Shows what a long command is doing, on one line that the next call overwrites.
    pub(crate) fn status(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        if !self.json && stderr.is_terminal() {
            let _ = write!(stderr, "\r\x1b[K{text}");
            let _ = stderr.flush();
        }
    }

    /// Removes the line of a status or of a progress.
    pub(crate) fn end_progress(&self) {
        let mut stderr = io::stderr().lock();
        if !self.json && stderr.is_terminal() {
            let _ = write!(stderr, "\r\x1b[K");
        }
    }

    /// Prints why the command failed.
    pub(crate) fn failure(&self, failure: &Failure) {
        if failure.is_silent() {
            return;
        }
        let text = if self.json {
            serde_json::to_string_pretty(&failure.to_json()).unwrap_or_default()
        } else {
            let paint = Paint::new(self.color, &io::stderr());
            format!("{} {failure}", paint.text(Style::Bad, "error:"))
        };
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// Draws how much of a long command is done.
fn bar(done: u64, all: u64) -> String {
    const WIDTH: u64 = 30;
    let filled = (WIDTH * done.min(all)).checked_div(all).unwrap_or(WIDTH);
    format!("[{}{}]", "#".repeat(filled as usize), " ".repeat((WIDTH - filled) as usize))
}
