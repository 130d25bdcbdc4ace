//! Completions and man pages.

use std::fs;

use crate::args::{self, CompletionsArgs, ManArgs};
use crate::failure::Failure;
use crate::output::{Output, text};

pub(crate) fn completions(output: &Output, args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "tickwheel", &mut script);
    output.raw(&script)
}

pub(crate) fn man(output: &Output, args: &ManArgs) -> Result<(), Failure> {
    let wrong = |error| {
        Failure::Other(format!("cannot write man pages into {}: {error}", args.directory.display()))
    };
    fs::create_dir_all(&args.directory).map_err(wrong)?;
    clap_mangen::generate_to(args::command(), &args.directory).map_err(wrong)?;
    let pages = fs::read_dir(&args.directory).map_err(wrong)?.count() as u64;
    output.line(format!(
        "{} in {}; read them with `man -l {}`",
        text::count(pages, "file"),
        args.directory.display(),
        args.directory.join("tickwheel.1").display()
    ))
}
