//! The frame of all benchmarks.
//!
//! A [`Suite`] is a table of names ([`Spec`]) and the code of one run ([`Suite::run`]). The rest is
//! common to all suites:
//!
//! * `options`: the command line
//! * `rounds`: runs every workload on every system, in turns, each run in a process of its own
//! * `results`, `goal`: the medians, and whether they reach the goals
//! * `report`, `table`, `chart`, `files`: the result as Markdown, JSON and SVG
//! * `unit`, `numbers`: how values are written
//! * `origin`, `machine`: the command, versions and hardware of a result
//! * `leftovers`: removes the runs' data, even after Ctrl-C

pub(crate) mod chart;
mod files;
pub(crate) mod goal;
mod leftovers;
mod machine;
pub(crate) mod numbers;
pub(crate) mod options;
pub(crate) mod origin;
mod report;
pub(crate) mod results;
pub(crate) mod rounds;
mod table;
pub(crate) mod unit;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Arg;
use serde::{Deserialize, Serialize};

use self::chart::Scale;
use self::goal::{Goal, Verdict};
use self::options::Choice;
use self::origin::Version;
use self::results::Results;
use self::unit::Unit;
use crate::scratch::Scratch;

pub(crate) use self::report::compare;

/// A benchmark: systems that do the same workloads, and the figures that are compared.
pub(crate) trait Suite: Sync {
    /// Returns the suite's names, goals and texts.
    fn spec(&self) -> &'static Spec;

    /// Returns the command-line options that only this suite has.
    fn options(&self) -> Vec<Arg> {
        Vec::new()
    }

    /// Returns `true` if a system can do a workload.
    fn does(&self, _system: &str, _workload: &str) -> bool {
        true
    }

    /// Returns `false` for a run that is left out unless the user asks for it.
    fn includes(&self, _choice: &Choice, _case: &Case) -> bool {
        true
    }

    /// Installs and builds what the chosen systems need.
    fn set_up(&self, choice: &Choice) -> Result<Ready>;

    /// Returns the settings of a run. Its process gets them as `--name value`.
    fn settings(&self, choice: &Choice, case: &Case) -> Vec<(&'static str, u64)>;

    /// Returns the program that runs a system: by default this one.
    fn program(&self, _choice: &Choice, case: &Case) -> Result<Command> {
        rounds::this_program(self.spec(), case.system)
    }

    /// Does one run in this process.
    fn run(&self, run: &Run) -> Result<Outcome>;

    /// Does a part of a run in a process of its own. The setting `helper` names the part.
    fn help(&self, _run: &Run) -> Result<()> {
        bail!("{} has no helpers", self.spec().name)
    }

    /// Checks the goals that [`Spec::goals`] cannot express.
    fn more_goals(&self, _results: &Results) -> Vec<Verdict> {
        Vec::new()
    }
}

/// The tables that describe a suite.
pub(crate) struct Spec {
    /// The subcommand, and the name of the files in `bench/results`.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Printed after the options in `--help`.
    pub(crate) examples: &'static str,
    pub(crate) title: &'static str,
    pub(crate) sizes: Option<Sizes>,
    /// Whether a run stores data. Such a run has a folder, which is removed afterwards.
    pub(crate) stores: bool,
    /// In the order in which they run.
    pub(crate) workloads: &'static [Workload],
    /// In the order in which they are shown. The first is the one that goals are about.
    pub(crate) systems: &'static [System],
    /// In the order in which they are shown.
    pub(crate) figures: &'static [Figure],
    pub(crate) sections: &'static [Section],
    pub(crate) goals: &'static [Goal],
    pub(crate) subtitle: &'static str,
    pub(crate) legend: &'static [&'static str],
    pub(crate) panels: &'static [Panel],
    /// Bullet points in Markdown that say how the figures are measured.
    pub(crate) notes: &'static str,
}

/// The numbers of timers or keys of a suite.
pub(crate) struct Sizes {
    /// The option that sets the size. It takes a list if `usual` has several sizes.
    pub(crate) option: &'static str,
    /// The things that are counted, and the name of the setting.
    pub(crate) things: &'static str,
    pub(crate) usual: &'static [usize],
    pub(crate) quick: usize,
    pub(crate) most: usize,
    /// An upper bound of the bytes that a system needs for each of them.
    pub(crate) bytes: usize,
}

