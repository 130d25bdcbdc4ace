//! The command line of a suite: the options of all suites, and those of this suite.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::numbers::{count, parse_count};
use super::{Spec, Suite, System, Workload};

/// Returns the subcommand of a suite.
pub(crate) fn command(suite: &dyn Suite) -> Command {
    let spec = suite.spec();
    let usual = spec.workloads.iter().map(|workload| (workload, workload.rounds));
    let rounds = format!(
        "How often each workload runs; a figure is the median over the rounds [default: {}]",
        rounds_text(usual)
    );
    let quick = match &spec.sizes {
        Some(sizes) => format!("Run everything once, with {} {}", count(sizes.quick), sizes.things),
        None => "Run everything once, with little work".to_owned(),
    };
    let rounds = Arg::new("rounds").long("rounds").value_name("N").help(rounds);
    let quick = flag("quick", "").help(quick + ", to see that it works").conflicts_with("save");
    let mut command = Command::new(spec.name).about(spec.about).after_help(spec.examples);
    command = command
        .args(size(spec))
        .arg(rounds.value_parser(value_parser!(u32).range(1..)))
        .arg(list("only", "SYSTEM,...", "Run only these systems", systems(spec)))
        .arg(list("peers", "PEER,...", "Run our own systems and only these peers", peers(spec)))
        .arg(list("workload", "WORKLOAD,...", "Run only these workloads", workloads(spec)))
        .arg(quick)
        .args(suite.options());
    if spec.stores {
        let help = format!("Where the systems store data [default: bench/target/{}]", spec.name);
        command = command.arg(path("folder", "FOLDER", "").help(help));
    }
    command
        .arg(path("json", "FILE", "Write everything, each round included, as JSON"))
        .arg(path("svg", "FILE", "Write a chart"))
        .arg(flag("save", "Write the table, the chart and the JSON to bench/results"))
}

pub(crate) fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
}

pub(crate) fn path(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help).value_parser(value_parser!(PathBuf))
}

fn list(
    name: &'static str,
    value: &'static str,
    help: &'static str,
    known: Vec<PossibleValue>,
) -> Arg {
    let arg = Arg::new(name).long(name).value_name(value).help(help);
    arg.action(ArgAction::Append)
        .value_delimiter(',')
        .value_parser(PossibleValuesParser::new(known))
}

fn size(spec: &'static Spec) -> Option<Arg> {
    let sizes = spec.sizes.as_ref()?;
    let usual: Vec<String> = sizes.usual.iter().map(|&size| count(size)).collect();
    let help = format!(
        "How many {}; k and m stand for thousands and millions [default: {}]",
        sizes.things,
        usual.join(",").to_lowercase()
    );
    let arg = Arg::new("sizes").long(sizes.option).help(help);
    let arg = arg.value_parser(move |text: &str| parse_count(text, sizes.things, sizes.most));
    Some(if usual.len() > 1 {
        arg.value_name("N,...").action(ArgAction::Append).value_delimiter(',')
    } else {
        arg.value_name("N")
    })
}

fn systems(spec: &'static Spec) -> Vec<PossibleValue> {
    spec.systems.iter().map(|system| PossibleValue::new(system.name).help(system.help)).collect()
}

fn workloads(spec: &'static Spec) -> Vec<PossibleValue> {
    let value = |workload: &Workload| PossibleValue::new(workload.name).help(workload.help);
    spec.workloads.iter().map(value).collect()
}

fn peers(spec: &'static Spec) -> Vec<PossibleValue> {
    let mut names: Vec<&'static str> = Vec::new();
    for peer in spec.systems.iter().filter_map(|system| system.peer) {
        if !names.contains(&peer) {
            names.push(peer);
        }
    }
    let values = names.into_iter().map(PossibleValue::new);
    values.chain([PossibleValue::new("none").help("Our own systems alone")]).collect()
}

