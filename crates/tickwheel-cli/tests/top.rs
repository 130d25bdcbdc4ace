//! `top` under a real pseudo-terminal, whose output a terminal emulator turns into a screen.
#![cfg(target_os = "linux")]

mod rig;

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rig::{PATIENCE, Server, tickwheel, until};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A program in a terminal of its own.
struct Terminal {
    child: Child,
    keyboard: File,
    emulator: Arc<Mutex<vt100::Parser>>,
}

fn size(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("a size")
}

fn set_size(terminal: impl AsFd, (rows, columns): (u16, u16)) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("a terminal");
}

impl Terminal {
    /// Starts `top` for a server in a terminal of this many rows and columns.
    fn start(server: &Server, (rows, columns): (u16, u16), args: &[&str]) -> Self {
        Self::start_with(server, (rows, columns), args, &[])
    }

    fn start_with(
        server: &Server,
        (rows, columns): (u16, u16),
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a pseudo-terminal");
        grantpt(&master).expect("a pseudo-terminal");
        unlockpt(&master).expect("a pseudo-terminal");
        set_size(&master, (rows, columns));
        let program = || File::from(ioctl_tiocgptpeer(&master, flags).expect("its other end"));
        // A session of its own, so that the terminal sends it signals when its size changes.
        let inner = server.command();
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(inner.get_program()).arg("top").args(args);
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("TERM", "xterm-256color").envs(environment.iter().copied());
        let child = command
            .stdin(Stdio::from(program()))
            .stdout(Stdio::from(program()))
            .stderr(Stdio::from(program()))
            .spawn()
            .expect("setsid of util-linux");
        drop(command);
        let keyboard = File::from(master);
        let mut output = keyboard.try_clone().expect("a descriptor");
        let emulator = Arc::new(Mutex::new(vt100::Parser::new(size(rows), size(columns), 0)));
        let screen = Arc::clone(&emulator);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // The terminal is closed when the program ends, which is an error here.
            while let Ok(read @ 1..) = output.read(&mut piece) {
                screen.lock().expect("no panic").process(&piece[..read]);
            }
        });
        Self { child, keyboard, emulator }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("it reads");
    }

    fn resize(&self, (rows, columns): (u16, u16)) {
        self.emulator.lock().expect("no panic").set_size(size(rows), size(columns));
        set_size(&self.keyboard, (rows, columns));
    }

    fn text(&self) -> String {
        self.emulator.lock().expect("no panic").screen().contents()
    }

    /// Waits until the screen is as it should be.
    #[track_caller]
    fn until(&self, holds: impl Fn(&str) -> bool) {
        let start = Instant::now();
        while !holds(&self.text()) {
            assert!(start.elapsed() < PATIENCE, "the screen shows:\n{}", self.text());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    #[track_caller]
    fn until_shown(&self, text: &str) {
        self.until(|screen| screen.contains(text));
    }

    /// Whether any character has a colour.
    fn is_coloured(&self) -> bool {
        let emulator = self.emulator.lock().expect("no panic");
        let (rows, columns) = emulator.screen().size();
        let mut places =
            (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        places.any(|(row, column)| {
            let cell = emulator.screen().cell(row, column).expect("a cell");
            cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default
        })
    }

    /// Waits for the end, and checks that the terminal is as before.
    #[track_caller]
    fn finish(mut self) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "it does not end:\n{}", self.text());
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        assert!(status.success(), "{status}:\n{}", self.text());
        until(|| {
            let emulator = self.emulator.lock().expect("no panic");
            !emulator.screen().alternate_screen() && !emulator.screen().hide_cursor()
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server with three queues.
fn furnished() -> Server {
    let server = Server::start();
    for number in 0..3 {
        let key = format!("letter-{number}");
        server.run(&["put", "mail", "x", "--delay", "30s", "--key", &key]).code(0);
    }
    for _ in 0..7 {
        server.run(&["put", "orders", "x"]).code(0);
    }
    server.run(&["put", "reports", "x", "--delay", "2d"]).code(0);
    server
}

/// The line of the screen that begins with a name.
fn line<'a>(screen: &'a str, name: &str) -> &'a str {
    screen.lines().find(|line| line.starts_with(name)).unwrap_or_default()
}

/// The names of queues in their order on the screen.
fn order(screen: &str) -> Vec<&str> {
    let first = screen.lines().filter_map(|line| line.split_whitespace().next());
    first.filter(|word| ["mail", "orders", "reports"].contains(word)).collect()
}

#[test]
fn queues_jobs_and_the_wheel_are_shown_sorted_and_filtered() {
    let server = furnished();
    let mut top = Terminal::start(&server, (40, 140), &[]);
    top.until(|screen| screen.contains("live") && screen.contains("3 queues"));
    top.until_shown("wheel:");
    top.until(|screen| order(screen) == ["mail", "orders", "reports"]);
    top.until(|screen| line(screen, "orders").contains(" 7"));
    // The next jobs of the selected queue.
    top.until_shown("upcoming in mail");
    top.until(|screen| screen.contains("letter-0") && screen.contains("letter-2"));
    // Braille dots of the wheel.
    top.until(|screen| screen.contains(|c| ('\u{2801}'..='\u{28ff}').contains(&c)));
    top.press("ss");
    top.until(|screen| screen.contains("ready▼") && order(screen)[0] == "orders");
    top.press("S");
    top.until(|screen| screen.contains("ready▲") && order(screen)[2] == "orders");
    top.press("/REP");
    top.until(|screen| screen.contains("filter: REP") && order(screen) == ["reports"]);
    top.press("\r");
    top.until_shown("upcoming in reports");
    top.press("?");
    top.until_shown("reverse the order");
    top.press("x");
    top.until(|screen| !screen.contains("reverse the order"));
    assert!(top.is_coloured());
    top.press("q");
    top.finish();
}

#[test]
fn a_queue_is_paused_after_a_question() {
    let server = furnished();
    let is_paused = || server.run(&["queue", "show", "orders", "--json"]).json()["paused"] == true;
    let mut top = Terminal::start(&server, (30, 120), &["--filter", "orders"]);
    top.until_shown("upcoming in orders");
    top.press("p");
    top.until_shown("Pause queue \"orders\"? [y/N]");
    top.press("n");
    top.until_shown("nothing was changed");
    assert!(!is_paused());
    top.press("p");
    top.until_shown("Pause queue");
    top.press("y");
    top.until_shown("queue \"orders\" is paused");
    top.until(|screen| line(screen, "orders").contains("paused"));
    assert!(is_paused());
    top.press("p");
    top.until_shown("Resume queue");
    top.press("y");
    top.until(|screen| !line(screen, "orders").contains("paused"));
    assert!(!is_paused());
    top.press("\x03");
    top.finish();
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    let server = furnished();
    let mut top = Terminal::start(&server, (40, 140), &[]);
    top.until(|screen| screen.contains("wheel:") && screen.contains("workers"));
    top.resize((10, 50));
    top.until(|screen| {
        let has_foot = screen.lines().nth(9).is_some_and(|line| line.contains("q quit"));
        has_foot && !screen.contains("wheel:") && order(screen).len() == 3
    });
    top.resize((36, 130));
    top.until(|screen| screen.contains("wheel:") && screen.contains("workers"));
    top.press("q");
    top.finish();
}

#[test]
fn a_lost_server_is_told_and_found_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start_on(folder.path());
    let address = server.address().to_owned();
    server.run(&["put", "mail", "x", "--delay", "1h"]).code(0);
    let top = Terminal::start(&server, (30, 100), &[]);
    top.until(|screen| screen.contains("live") && !line(screen, "mail").is_empty());
    drop(server);
    top.until_shown("disconnected");
    assert!(!line(&top.text(), "mail").is_empty(), "the last numbers stay");
    let server = Server::start_at(folder.path(), &address);
    server.run(&["put", "new", "x", "--delay", "1h"]).code(0);
    top.until(|screen| !screen.contains("disconnected") && !line(screen, "new").is_empty());
    // A signal restores the terminal as well.
    let kill = format!("kill -TERM {}", top.child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    top.finish();
}

#[test]
fn without_colours_there_are_none() {
    let server = furnished();
    let (size, no_color) = ((30, 120), [("NO_COLOR", "1")]);
    let mut top = Terminal::start_with(&server, size, &[], &no_color);
    top.until(|screen| screen.contains("wheel:") && screen.contains("live"));
    assert!(!top.is_coloured());
    top.press("q");
    top.finish();
    let mut top = Terminal::start_with(&server, size, &["--color", "always"], &no_color);
    top.until(|screen| screen.contains("wheel:") && screen.contains("live"));
    assert!(top.is_coloured(), "what is asked for explicitly wins");
    top.press("q");
    top.finish();
}

#[test]
fn without_a_terminal_it_is_refused() {
    assert!(tickwheel(&["top"]).code(2).contains("needs a terminal"));
    assert!(tickwheel(&["top", "--json"]).code(2).contains("--json"));
}
