//! What a cron expression means, when it is due, and a week of its runs in no time:
//! `cargo run --release -p tickwheel --features cron --example cron_report -- "0 9 * * MON-FRI" Europe/Berlin`.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Zoned;
use tickwheel::cron::{CronError, Misfire, Schedule, jiff};
use tickwheel::{ManualClock, Timer};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let expression = args.next().unwrap_or_else(|| "0 9 * * MON-FRI".into());
    let zone = args.next().unwrap_or_else(|| "Europe/Berlin".into());
    match Schedule::new(&expression, zone).map_err(Into::into).and_then(report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn report(schedule: Schedule) -> Result<(), Box<dyn Error>> {
    println!("{}", schedule.explain());
    println!("\nNext:");
    for time in schedule.next(5) {
        println!("  {}", shown(&time));
    }

    // The same on a timer, with a clock that is moved by hand: over the end of summer time, and
    // with the machine asleep for three days.
    let clock = ManualClock::new();
    let zone = schedule.time_zone().clone();
    let start: Zoned = jiff::civil::date(2026, 10, 23).to_zoned(zone.clone())?;
    clock.set_wall(start.into());
    let timer = Timer::builder().clock(clock.clone()).build()?;
    let (wall, mut runs) = (clock.clone(), 0);
    timer.calendar(schedule).misfire(Misfire::Once).key("report").start(move || {
        runs += 1;
        if runs <= 20 {
            let now = jiff::Timestamp::try_from(wall.wall()).expect("a time in this century");
            println!("  {}", shown(&now.to_zoned(zone.clone())));
        }
    })?;
    println!("\nRuns in four days from Friday, 2026-10-23:");
    clock.advance(Duration::from_secs(4 * 86_400));
    println!("Asleep for three days, then two more:");
    clock.set_wall(clock.wall() + Duration::from_secs(3 * 86_400));
    clock.advance(Duration::from_secs(2 * 86_400));
    println!("{} runs in all", timer.stats().fired);
    timer.cancel("report");

    // And what is wrong is shown where it is.
    let error: CronError = Schedule::new("0 9-25 * * MON-FRI", "Europe/Berlin").unwrap_err();
    println!("\n{error}");
    Ok(())
}

fn shown(time: &Zoned) -> String {
    time.strftime("%a %Y-%m-%d %H:%M:%S %:z").to_string()
}
