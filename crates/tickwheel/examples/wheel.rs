//! A hierarchical wheel turning in the terminal: `cargo run --release -p tickwheel --example wheel`.
//!
//! `Show` is a program that uses a wheel as any program would, `picture` draws what is pending as
//! rings, and `main` lets time pass. Where there is no terminal it prints plain lines.
#![allow(clippy::cast_sign_loss, reason = "nothing here is negative")]

use std::collections::VecDeque;
use std::f64::consts::TAU;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;
use std::{env, process, thread};

use tickwheel::wheel::{HierarchicalWheel, Key};

const HELP: &str = "\
A hierarchical timing wheel at work.

Each ring is a level of 256 slots, and a slot of an outer ring spans a whole turn of the ring
inside it. A coloured cell (o without colour) is a few slots that hold timers; the white cell (#)
is where the hand stands, and nothing is pending behind it. When a hand has gone round, the next
slot of the ring outside it is opened and its timers are demoted inward; at the innermost hand
they fire. Time starts at 50 ticks a second and gets faster and faster, so that every hand is seen
to move.

  --fast    3 seconds instead of 10
  --help    this text
";
/// Below the picture: with colour, and without.
const LEGENDS: [&str; 2] = [
    "White: the hands. Outer slots spill inward; at the inner hand timers fire.",
    "#: hands, o: timers, .: empty. Outer slots spill inward; the inner hand fires.",
];

const LEVELS: usize = 3;
const SLOTS: usize = 256;
const FRAMES_A_SECOND: u32 = 30;

fn main() -> io::Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return Ok(());
    }
    if let Some(unknown) = args.iter().find(|&arg| arg != "--fast") {
        eprintln!("unknown argument {unknown}: --help lists the arguments");
        process::exit(2);
    }
    let frames = FRAMES_A_SECOND * if args.is_empty() { 10 } else { 3 };
    let colour = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let is_terminal = io::stdout().is_terminal();
    let mut out = io::stdout().lock();
    if is_terminal {
        write!(out, "\x1b[2J")?;
    } else {
        writeln!(out, "{HELP}\nThis is no terminal, so here are figures. Time speeds up:")?;
    }

    let mut show = Show::new();
    for frame in 1..=frames {
        // From 50 ticks a second to 400,000, or more in less time.
        let now = 55.0 * ((9.0 * f64::from(frame) / f64::from(frames)).exp() - 1.0);
        show.turn_to(now as u64);
        if is_terminal {
            write!(out, "{}", picture(&show, colour))?;
            out.flush()?;
            thread::sleep(Duration::from_secs(1) / FRAMES_A_SECOND);
        } else if frame % (frames / 15) == 0 {
            let (tick, levels) = (show.wheel.now(), show.pending_by_level());
            writeln!(out, "tick {tick:>6}: pending by level {levels:>4?}")?;
        }
    }
    let [inserted, cancelled, reset, demoted, fired] = show.counts;
    let (pending, early) = (show.wheel.len(), show.early);
    writeln!(out, "\nreset {reset}, demoted {demoted}, early: {early}")?;
    writeln!(out, "inserted {inserted} = fired {fired} + cancelled {cancelled} + pending {pending}")
}

/// A program with a wheel: it inserts, cancels and resets timers while time passes.
#[derive(Default)]
struct Show {
    wheel: HierarchicalWheel<&'static str>,
    keys: Vec<Key>,
    random: u64,
    counts: [u64; 5],
    early: u64,
    log: VecDeque<(Kind, &'static str, u64)>,
    frames_since_log: u32,
    /// Ticks in a second, as they are shown.
    speed: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Inserted,
    Cancelled,
    Reset,
    Demoted,
    Fired,
}
use Kind::{Cancelled, Demoted, Fired, Inserted, Reset};
const KINDS: [Kind; 5] = [Inserted, Cancelled, Reset, Demoted, Fired];

impl Kind {
    fn name(self, colour: bool) -> String {
        let code = [250, 245, 221, 79, 203][self as usize];
        let name = format!("{self:?}").to_lowercase();
        paint(colour, code, &format!("{name:<9}"))
    }
}

impl Show {
    fn new() -> Self {
        let mut show = Self::default();
        (0..700).for_each(|_| show.insert());
        show
    }

