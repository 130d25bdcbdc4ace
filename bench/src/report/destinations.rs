//! The files that a report is kept in.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::chart::Chart;
use super::file;

/// Where results are kept: `bench/results`, wherever the program is called from.
const KEPT_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/results");

/// What the command line says about files.
#[derive(Args)]
pub(crate) struct Files {
    /// Write everything, each round included, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a chart
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Write the table, the chart and the JSON to bench/results
    #[arg(long)]
    save: bool,
}

/// A report that can be kept: as JSON, and as follows.
pub(crate) trait Kept: Serialize {
    fn markdown(&self) -> String;
    fn chart(&self) -> Chart;
}

/// The files that were asked for.
#[derive(Default)]
pub(crate) struct Destinations {
    json: Vec<PathBuf>,
    svg: Vec<PathBuf>,
    markdown: Vec<PathBuf>,
}

impl Destinations {
    /// Finds out before the measuring whether they can be written. Saved files are called `name`.
    pub(crate) fn check(files: &Files, name: &str) -> Result<Self> {
        let mut all = Self::default();
        all.json.extend(files.json.clone());
        all.svg.extend(files.svg.clone());
        if files.save {
            let folder = PathBuf::from(KEPT_IN);
            std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {KEPT_IN}"))?;
            all.json.push(folder.join(format!("{name}.json")));
            all.svg.push(folder.join(format!("{name}.svg")));
            all.markdown.push(folder.join(format!("{name}.md")));
        }
        let mut paths = all.json.iter().chain(&all.svg).chain(&all.markdown);
        paths.try_for_each(|path| file::check(path))?;
        Ok(all)
    }

    pub(crate) fn write(&self, report: &impl Kept) -> Result<()> {
        self.json.iter().try_for_each(|path| file::write_json(path, report))?;
        let picture = report.chart().to_string();
        self.svg.iter().try_for_each(|path| file::write_text(path, &picture))?;
        let markdown = report.markdown();
        self.markdown.iter().try_for_each(|path| file::write_text(path, &markdown))
    }
}
