//! `cargo xtask hostile`: attacks on the real binary, in their long form.
//!
//! The program is a test of the command line's crate; `cargo xtask test` runs a short form.

use crate::process::{Failure, Invocation};

pub(crate) fn run(attack: Option<String>, rounds: Option<u32>, short: bool) -> Result<(), Failure> {
    let test = ["test", "--release", "--package", "tickwheel-cli", "--test", "hostile", "--"];
    let mut args: Vec<String> = test.map(str::to_owned).into();
    if !short {
        args.push("--long".to_owned());
    }
    for (name, value) in [("--attack", attack), ("--rounds", rounds.map(|it| it.to_string()))] {
        args.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
    }
    Invocation::cargo(args).without_limit().run()
}
