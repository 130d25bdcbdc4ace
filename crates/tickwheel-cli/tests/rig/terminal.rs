//! A program under a real pseudo-terminal, whose output a terminal emulator turns into a screen.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::{PATIENCE, Server, until};

/// A program in a terminal of its own.
pub(crate) struct Terminal {
    pub(crate) child: Child,
    keyboard: File,
    emulator: Arc<Mutex<vt100::Parser>>,
    /// All bytes that the program has written.
    written: Arc<Mutex<Vec<u8>>>,
}

fn size(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("a size")
}

fn set_size(terminal: impl AsFd, (rows, columns): (u16, u16)) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("a terminal");
}

impl Terminal {
    /// Starts a command for a server in a terminal of this many rows and columns.
    pub(crate) fn start(server: &Server, (rows, columns): (u16, u16), args: &[&str]) -> Self {
        Self::start_with(server, (rows, columns), args, &[])
    }

    pub(crate) fn start_with(
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
        command.arg("--ctty").arg(inner.get_program()).args(args);
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
        let written = Arc::default();
        let (screen, bytes) = (Arc::clone(&emulator), Arc::<Mutex<Vec<u8>>>::clone(&written));
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // The terminal is closed when the program ends, which is an error here.
            while let Ok(read @ 1..) = output.read(&mut piece) {
                bytes.lock().expect("no panic").extend_from_slice(&piece[..read]);
                screen.lock().expect("no panic").process(&piece[..read]);
            }
        });
        Self { child, keyboard, emulator, written }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("it reads");
    }

    pub(crate) fn resize(&self, (rows, columns): (u16, u16)) {
        self.emulator.lock().expect("no panic").set_size(size(rows), size(columns));
        set_size(&self.keyboard, (rows, columns));
    }

    pub(crate) fn text(&self) -> String {
        self.emulator.lock().expect("no panic").screen().contents()
    }

    /// All that the program has written so far, with what it has overwritten since.
    pub(crate) fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("no panic")).into_owned()
    }

    /// Waits until the screen is as it should be.
    #[track_caller]
    pub(crate) fn until(&self, holds: impl Fn(&str) -> bool) {
        let start = Instant::now();
        while !holds(&self.text()) {
            assert!(start.elapsed() < PATIENCE, "the screen shows:\n{}", self.text());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    #[track_caller]
    pub(crate) fn until_shown(&self, text: &str) {
        self.until(|screen| screen.contains(text));
    }

    /// Whether any character has a colour.
    pub(crate) fn is_coloured(&self) -> bool {
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
    pub(crate) fn finish(mut self) {
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