/// The work that a system does in a run.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// The usual number of rounds. With 1, `--rounds` does not apply.
    pub(crate) rounds: u32,
    /// About how many seconds a run takes, for the progress bar.
    pub(crate) seconds: u64,
    pub(crate) help: &'static str,
}

/// A system under test.
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    /// The name that `--peers` takes; `None` for systems of our own, which always run.
    pub(crate) peer: Option<&'static str>,
    pub(crate) help: &'static str,
}

/// A value that runs measure: one row of a table.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) unit: Unit,
}

/// A table of the report.
pub(crate) struct Section {
    /// The heading of the table; empty for none.
    pub(crate) heading: &'static str,
    /// The systems of this table; all if empty. The first is compared with the others.
    pub(crate) systems: &'static [&'static str],
    /// The last columns: how many times better the first system is than each of these.
    pub(crate) versus: &'static [Versus],
}

/// The system that the first one of a table is compared with.
pub(crate) enum Versus {
    BestPeer,
    System(&'static str),
}

/// Bars of figures that share a unit.
pub(crate) struct Panel {
    pub(crate) title: &'static str,
    pub(crate) scale: Scale,
    /// One bar each, in the order of the legend; all systems if empty.
    pub(crate) systems: &'static [&'static str],
    pub(crate) figures: &'static [&'static str],
}

pub(crate) const fn workload(
    name: &'static str,
    rounds: u32,
    seconds: u64,
    help: &'static str,
) -> Workload {
    Workload { name, rounds, seconds, help }
}

pub(crate) const fn ours(name: &'static str, label: &'static str, help: &'static str) -> System {
    System { name, label, peer: None, help }
}

pub(crate) const fn peer(
    peer: &'static str,
    name: &'static str,
    label: &'static str,
    help: &'static str,
) -> System {
    System { name, label, peer: Some(peer), help }
}

pub(crate) const fn figure(name: &'static str, label: &'static str, unit: Unit) -> Figure {
    Figure { name, label, unit }
}

pub(crate) const fn panel(
    title: &'static str,
    scale: Scale,
    systems: &'static [&'static str],
    figures: &'static [&'static str],
) -> Panel {
    Panel { title, scale, systems, figures }
}

impl Spec {
    pub(crate) fn system(&self, name: &str) -> Option<&System> {
        self.systems.iter().find(|system| system.name == name)
    }

    pub(crate) fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Returns the systems with these names, or all if there are no names.
    pub(crate) fn systems_of(&self, names: &[&str]) -> Vec<&System> {
        if names.is_empty() {
            return self.systems.iter().collect();
        }
        names.iter().filter_map(|name| self.system(name)).collect()
    }
}

/// One workload on one system, in one round.
pub(crate) struct Case {
    pub(crate) system: &'static System,
    pub(crate) workload: &'static Workload,
    /// How many timers or keys; 0 if the suite has no sizes.
    pub(crate) size: usize,
    pub(crate) round: u32,
}

/// What [`Suite::set_up`] found or made.
#[derive(Default)]
pub(crate) struct Ready {
    pub(crate) versions: Vec<Version>,
    /// Settings of every run, in addition to those of [`Suite::settings`].
    pub(crate) settings: Vec<(&'static str, String)>,
}

/// A run, as described by the arguments of its process.
pub(crate) struct Run {
    pub(crate) system: &'static System,
    pub(crate) workload: &'static Workload,
    settings: BTreeMap<String, String>,
}

impl Run {
    /// Reads `--name value` pairs, among them `--system` and `--workload`.
    fn parse(spec: &'static Spec, arguments: &[String]) -> Result<Self> {
        let mut settings = BTreeMap::new();
        for pair in arguments.chunks(2) {
            let [name, value] = pair else { bail!("{} has no value", pair[0]) };
            let name = name.strip_prefix("--").with_context(|| format!("{name} is no setting"))?;
            settings.insert(name.to_owned(), value.clone());
        }
        let mut take =
            |name: &str| settings.remove(name).with_context(|| format!("--{name} is missing"));
        let (system, workload) = (take("system")?, take("workload")?);
        let find = |known: &&Workload| known.name == workload;
        Ok(Self {
            system: spec.system(&system).with_context(|| format!("unknown system {system}"))?,
            workload: spec
                .workloads
                .iter()
                .find(find)
                .with_context(|| format!("unknown workload {workload}"))?,
            settings,
        })
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        let value = self.settings.get(name).with_context(|| format!("--{name} is missing"))?;
        Ok(value)
    }

