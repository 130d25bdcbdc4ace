//! A checkup of a data directory that no server uses, and of the machine that it is on.
//!
//! Each check gives findings: how bad it is, what was found with its value, and what to do. A check
//! changes nothing. What can be repaired has a [`Repair`], which runs only when it is called.
//!
//! | file | what it checks |
//! |---|---|
//! | `storage` | the store: format, damage, and what a salvage would keep |
//! | `volume` | the file system: free space, the reserve, how long a sync takes |
//! | `machine` | the clock and the limit of open files |
//! | `access` | permissions, owner, and tokens |

mod access;
mod machine;
mod storage;
mod volume;

use std::fmt;
use std::fs;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

pub use self::machine::{ClockWatch, clock_synchronization};
use crate::cluster::stores_in;
use crate::config::Config;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Worth knowing; nothing has to be done.
    Note,
    /// Something will go wrong, or works badly.
    Warning,
    /// Something is broken, or data is at risk.
    Error,
}

impl Severity {
    /// Returns the severity as JSON writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One result of a check.
///
/// ```
/// use tickwheel_server::diagnosis::{Finding, Severity};
///
/// let finding = Finding::new(Severity::Warning, "disk", "12 MiB are free")
///     .advice("make room on the file system");
/// let json = serde_json::to_string(&finding)?;
/// assert!(json.starts_with(r#"{"severity":"warning","check":"disk","message":"12 MiB are free""#));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The name of the check.
    pub check: &'static str,
    /// What was found, with the value.
    pub message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// What can be done about it here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
}

impl Finding {
    /// A finding without advice.
    pub fn new(severity: Severity, check: &'static str, message: impl Into<String>) -> Self {
        Self { severity, check, message: message.into(), advice: None, repair: None }
    }

    /// The same finding with what to do.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    fn repair(mut self, repair: Repair) -> Self {
        self.repair = Some(repair);
        self
    }
}

/// A change that removes the cause of a finding.
///
/// ```
/// # #[cfg(unix)] {
/// use tickwheel_server::diagnosis::Repair;
///
/// let folder = tempfile::tempdir()?;
/// let repair = Repair::MakePrivate(vec![folder.path().to_owned()]);
/// assert!(repair.to_string().contains("only to its owner"));
/// repair.run()?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Takes the permissions of other users away from these files and directories.
    MakePrivate(Vec<PathBuf>),
    /// Copies what can be read of this store into a new one, and keeps the damaged one aside.
    Salvage(PathBuf),
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MakePrivate(paths) => {
                let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
                write!(f, "give access only to its owner: {}", paths.join(", "))
            }
            Self::Salvage(queue) => write!(
                f,
                "copy what can be read of {} into a new store, and keep the damaged one in {}",
                queue.join("store").display(),
                queue.join("damaged").display()
            ),
        }
    }
}

impl Serialize for Repair {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Repair {
    /// Makes the change. Returns what was done.
    ///
    /// # Errors
    ///
    /// If a file cannot be changed, or the store cannot be salvaged; the text says why.
    pub fn run(&self) -> Result<String, String> {
        match self {
            Self::MakePrivate(paths) => {
                for path in paths {
                    access::make_private(path)
                        .map_err(|error| format!("{}: {error}", path.display()))?;
                }
                Ok(format!("changed the permissions of {}", paths.len()))
            }
            Self::Salvage(queue) => {
                // A trial that was interrupted takes space that the new store may need.
                let _ = fs::remove_dir_all(storage::trial_folder(queue));
                let salvaged = storage::salvage(queue)?;
                Ok(format!("salvaged {}: {salvaged}", queue.display()))
            }
        }
    }
}

/// Checks the data directory of a configuration, and this machine. The most severe findings come
/// first.
///
/// ```
/// use tickwheel_server::Config;
/// use tickwheel_server::diagnosis::{Severity, checkup};
///
/// let folder = tempfile::tempdir()?;
/// let config = Config { data: folder.path().join("missing"), ..Config::default() };
/// let findings = checkup(&config);
/// assert_eq!((findings[0].check, findings[0].severity), ("directory", Severity::Error));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn checkup(config: &Config) -> Vec<Finding> {
    let clock = ClockWatch::start();
    // A node of a cluster has one for each partition.
    let stores = stores_in(&config.data);
    let mut findings = Vec::new();
    if !config.data.is_dir() {
        let why = format!("{} is not a directory", config.data.display());
        let advice = "name the data directory of the server with --data";
        return vec![Finding::new(Severity::Error, "directory", why).advice(advice)];
    }
    findings.extend(access::owner(&config.data));
    findings.extend(access::permissions(&config.data));
    findings.push(access::tokens(config));
    findings.extend(volume::file_system(&config.data));
    findings.push(volume::sync_latency(&config.data));
    // Before a store is read, which cuts the unused end of its journal off.
    findings.extend(stores.iter().filter_map(|store| machine::future_files(store)));
    for store in &stores {
        findings.extend(storage::store(store, config.reserve / stores.len() as u64));
    }
    findings.push(machine::file_limit(config.limits.connections));
    findings.push(clock_synchronization());
    findings.extend(clock.finding());
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Bytes in the unit that fits them.
fn bytes(number: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(size, _)| number >= *size) {
        Some((size, unit)) => format!("{:.1} {unit}", number as f64 / *size as f64),
        None => format!("{number} B"),
    }
}