/// Returns the number of rounds as text, with the workloads that have fewer.
pub(super) fn rounds_text(rounds: impl IntoIterator<Item = (&'static Workload, u32)>) -> String {
    let rounds: Vec<_> = rounds.into_iter().collect();
    let most = rounds.iter().map(|(_, rounds)| *rounds).max().unwrap_or(0);
    let mut text = most.to_string();
    for fewer in (1..most).rev() {
        let mut names: Vec<&str> = Vec::new();
        for (workload, _) in rounds.iter().filter(|(_, rounds)| *rounds == fewer) {
            if !names.contains(&workload.name) {
                names.push(workload.name);
            }
        }
        if !names.is_empty() {
            text += "; ";
            text += &fewer.to_string();
            text += " of ";
            text += &names.join(", ");
        }
    }
    text
}

/// What the user chose.
pub(crate) struct Choice {
    pub(crate) spec: &'static Spec,
    matches: ArgMatches,
}

impl Choice {
    pub(crate) fn new(spec: &'static Spec, matches: ArgMatches) -> Self {
        Self { spec, matches }
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.matches.get_flag(name)
    }

    pub(crate) fn quick(&self) -> bool {
        self.flag("quick")
    }

    pub(crate) fn path(&self, name: &str) -> Option<&PathBuf> {
        self.matches.get_one(name)
    }

    fn list(&self, option: &str) -> Vec<&String> {
        self.matches.get_many(option).unwrap_or_default().collect()
    }

    /// Returns `true` if the user named something in a list.
    pub(crate) fn names(&self, option: &str, name: &str) -> bool {
        self.list(option).iter().any(|it| *it == name)
    }

    /// Returns how many timers or keys there are, smallest first; `[0]` if the suite has no sizes.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        let Some(sizes) = &self.spec.sizes else { return vec![0] };
        let usual = if self.quick() { vec![sizes.quick] } else { sizes.usual.to_vec() };
        let mut chosen: Vec<usize> =
            self.matches.get_many("sizes").map_or(usual, |sizes| sizes.copied().collect());
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    pub(crate) fn rounds(&self, workload: &Workload) -> u32 {
        let usual = if self.quick() { 1 } else { workload.rounds };
        let chosen = self.matches.get_one("rounds").copied().unwrap_or(usual);
        if workload.rounds == 1 { 1 } else { chosen }
    }

    pub(crate) fn workloads(&self) -> impl Iterator<Item = &'static Workload> {
        let all = self.list("workload").is_empty();
        self.spec.workloads.iter().filter(move |it| all || self.names("workload", it.name))
    }

    pub(crate) fn systems(&self) -> impl Iterator<Item = &'static System> {
        let (any, all) = (self.list("only").is_empty(), self.list("peers").is_empty());
        self.spec.systems.iter().filter(move |system| {
            let peer = system.peer.is_none_or(|peer| all || self.names("peers", peer));
            peer && (any || self.names("only", system.name))
        })
    }

    /// Returns `true` if a system of this peer runs.
    pub(crate) fn has_peer(&self, peer: &str) -> bool {
        self.systems().any(|system| system.peer == Some(peer))
    }

    /// Returns the folder that holds the data of all runs, and nothing else.
    pub(crate) fn folder(&self) -> PathBuf {
        let usual =
            || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target").join(self.spec.name);
        let folder = self.path("folder").cloned().unwrap_or_else(usual);
        folder.join(format!("data-{}", std::process::id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SUITES, cli};

    fn choice(line: &str) -> Choice {
        let matches = cli().try_get_matches_from(line.split(' ')).unwrap();
        let (name, matches) = matches.subcommand().unwrap();
        let suite = SUITES.iter().find(|suite| suite.spec().name == name).unwrap();
        Choice::new(suite.spec(), matches.clone())
    }

    #[test]
    fn the_command_line_is_consistent() {
        cli().debug_assert();
    }

    #[test]
    fn peers_leave_our_own_systems_and_only_does_not() {
        let names = |line| choice(line).systems().map(|it| it.name).collect::<Vec<_>>();
        assert_eq!(names("x async --peers none"), ["tickwheel", "bare"]);
        assert_eq!(names("x async --peers tokio"), ["tickwheel", "tokio", "bare"]);
        assert_eq!(names("x async --only tokio"), ["tokio"]);
        assert_eq!(names("x async").len(), 5);
    }

    #[test]
    fn sizes_are_sorted_and_quick_is_small() {
        assert_eq!(choice("x wheel --sizes 2m,500k,2m").sizes(), [500_000, 2_000_000]);
        assert_eq!(choice("x pace --quick").sizes(), [20_000]);
        assert_eq!(choice("x queue").sizes(), [0]);
        assert!(cli().try_get_matches_from(["x", "pace", "--keys", "0"]).is_err());
    }

    #[test]
    fn rounds_do_not_repeat_what_runs_once() {
        let rounds = |line| {
            let choice = choice(line);
            rounds_text(choice.workloads().map(|it| (it, choice.rounds(it))))
        };
        assert_eq!(rounds("x server --rounds 5"), "5; 1 of pending");
        assert_eq!(rounds("x server --quick"), "1");
        assert_eq!(rounds("x pace --rounds 2 --workload check"), "2");
    }
}