    fn turn_to(&mut self, now: u64) {
        self.frames_since_log += 1;
        let before = self.wheel.now();
        self.speed = (now - before) * u64::from(FRAMES_A_SECOND);
        let mut demoted = Vec::new();
        for timer in self.wheel.iter().filter(|timer| timer.deadline > now) {
            if level(timer.deadline, now) < level(timer.deadline, before) {
                demoted.push((*timer.value, timer.deadline));
            }
        }
        for (task, deadline) in demoted {
            self.note(Demoted, task, deadline);
        }
        while let Some(due) = self.wheel.pop_due(now) {
            self.early += u64::from(due.deadline > now);
            self.note(Fired, due.value, due.deadline);
        }
        (0..6).for_each(|_| self.insert());
        self.cancel();
        self.reset();
    }

    fn insert(&mut self) {
        const TASKS: [&str; 4] = ["close order", "retry payment", "send coupon", "ping peer"];
        let (task, deadline) = (TASKS[self.random(TASKS.len())], self.later());
        self.keys.push(self.wheel.insert(deadline, task));
        self.note(Inserted, task, deadline);
    }

    fn cancel(&mut self) {
        let key = self.any_key();
        // The key of a timer that has fired is stale, and nothing happens.
        if let Some(deadline) = self.wheel.deadline(key)
            && let Some(task) = self.wheel.remove(key)
        {
            self.note(Cancelled, task, deadline);
        }
    }

    fn reset(&mut self) {
        let (key, deadline) = (self.any_key(), self.later());
        if self.wheel.reset(key, deadline)
            && let Some(task) = self.wheel.get(key).copied()
        {
            self.note(Reset, task, deadline);
        }
    }

    fn any_key(&mut self) -> Key {
        let index = self.random(self.keys.len());
        self.keys[index]
    }

    /// Counts an event, and lists it unless one of its kind or any other only just came.
    fn note(&mut self, kind: Kind, task: &'static str, deadline: u64) {
        self.counts[kind as usize] += 1;
        let is_news = self.log.iter().take(2).all(|newest| newest.0 != kind);
        if is_news && kind != Inserted && self.frames_since_log >= 5 {
            self.log.push_front((kind, task, deadline));
            self.log.truncate(6);
            self.frames_since_log = 0;
        }
    }

    /// A deadline 2⁴ to 2²⁴ ticks away, each power of two as likely as the other.
    fn later(&mut self) -> u64 {
        let power = 4.0 + 19.9 * self.random(1 << 20) as f64 / f64::from(1 << 20);
        self.wheel.now() + power.exp2() as u64
    }

    fn random(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ 0x1405_7b7e_f767_814f;
        (self.random >> 33) as usize % below
    }

