//! `cargo xtask burst-chart`: the chart of the guide to rate-limited partner APIs, from a real run.
//!
//! * `recording`: starts a server and a target, puts two bursts of jobs, and notes when jobs were
//!   put and when calls arrived.
//! * `drawing`: the recorded run as an SVG file, in each language of the guide.
//!
//! The recorded run is stored beside the charts. A test draws it again and compares.

mod drawing;
mod recording;

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Failure, Invocation, root};

/// The rate of the recorded target: this many calls in any window of one second.
const STARTS: usize = 100;
const WINDOW_MS: u64 = 1_000;
/// Jobs that are put at once, and when, in milliseconds.
const BURSTS: [(u64, usize); 2] = [(0, 300), (2_500, 150)];

const RUN: &str = "docs/guides/partner-api-run.csv";

/// The times of puts and calls, in milliseconds since the start of the run.
#[derive(Debug, Default)]
struct Run {
    puts: Vec<u64>,
    calls: Vec<u64>,
}

impl Run {
    fn to_csv(&self) -> String {
        let line = |kind: &'static str| move |ms: &u64| format!("{kind},{ms}\n");
        let lines = self.puts.iter().map(line("put")).chain(self.calls.iter().map(line("call")));
        "event,milliseconds\n".to_owned() + &lines.collect::<String>()
    }

    fn from_csv(text: &str) -> Option<Self> {
        let mut run = Self::default();
        for line in text.lines().skip(1) {
            let (kind, ms) = line.split_once(',')?;
            match kind {
                "put" => run.puts.push(ms.parse().ok()?),
                "call" => run.calls.push(ms.parse().ok()?),
                _ => return None,
            }
        }
        Some(run)
    }

    /// Returns the largest number of calls in any window.
    fn densest_window(&self) -> usize {
        let in_window = |first: usize| {
            let end = self.calls[first] + WINDOW_MS;
            self.calls[first..].iter().take_while(|&&ms| ms < end).count()
        };
        (0..self.calls.len()).map(in_window).max().unwrap_or(0)
    }
}

/// Records a run with the binary at this path, or with one that is built first, and draws it. With
/// `redraw`, draws the last recorded run instead.
pub(crate) fn run(program: Option<PathBuf>, redraw: bool) -> Result<(), Failure> {
    let run = if redraw {
        read_run()?
    } else {
        let run = recording::record(&binary(program)?)?;
        write(RUN, &run.to_csv())?;
        run
    };
    let densest = run.densest_window();
    println!("{} calls; at most {densest} in any second", run.calls.len());
    for language in drawing::LANGUAGES {
        write(language.path, &drawing::draw(&run, language))?;
    }
    Ok(())
}

fn binary(program: Option<PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(program) = program {
        return Ok(program);
    }
    Invocation::cargo(["build", "--release", "--package", "tickwheel-cli"]).run()?;
    Ok(root().join("target/release/tickwheel"))
}

fn read_run() -> Result<Run, Failure> {
    let text = fs::read_to_string(root().join(RUN));
    let text = text.map_err(|error| Failure::Read(RUN.to_owned(), error))?;
    Run::from_csv(&text).ok_or_else(|| Failure::Missing(format!("{RUN} is not a recorded run")))
}

fn write(path: &str, text: &str) -> Result<(), Failure> {
    let written = fs::write(root().join(Path::new(path)), text);
    written.map_err(|error| Failure::Missing(format!("cannot write {path}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charts_show_the_recorded_run() {
        let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
        let run = read_run().unwrap();
        assert_eq!(run.puts.len(), BURSTS.iter().map(|(_, jobs)| jobs).sum::<usize>());
        assert_eq!(run.puts.len(), run.calls.len());
        assert!(run.densest_window() <= STARTS, "{} calls in a window", run.densest_window());
        assert_eq!(run.to_csv(), read(RUN));
        for language in drawing::LANGUAGES {
            assert_eq!(read(language.path), drawing::draw(&run, language), "{}", language.path);
        }
    }
}
