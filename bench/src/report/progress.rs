//! A bar that shows how far a comparison is.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// On standard error, and only if that is a terminal.
pub(crate) fn bar(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:32} {percent:>3}%  {elapsed_precise}  {msg}")
        .expect("the template is well-formed");
    let progress = ProgressBar::new(length).with_style(style);
    progress.enable_steady_tick(Duration::from_secs(1));
    progress
}