    fn pending_by_level(&self) -> [usize; LEVELS] {
        let mut pending = [0; LEVELS];
        for timer in &self.wheel {
            pending[level(timer.deadline, self.wheel.now())] += 1;
        }
        pending
    }
}

/// The level of a deadline: the highest byte in which it differs from now.
fn level(deadline: u64, now: u64) -> usize {
    ((deadline ^ now).checked_ilog2().unwrap_or(0) as usize / 8).min(LEVELS - 1)
}

/// The slot of a tick in a level's ring.
fn slot(tick: u64, level: usize) -> usize {
    (tick >> (8 * level)) as usize % SLOTS
}

/// How the levels are drawn: a ring from one radius to the other, cut into so many cells, in a
/// colour by how many timers a cell holds.
const RINGS: [(f64, f64, usize, [u8; 3]); LEVELS] = [
    (6.5, 10.2, 64, [130, 208, 220]),
    (11.8, 15.6, 64, [29, 35, 84]),
    (17.2, 21.6, 128, [25, 33, 117]),
];
const HAND: u8 = 231;
const AHEAD: u8 = 238;
const BEHIND: u8 = 235;
/// Of the picture, in pixels. A character is two of them, one above the other.
const SIDE: usize = 44;

/// One frame: the rings on the left, the figures on the right.
fn picture(show: &Show, colour: bool) -> String {
    let now = show.wheel.now();
    let mut held = RINGS.map(|(_, _, cells, _)| vec![0_u32; cells]);
    for timer in &show.wheel {
        let level = level(timer.deadline, now);
        held[level][slot(timer.deadline, level) * RINGS[level].2 / SLOTS] += 1;
    }
    let pixel = |x: usize, y: usize| -> Option<u8> {
        let centre = (SIDE - 1) as f64 / 2.0;
        let (right, up) = (x as f64 - centre, centre - y as f64);
        let is_met = |ring: &(f64, f64, _, _)| (ring.0..ring.1).contains(&right.hypot(up));
        let level = RINGS.iter().position(is_met)?;
        let (_, _, cells, shades) = RINGS[level];
        let angle = right.atan2(up).rem_euclid(TAU) / TAU;
        let cell = (angle * cells as f64) as usize % cells;
        let hand = slot(now, level) * cells / SLOTS;
        Some(match held[level][cell].checked_ilog2() {
            _ if cell == hand => HAND,
            Some(log) => shades[log.min(2) as usize],
            None if cell < hand => BEHIND,
            None => AHEAD,
        })
    };
    // The cursor is hidden and lines are cut, but only while the frame is drawn: a show that is
    // interrupted leaves the terminal as it was.
    let mut frame = String::from("\x1b[?2026h\x1b[?25l\x1b[?7l");
    let mut panel = panel(show, colour).into_iter();
    for row in 0..SIDE / 2 {
        let _ = write!(frame, "\x1b[{};1H ", row + 1);
        for x in 0..SIDE {
            frame += &character([pixel(x, 2 * row), pixel(x, 2 * row + 1)], colour);
        }
        let _ = write!(frame, "  {}\x1b[K", panel.next().unwrap_or_default());
    }
    frame
        + "\r\n"
        + &paint(colour, 245, LEGENDS[usize::from(!colour)])
        + "\r\n\x1b[?7h\x1b[?25h\x1b[?2026l"
}

fn character(pixels: [Option<u8>; 2], colour: bool) -> String {
    let holds = |wanted: &[u8]| pixels.iter().flatten().any(|pixel| wanted.contains(pixel));
    match pixels {
        [None, None] => " ".into(),
        _ if !colour && holds(&[HAND]) => "#".into(),
        _ if !colour && holds(RINGS.map(|ring| ring.3).as_flattened()) => "o".into(),
        _ if !colour => ".".into(),
        [Some(upper), None] => paint(true, upper, "▀"),
        [None, Some(lower)] => paint(true, lower, "▄"),
        [Some(upper), Some(lower)] => format!("\x1b[38;5;{upper};48;5;{lower}m▀\x1b[0m"),
    }
}

fn panel(show: &Show, colour: bool) -> Vec<String> {
    let now = show.wheel.now();
    let wake = show.wheel.next_wake().unwrap_or(now);
    let mut lines = vec![
        paint(colour, HAND, "T I C K W H E E L"),
        format!("tick {now:>7}   next wake {wake:>7}"),
        format!("time speeds up: {} ticks a second", show.speed),
        String::new(),
    ];
    for (level, pending) in show.pending_by_level().iter().enumerate() {
        let (mark, ticks) = (paint(colour, RINGS[level].3[1], "■"), 1 << (8 * level));
        lines.push(format!("{mark} level {level} {pending:>4} in slots of {ticks}"));
    }
    lines.push(String::new());
    for (kind, count) in KINDS.iter().zip(show.counts) {
        lines.push(format!("{} {count:>5}", kind.name(colour)));
    }
    lines.push(format!("early     {:>5}", show.early));
    lines.push(String::new());
    lines.push(paint(colour, HAND, &format!("{:<9} {:<13} {:>8}", "newest", "task", "deadline")));
    for (kind, task, deadline) in &show.log {
        lines.push(format!("{} {task:<13} {deadline:>8}", kind.name(colour)));
    }
    lines
}

fn paint(colour: bool, code: u8, text: &str) -> String {
    if !colour {
        return text.to_owned();
    }
    format!("\x1b[38;5;{code}m{text}\x1b[0m")
}