    pub(crate) fn number(&self, name: &str) -> Result<u64> {
        let text = self.text(name)?;
        text.parse().with_context(|| format!("--{name} must be a whole number, got {text}"))
    }

    pub(crate) fn path(&self, name: &str) -> Result<&Path> {
        self.text(name).map(Path::new)
    }

    /// Returns a command for a helper of this run, with the same settings.
    pub(crate) fn helper(&self, spec: &Spec, name: &str) -> Result<Command> {
        let mut command = rounds::this_program(spec, self.system)?;
        command.args(["--workload", self.workload.name, "--helper", name]);
        for (name, value) in &self.settings {
            command.arg(format!("--{name}")).arg(value);
        }
        Ok(command)
    }

    /// Does the run in this process and prints its outcome as JSON.
    pub(crate) fn execute(suite: &dyn Suite, arguments: &[String]) -> Result<()> {
        let run = Self::parse(suite.spec(), arguments)?;
        if run.settings.contains_key("helper") {
            return suite.help(&run);
        }
        let (system, workload) = (run.system.name, run.workload.name);
        ensure!(suite.does(system, workload), "{system} does not do {workload}");
        let folder = if suite.spec().stores { Some(run.path("folder")?) } else { None };
        let scratch = folder.map(Scratch::new).transpose()?;
        let outcome = suite.run(&run);
        drop(scratch);
        println!("{}", serde_json::to_string(&outcome?)?);
        Ok(())
    }
}

/// The figures that a run measured, by name.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// The result of a run, printed as one line of JSON.
#[derive(Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Equal for all systems that did the same work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checksum: Option<u64>,
    pub(crate) figures: BTreeMap<String, f64>,
}

impl Outcome {
    pub(crate) fn new(
        checksum: impl Into<Option<u64>>,
        figures: impl IntoIterator<Item = (&'static str, f64)>,
    ) -> Self {
        let figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { checksum: checksum.into(), figures }
    }
}

impl From<Figures> for Outcome {
    fn from(figures: Figures) -> Self {
        Self::new(None, figures)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::SUITES;

    #[test]
    fn every_name_that_a_spec_mentions_is_declared_once() {
        for spec in SUITES.iter().map(|suite| suite.spec()) {
            let systems: HashSet<_> = spec.systems.iter().map(|system| system.name).collect();
            let figures: HashSet<_> = spec.figures.iter().map(|figure| figure.name).collect();
            assert_eq!((systems.len(), figures.len()), (spec.systems.len(), spec.figures.len()));
            let mut mentioned: Vec<&str> = Vec::new();
            for section in spec.sections {
                mentioned.extend(section.systems);
                mentioned.extend(section.versus.iter().filter_map(|versus| match versus {
                    Versus::BestPeer => None,
                    Versus::System(name) => Some(*name),
                }));
            }
            mentioned.extend(spec.panels.iter().flat_map(|panel| panel.systems));
            mentioned.extend(spec.goals.iter().flat_map(Goal::systems));
            for name in mentioned {
                assert!(systems.contains(name), "{}: unknown system {name}", spec.name);
            }
            let of_panels = spec.panels.iter().flat_map(|panel| panel.figures).copied();
            for name in of_panels.chain(spec.goals.iter().flat_map(Goal::figures)) {
                assert!(figures.contains(name), "{}: unknown figure {name}", spec.name);
            }
        }
    }

    #[test]
    fn a_panel_has_one_unit() {
        for spec in SUITES.iter().map(|suite| suite.spec()) {
            for panel in spec.panels {
                let units: Vec<_> =
                    panel.figures.iter().filter_map(|name| Some(spec.figure(name)?.unit)).collect();
                assert!(units.windows(2).all(|pair| pair[0] == pair[1]), "{}", panel.title);
            }
        }
    }

    #[test]
    fn a_run_is_told_its_settings() {
        let spec = SUITES[0].spec();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (system, workload) = (spec.systems[0].name, spec.workloads[0].name);
        let both = format!("--system {system} --workload {workload}");
        let run = Run::parse(spec, &words(&format!("{both} --timers 7"))).unwrap();
        assert_eq!((run.system.name, run.number("timers").unwrap()), (system, 7));
        assert!(run.number("keys").is_err());
        assert!(Run::parse(spec, &words(&format!("{both} --timers"))).is_err());
        assert!(Run::parse(spec, &words(&format!("--system {system}"))).is_err());
    }
}
