//! The extent and the findings of an attack.

/// The extent of an attack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) is_long: bool,
    /// The repetitions of random parts, if the caller set them.
    pub(crate) rounds: Option<u64>,
}

impl Scale {
    /// Returns the number of rounds: the caller's, or the default of this form.
    pub(crate) fn rounds(&self, short: u64, long: u64) -> u64 {
        self.rounds.unwrap_or(self.pick(short, long))
    }

    pub(crate) fn pick<T>(&self, short: T, long: T) -> T {
        if self.is_long { long } else { short }
    }
}

/// The most findings of one attack that are printed: they tend to be alike.
const MAX_PRINTED: usize = 20;

/// The actions and findings of an attack.
#[derive(Debug, Default)]
pub(crate) struct Report {
    findings: Vec<String>,
    facts: Vec<String>,
}

impl Report {
    /// Records a promise that did not hold.
    pub(crate) fn finding(&mut self, what: String) {
        self.findings.push(what);
    }

    /// Records a finding unless the promise holds, and returns whether it does.
    pub(crate) fn check(&mut self, holds: bool, what: impl FnOnce() -> String) -> bool {
        if !holds {
            self.finding(what());
        }
        holds
    }

    /// Records an action for the summary.
    pub(crate) fn fact(&mut self, what: String) {
        self.facts.push(what);
    }

    /// Prints the outcome and returns whether the attack succeeded.
    pub(crate) fn print(&self, name: &str, seconds: f64) -> bool {
        let has_findings = !self.findings.is_empty();
        let verdict = if has_findings { "BROKEN" } else { "held" };
        println!("{name}: {verdict} in {seconds:.1} s: {}", self.facts.join("; "));
        for finding in self.findings.iter().take(MAX_PRINTED) {
            println!("  - {}", finding.replace('\n', "\n    "));
        }
        if self.findings.len() > MAX_PRINTED {
            println!("  … {} findings in all", self.findings.len());
        }
        has_findings
    }
}
