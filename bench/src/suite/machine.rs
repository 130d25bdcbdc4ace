//! The machine that figures are measured on, without its host name. A property that cannot be read
//! is "unknown".

use std::fmt;
use std::fs;
use std::process::Command;

use serde::Serialize;

/// Properties of the machine and the compiler that explain a figure.
#[derive(Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) last_level_cache: String,
    pub(crate) memory: String,
    pub(crate) kernel: String,
    pub(crate) huge_pages: String,
    pub(crate) rustc: String,
}

impl Machine {
    pub(crate) fn read() -> Self {
        Self {
            cpu: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            last_level_cache: last_level_cache(),
            memory: memory(),
            kernel: line("/proc/sys/kernel/osrelease"),
            huge_pages: huge_pages(),
            rustc: rustc(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, last_level_cache, memory, kernel, huge_pages, rustc } = self;
        write!(
            f,
            "{cpu}, {cores} cores, {last_level_cache} last-level cache, {memory} memory, \
             kernel {kernel}, huge pages: {huge_pages}, {rustc}"
        )
    }
}

fn unknown() -> String {
    String::from("unknown")
}

/// Returns the first line of a file.
fn line(path: &str) -> String {
    fs::read_to_string(path)
        .ok()
        .and_then(|text| text.lines().next().map(|line| line.trim().to_owned()))
        .unwrap_or_else(unknown)
}

/// Returns the value of the first `name : value` line of a file.
fn field(path: &str, name: &str) -> String {
    let value = |text: String| {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    fs::read_to_string(path).ok().and_then(value).unwrap_or_else(unknown)
}

/// Returns the size of the outermost cache of the first core.
fn last_level_cache() -> String {
    (0..8)
        .rev()
        .map(|index| line(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")))
        .find(|size| *size != unknown())
        .map_or_else(unknown, |size| {
            match size.strip_suffix('K').and_then(|n| n.parse::<u64>().ok()) {
                Some(kib) => format!("{} MiB", kib / 1024),
                None => size,
            }
        })
}

fn memory() -> String {
    let total = field("/proc/meminfo", "MemTotal");
    match total.split_whitespace().next().and_then(|n| n.parse::<f64>().ok()) {
        Some(kib) => format!("{:.0} GiB", kib / 1024.0 / 1024.0),
        None => unknown(),
    }
}

/// Returns the current setting, which the kernel puts in brackets.
fn huge_pages() -> String {
    let settings = line("/sys/kernel/mm/transparent_hugepage/enabled");
    settings
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or_else(unknown, |(setting, _)| setting.to_owned())
}

fn rustc() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|version| version.trim().to_owned())
        .filter(|version| !version.is_empty())
        .unwrap_or_else(|| String::from("rustc unknown"))
}
