//! Stopping without losing anything: what never ran is written to a file and scheduled again by
//! the next start. Run `cargo run --release -p tickwheel --example graceful_shutdown` twice or more.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use tickwheel::{ScheduleError, Timer, Unfired};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::temp_dir().join("tickwheel-graceful-shutdown.txt");
    let timer = Timer::new();
    let left = load(&timer, &file)?;
    println!("reminders left from the last run: {left}");

    if left == 0 {
        println!("three new ones are due in 1, 4 and 9 seconds, of which this run takes 2");
        for (name, delay) in [("tea", 1), ("laundry", 4), ("taxes", 9)] {
            remind(&timer, name, SystemTime::now() + Duration::from_secs(delay))?;
        }
    }
    std::thread::sleep(Duration::from_secs(2));

    let unfired = timer.stop();
    println!("reminders left for the next run: {}, in {}", unfired.len(), file.display());
    save(&unfired, &file)?;
    Ok(())
}

fn remind(timer: &Timer, name: &str, when: SystemTime) -> Result<(), ScheduleError> {
    let text = format!("remember: {name}");
    timer.key(name).at(when, move || println!("{text}"))?;
    Ok(())
}

/// One line a reminder: seconds since 1970, and its name.
fn save(unfired: &[Unfired], file: &PathBuf) -> Result<(), Box<dyn Error>> {
    let mut lines = String::new();
    for task in unfired {
        if let (Some(name), Some(deadline)) = (task.key(), task.deadline()) {
            let when = SystemTime::now() + deadline.saturating_duration_since(Instant::now());
            let seconds = when.duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
            writeln!(lines, "{seconds} {name}")?;
        }
    }
    fs::write(file, lines)?;
    Ok(())
}

fn load(timer: &Timer, file: &PathBuf) -> Result<usize, Box<dyn Error>> {
    let lines = fs::read_to_string(file).unwrap_or_default();
    for line in lines.lines() {
        let (seconds, name) = line.split_once(' ').ok_or("a line without a name")?;
        let when = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds.parse()?);
        remind(timer, name, when)?;
    }
    Ok(lines.lines().count())
}
