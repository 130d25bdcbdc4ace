//! `cargo xtask bench`: hands its arguments to the program of the bench/ workspace.
//!
//! The name is checked here, so that a misspelled name does not build all peers first.

use std::ffi::OsString;

use crate::process::{Failure, Invocation};

/// Each benchmark is a folder of bench/src and a subcommand of its program.
const KNOWN: &[(&str, &str)] = &[
    ("wheel", "the two timing wheels against DelayQueue, BinaryHeap, BTreeMap and another wheel"),
    ("timer", "the timer against Netty, the JDK, Go, tokio and async-io"),
    ("async", "sleep, timeout, interval and delay queue against tokio, async-io and futures-timer"),
    ("pace", "pacing for a million keys, and the check alone against governor"),
    ("queue", "the durable queue against Redis, PostgreSQL and beanstalkd"),
    ("server", "the service against the queue in it, Redis, PostgreSQL and beanstalkd"),
    ("push", "push delivery against a worker loop, and the rates of a thousand targets"),
    ("cluster", "a cluster against its log alone, NATS scheduled messages and PostgreSQL"),
];

pub(crate) fn run(args: Vec<OsString>) -> Result<(), Failure> {
    let name = args.first().and_then(|name| name.to_str());
    if matches!(name, Some("--help" | "-h" | "help")) {
        println!("{}", help());
        return Ok(());
    }
    check(args.first())?;
    let fixed = ["run", "--release", "--manifest-path", "bench/Cargo.toml", "--"];
    Invocation::cargo(fixed.into_iter().map(OsString::from).chain(args)).without_limit().run()
}

fn check(name: Option<&OsString>) -> Result<(), Failure> {
    let what = match name {
        Some(name) if KNOWN.iter().any(|(known, _)| name == known) => return Ok(()),
        Some(name) => format!("there is no benchmark `{}`", name.to_string_lossy()),
        None => String::from("a benchmark must be named"),
    };
    let names: Vec<String> = KNOWN.iter().map(|(name, _)| format!("`{name}`")).collect();
    Err(Failure::Missing(format!("{what}: there are {}", names.join(", "))))
}

fn help() -> String {
    let list: Vec<String> = KNOWN.iter().map(|(name, what)| format!("  {name:<8}{what}")).collect();
    format!(
        "Usage: cargo xtask bench NAME [ARGS]\n\n{}\n\n\
         `cargo xtask bench NAME --help` lists the arguments of one.",
        list.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::root;

    #[test]
    fn every_known_benchmark_is_there() {
        for (name, _) in KNOWN {
            assert!(check(Some(&OsString::from(name))).is_ok());
            assert!(root().join("bench/src").join(name).join("mod.rs").exists(), "{name}");
        }
    }

    #[test]
    fn an_unknown_benchmark_is_refused_with_the_known_ones() {
        let refused = |name: Option<OsString>| check(name.as_ref()).unwrap_err().to_string();
        assert_eq!(
            refused(Some("nonsense".into())),
            "there is no benchmark `nonsense`: there are `wheel`, `timer`, `async`, `pace`, \
             `queue`, `server`, `push`, `cluster`"
        );
        assert!(refused(None).contains("`timer`"));
    }
}
