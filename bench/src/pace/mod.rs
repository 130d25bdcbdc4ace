//! Pacing for a million keys; and the check without pacing, against a rate limiter.
//!
//! * `ours`: submits tasks to a pacer and starts them
//! * `check`: only checks, with a pacer and with governor

mod check;
mod ours;

use anyhow::{Result, bail};
use fastrand::Rng;

use crate::suite::chart::Scale::Linear;
use crate::suite::goal::Of;
use crate::suite::options::Choice;
use crate::suite::origin::locked;
use crate::suite::unit::Unit::{Bytes, Nanoseconds};
use crate::suite::{
    Case, Figures, Outcome, Ready, Run, Section, Sizes, Spec, Suite, Versus, figure, ours as own,
    panel, peer, workload,
};
use crate::work::SEED;

pub(crate) struct Pace;

const OURS: Of = Of("tickwheel");

static SPEC: Spec = Spec {
    name: "pace",
    about: "Pacing for a million keys, and the check alone against governor",
    examples: "\
Examples: everything once and small; a look at two workloads; the run whose results are kept
  cargo xtask bench pace --quick
  cargo xtask bench pace --rounds 1 --workload start,check
  cargo xtask bench pace --save",
    title: "Pacing",
    sizes: Some(Sizes {
        option: "keys",
        things: "keys",
        usual: &[1_000_000],
        quick: 20_000,
        most: 8_000_000,
        bytes: 512,
    }),
    stores: false,
    workloads: &[
        workload("start", 5, 1, "Submit and start a task for each key, twice: new and known keys"),
        workload("threads", 5, 1, "The same once, with the timer's own thread"),
        workload("wait", 5, 1, "Three tasks for each key where one may start in a second"),
        workload("forget", 5, 1, "A window without tasks passes, and all keys are forgotten"),
        workload("check", 5, 1, "Check each key three times: new, known, and refused"),
    ],
    systems: &[
        own("tickwheel", "tickwheel", "Tickwheel's `KeyedPacer`"),
        peer("governor", "governor", "governor", "governor's keyed rate limiter on its own store"),
    ],
    figures: &[
        figure("submit-new", "submit, new key", Nanoseconds),
        figure("dispatch-new", "dispatch, new key", Nanoseconds),
        figure("both-new", "submit + dispatch, new key", Nanoseconds),
        figure("submit-known", "submit, known key", Nanoseconds),
        figure("dispatch-known", "dispatch, known key", Nanoseconds),
        figure("both-known", "submit + dispatch, known key", Nanoseconds),
        figure("threads", "submit + dispatch, with the timer's thread", Nanoseconds),
        figure("wait", "submit + wait + dispatch", Nanoseconds),
        figure("forget", "forget a key", Nanoseconds),
        figure("check-new", "check, new key", Nanoseconds),
        figure("check-known", "check, known key", Nanoseconds),
        figure("check-refused", "check, refused", Nanoseconds),
        figure("memory-queued", "memory a key with a task", Bytes),
        figure("memory-checked", "memory a key with two starts", Bytes),
    ],
    sections: &[Section { heading: "", systems: &[], versus: &[Versus::System("governor")] }],
    goals: &[
        OURS.under("both-new", 500.0),
        OURS.under("both-known", 500.0),
        OURS.under("threads", 500.0),
    ],
    subtitle: "Shorter is better.",
    legend: &[],
    panels: &[
        panel(
            "processor time each",
            Linear,
            &[],
            &[
                "submit-new",
                "dispatch-new",
                "both-new",
                "submit-known",
                "dispatch-known",
                "both-known",
                "threads",
                "wait",
                "forget",
                "check-new",
                "check-known",
                "check-refused",
            ],
        ),
        panel("memory", Linear, &[], &["memory-queued", "memory-checked"]),
    ],
    notes: include_str!("notes.md"),
};

impl Suite for Pace {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    /// A rate limiter has no queue: it can only check.
    fn does(&self, system: &str, workload: &str) -> bool {
        system == "tickwheel" || workload == "check"
    }

    fn set_up(&self, _choice: &Choice) -> Result<Ready> {
        Ok(Ready { versions: locked(&["governor"]), ..Ready::default() })
    }

    fn settings(&self, _choice: &Choice, case: &Case) -> Vec<(&'static str, u64)> {
        vec![("keys", case.size as u64)]
    }

    fn run(&self, run: &Run) -> Result<Outcome> {
        let figures = perform(run.system.name, run.workload.name, run.number("keys")? as usize)?;
        Ok(figures.into())
    }
}

fn perform(system: &str, workload: &str, keys: usize) -> Result<Figures> {
    match (workload, system) {
        ("start", _) => ours::start(keys),
        ("threads", _) => ours::threads(keys),
        ("wait", _) => ours::wait(keys),
        ("forget", _) => ours::forget(keys),
        ("check", "tickwheel") => check::measure::<check::Ours>(keys),
        ("check", "governor") => check::measure::<check::Governor>(keys),
        _ => bail!("unknown workload {workload} of {system}"),
    }
}

/// Returns all keys in a random order, which differs from pass to pass. Keys are large numbers, as
/// ids of customers are.
fn keys(count: usize, pass: u64) -> Vec<u64> {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut keys: Vec<u64> = (0..count as u64).map(|key| key.wrapping_mul(SPREAD)).collect();
    Rng::with_seed(SEED + pass).shuffle(&mut keys);
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_checks_and_ours_starts_tasks() {
        // The sum of started tasks is static, so other workloads need a process of their own.
        for (system, workload) in
            [("tickwheel", "start"), ("tickwheel", "check"), ("governor", "check")]
        {
            assert!(!perform(system, workload, 200).expect("the run passes its checks").is_empty());
        }
    }

    #[test]
    fn every_pass_has_the_same_keys_in_another_order() {
        let [mut one, mut two] = [0, 1].map(|pass| keys(1_000, pass));
        assert_ne!(one, two);
        assert_eq!(one, keys(1_000, 0));
        one.sort_unstable();
        two.sort_unstable();
        assert_eq!(one, two);
    }
}
