//! Runs a comparison and writes its report.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Value, json};

use super::chart::{self, Bar, Chart, Group, Scale};
use super::files::{self, Files};
use super::goal::{self, Verdict};
use super::leftovers::Leftovers;
use super::machine::Machine;
use super::numbers::{count, ratio_text};
use super::options::{Choice, rounds_text};
use super::origin::{self, Version};
use super::results::{Results, Series};
use super::rounds::{run_all, turns};
use super::table::Table;
use super::{Figure, Panel, Section, Suite, System, Versus};

/// Runs a comparison, prints its report and writes the files that the user asked for.
pub(crate) fn compare(suite: &dyn Suite, choice: &Choice) -> Result<()> {
    let files = Files::check(choice)?;
    let leftovers = choice.spec.stores.then(|| Leftovers::of([choice.folder()])).transpose()?;
    let ready = suite.set_up(choice)?;
    let turns = turns(suite, choice);
    let results = run_all(suite, choice, &ready, &turns)?;
    drop(leftovers);
    let mut verdicts: Vec<Verdict> =
        choice.spec.goals.iter().filter_map(|goal| goal.check(&results)).collect();
    verdicts.extend(suite.more_goals(&results));
    let report = Report {
        command: origin::command(),
        date: origin::date(),
        machine: Machine::read(),
        peers: ready.versions,
        rounds: rounds_text(turns.iter().map(|turn| (turn.workload, choice.rounds(turn.workload)))),
        quick: choice.quick(),
        verdicts,
        results,
    };
    // A reader such as `head` may close the pipe early; the files are written all the same.
    match writeln!(io::stdout(), "\n{report}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot print")?;
        }
        _ => {}
    }
    files::write(&files.json, &report.json()?)?;
    files::write(&files.svg, &report.chart().to_string())?;
    files::write(&files.markdown, &format!("# {}\n\n{report}", choice.spec.title))
}

/// The results and their origin.
struct Report {
    command: String,
    date: String,
    machine: Machine,
    peers: Vec<Version>,
    rounds: String,
    quick: bool,
    verdicts: Vec<Verdict>,
    results: Results,
}

impl Report {
    /// Names the size, as in "1M timers"; empty if the suite has no sizes.
    fn size(&self, size: usize) -> String {
        let sizes = &self.results.spec.sizes;
        sizes.as_ref().map_or_else(String::new, |it| format!("{} {}", count(size), it.things))
    }

    /// Returns `true` if the run has the size that goals are about.
    fn is_usual(&self) -> bool {
        let usual = self.results.spec.sizes.as_ref().map_or(0, |sizes| sizes.usual[0]);
        !self.quick && self.results.sizes[0] == usual
    }

    fn json(&self) -> Result<String> {
        #[derive(Serialize)]
        struct Json<'a> {
            command: &'a str,
            date: &'a str,
            machine: &'a Machine,
            peers: &'a [Version],
            #[serde(flatten)]
            size: BTreeMap<&'a str, Value>,
            rounds: &'a str,
            quick: bool,
            goals: &'a [Verdict],
            series: &'a [Series],
        }
        let Self { command, date, machine, peers, rounds, verdicts, results, .. } = self;
        let mut size = BTreeMap::new();
        if let Some(sizes) = &results.spec.sizes {
            let all = &results.sizes;
            size.insert(sizes.things, if all.len() > 1 { json!(all) } else { json!(all[0]) });
        }
        let (goals, series, quick) = (&verdicts[..], &results.series[..], self.quick);
        let json = Json { command, date, machine, peers, size, rounds, quick, goals, series };
        Ok(serde_json::to_string_pretty(&json)? + "\n")
    }

    fn table(&self, section: &Section) -> Option<Table> {
        let Results { spec, sizes, .. } = &self.results;
        let all = spec.systems_of(section.systems);
        let shown = self.results.measured(&all);
        let things = spec.sizes.as_ref().filter(|_| sizes.len() > 1).map(|sizes| sizes.things);
        let mut head = vec!["workload", "unit"];
        head.extend(things);
        head.extend(shown.iter().map(|system| system.label));
        let mut head: Vec<String> = head.into_iter().map(str::to_owned).collect();
        head.extend(section.versus.iter().map(|versus| match versus {
            Versus::BestPeer => "vs best peer".to_owned(),
            Versus::System(name) => {
                format!("vs {}", spec.system(name).map_or(*name, |peer| peer.label))
            }
        }));
        let mut table = Table::new(head);
        for &size in sizes {
            for figure in spec.figures {
                let value = |it: &&System| self.results.value_at(size, it.name, figure.name);
                let values: Vec<Option<f64>> = shown.iter().map(value).collect();
                if values.iter().any(Option::is_some) {
                    let mut row = vec![figure.label.to_owned(), figure.unit.name().to_owned()];
                    row.extend(things.map(|_| count(size)));
                    row.extend(
                        values.iter().map(|value| or_dash(value.map(|it| figure.unit.text(it)))),
                    );
                    let versus = section.versus.iter();
                    row.extend(versus.map(|it| or_dash(self.ratio(it, size, &all, figure))));
                    table.row(row);
                }
            }
        }
        (!shown.is_empty()).then_some(table)
    }

    /// Compares the first system of a table.
    fn ratio(
        &self,
        versus: &Versus,
        size: usize,
        systems: &[&'static System],
        figure: &Figure,
    ) -> Option<String> {
        let of = |system: &str| self.results.value_at(size, system, figure.name);
        let (label, theirs) = match versus {
            Versus::System(name) => (String::new(), of(name)?),
            Versus::BestPeer => {
                let (peer, value) = self.results.best_peer(size, systems, figure)?;
                (format!(" {}", peer.label), value)
            }
        };
        let ratio = Results::advantage(figure, of(systems[0].name)?, theirs)?;
        Some(ratio_text(ratio) + &label)
    }

    /// Returns bars for the smallest size, with marks for the next.
    fn chart(&self) -> Chart {
        let Results { spec, sizes, .. } = &self.results;
        let labels = || spec.systems.iter().map(|system| system.label).collect();
        let legend = if spec.legend.is_empty() { labels() } else { spec.legend.to_vec() };
        let of_size = if spec.sizes.is_some() { ", " } else { "" };
        Chart {
            title: format!("{}{of_size}{}", spec.title, self.size(sizes[0])),
            subtitle: spec.subtitle.to_owned(),
            systems: legend.into_iter().map(str::to_owned).collect(),
            marked: sizes.get(1).map(|&size| format!("the same with {}", self.size(size))),
            panels: spec.panels.iter().map(|panel| self.panel(panel)).collect(),
            caption: vec![
                format!("{}, {}, medians (rounds: {})", self.command, self.date, self.rounds),
                self.machine.to_string(),
                origin::versions(&self.peers),
            ],
        }
    }

    fn panel(&self, panel: &Panel) -> chart::Panel {
        let Results { spec, sizes, .. } = &self.results;
        let systems = spec.systems_of(panel.systems);
        let figures = panel.figures.iter().filter_map(|name| spec.figure(name));
        let bar = |system: &str, figure: &Figure| {
            let value = self.results.value(system, figure.name)?;
            let larger = sizes.get(1);
            let mark = larger.and_then(|&it| self.results.value_at(it, system, figure.name));
            Some(Bar { value, text: figure.unit.text(value), mark })
        };
        let groups = figures.clone().map(|figure| Group {
            label: figure.label.to_owned(),
            bars: systems.iter().map(|system| bar(system.name, figure)).collect(),
        });
        let unit = figures.clone().next().map_or("", |figure| figure.unit.name());
        let scaled = if panel.scale == Scale::Logarithmic { ", logarithmic" } else { "" };
        chart::Panel {
            title: format!("{}, {unit}{scaled}", panel.title),
            scale: panel.scale,
            groups: groups.filter(|group| group.bars.iter().any(Option::is_some)).collect(),
        }
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Results { spec, sizes, .. } = &self.results;
        for section in spec.sections {
            if let Some(table) = self.table(section) {
                if !section.heading.is_empty() {
                    writeln!(f, "## {}\n", section.heading)?;
                }
                writeln!(f, "{table}")?;
            }
        }
        let with: Vec<String> =
            sizes.iter().map(|&size| self.size(size)).filter(|text| !text.is_empty()).collect();
        let with = if with.is_empty() { String::new() } else { with.join(" and ") + ", " };
        writeln!(f, "## Notes\n\n* `{}`, {}", self.command, self.date)?;
        writeln!(f, "* {with}rounds: {}", self.rounds)?;
        writeln!(f, "* {}\n* {}", self.machine, origin::versions(&self.peers))?;
        write!(f, "{}", spec.notes)?;
        if self.verdicts.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n## Goals\n")?;
        if !self.is_usual() {
            let usual = spec.sizes.as_ref().map_or(0, |sizes| sizes.usual[0]);
            let with = if usual > 0 { " with " } else { "" };
            writeln!(f, "The goals are stated for a full run{with}{}.\n", self.size(usual))?;
        }
        write!(f, "{}", goal::table(&self.verdicts))
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;

    fn report(suite: &str, values: &[(&str, &str, f64)]) -> Report {
        let machine = Machine::read();
        let (results, peers, verdicts) = (results(suite, values), Vec::new(), Vec::new());
        let [command, date, rounds] = ["command", "date", "1"].map(str::to_owned);
        Report { command, date, machine, peers, rounds, quick: true, verdicts, results }
    }

    fn rows(table: &Table) -> Vec<Vec<String>> {
        let text = table.to_string();
        let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect();
        text.lines().skip(2).map(cells).collect()
    }

    #[test]
    fn rows_compare_with_a_system_and_with_the_best_peer() {
        let report = report(
            "server",
            &[
                ("service", "put64", 3_000.0),
                ("embedded", "put64", 4_000.0),
                ("redis", "put64", 1_500.0),
                ("beanstalkd", "put64", 1_000.0),
                ("redis", "put-ahead64", 9_000.0),
            ],
        );
        let rows = rows(&report.table(&report.results.spec.sections[0]).unwrap());
        let cells = ["3000", "4000", "1500", "1000", "0.75x", "2.0x Redis", ""];
        assert_eq!(rows[0][3..], cells);
        assert_eq!(rows[1][3..], ["-", "-", "9000", "-", "-", "-", ""]);
    }

    #[test]
    fn a_table_holds_its_own_systems() {
        let report = report(
            "queue",
            &[
                ("tickwheel", "put1", 3_000.0),
                ("redis-always", "put1", 1_000.0),
                ("redis-everysec", "put1", 9_000.0),
            ],
        );
        let sections = report.results.spec.sections;
        let rows = rows(&report.table(&sections[0]).unwrap());
        assert_eq!(rows[0][3..], ["3000", "1000", "3.0x Redis, always", ""]);
        assert!(report.table(&sections[1]).is_some());
        let nothing = self::report("queue", &[]);
        assert!(nothing.table(&sections[0]).is_none());
    }

    #[test]
    fn a_panel_has_a_place_for_each_system_and_no_empty_group() {
        let report = report("pace", &[("tickwheel", "wait", 7.0), ("governor", "check-new", 8.0)]);
        let chart = report.chart();
        assert!(chart.panels[0].groups.iter().all(|group| group.bars.len() == 2));
        assert_eq!(chart.panels[0].groups.len(), 2);
        assert!(chart.panels[1].groups.is_empty());
        assert!(chart.to_string().contains("</svg>"));
    }

    #[test]
    fn the_json_has_every_series() {
        let report = report("pace", &[("tickwheel", "wait", 7.0)]);
        let json: Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        assert_eq!(json["series"][0]["rounds"], json!([7.0]));
        assert_eq!((&json["keys"], &json["quick"]), (&json!(0), &json!(true)));
    }
}
