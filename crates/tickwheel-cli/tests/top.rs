//! `top` under a real pseudo-terminal, whose output a terminal emulator turns into a screen.
#![cfg(target_os = "linux")]

mod rig;

use std::process::Command;

use rig::terminal::Terminal;
use rig::{Server, tickwheel};

/// Starts `top` for a server in a terminal of this many rows and columns.
fn top(server: &Server, size: (u16, u16), args: &[&str]) -> Terminal {
    Terminal::start(server, size, &[&["top"], args].concat())
}

/// Returns a server with three queues.
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

/// Returns the line of the screen that begins with a name.
fn line<'a>(screen: &'a str, name: &str) -> &'a str {
    screen.lines().find(|line| line.starts_with(name)).unwrap_or_default()
}

/// Returns the names of queues in their order on the screen.
fn order(screen: &str) -> Vec<&str> {
    let first = screen.lines().filter_map(|line| line.split_whitespace().next());
    first.filter(|word| ["mail", "orders", "reports"].contains(word)).collect()
}

#[test]
fn queues_jobs_and_the_wheel_are_shown_sorted_and_filtered() {
    let server = furnished();
    let mut screen = top(&server, (40, 140), &[]);
    screen.until(|screen| screen.contains("live") && screen.contains("3 queues"));
    screen.until_shown("wheel:");
    screen.until(|screen| order(screen) == ["mail", "orders", "reports"]);
    screen.until(|screen| line(screen, "orders").contains(" 7"));
    // The next jobs of the selected queue.
    screen.until_shown("upcoming in mail");
    screen.until(|screen| screen.contains("letter-0") && screen.contains("letter-2"));
    // Braille dots of the wheel.
    screen.until(|screen| screen.contains(|c| ('\u{2801}'..='\u{28ff}').contains(&c)));
    screen.press("ss");
    screen.until(|screen| screen.contains("ready▼") && order(screen)[0] == "orders");
    screen.press("S");
    screen.until(|screen| screen.contains("ready▲") && order(screen)[2] == "orders");
    screen.press("/REP");
    screen.until(|screen| screen.contains("filter: REP") && order(screen) == ["reports"]);
    screen.press("\r");
    screen.until_shown("upcoming in reports");
    screen.press("?");
    screen.until_shown("reverse the order");
    screen.press("x");
    screen.until(|screen| !screen.contains("reverse the order"));
    assert!(screen.is_coloured());
    screen.press("q");
    screen.finish();
}

#[test]
fn a_queue_is_paused_after_a_question() {
    let server = furnished();
    let is_paused = || server.run(&["queue", "show", "orders", "--json"]).json()["paused"] == true;
    let mut screen = top(&server, (30, 120), &["--filter", "orders"]);
    screen.until_shown("upcoming in orders");
    screen.press("p");
    screen.until_shown("Pause queue \"orders\"? [y/N]");
    screen.press("n");
    screen.until_shown("nothing was changed");
    assert!(!is_paused());
    screen.press("p");
    screen.until_shown("Pause queue");
    screen.press("y");
    screen.until_shown("queue \"orders\" is paused");
    screen.until(|screen| line(screen, "orders").contains("paused"));
    assert!(is_paused());
    screen.press("p");
    screen.until_shown("Resume queue");
    screen.press("y");
    screen.until(|screen| !line(screen, "orders").contains("paused"));
    assert!(!is_paused());
    screen.press("\x03");
    screen.finish();
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    let server = furnished();
    let mut screen = top(&server, (40, 140), &[]);
    screen.until(|screen| screen.contains("wheel:") && screen.contains("workers"));
    screen.resize((10, 50));
    screen.until(|screen| {
        let has_foot = screen.lines().nth(9).is_some_and(|line| line.contains("q quit"));
        has_foot && !screen.contains("wheel:") && order(screen).len() == 3
    });
    screen.resize((36, 130));
    screen.until(|screen| screen.contains("wheel:") && screen.contains("workers"));
    screen.press("q");
    screen.finish();
}

#[test]
fn a_lost_server_is_told_and_found_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start_on(folder.path());
    let address = server.address().to_owned();
    server.run(&["put", "mail", "x", "--delay", "1h"]).code(0);
    let screen = top(&server, (30, 100), &[]);
    screen.until(|screen| screen.contains("live") && !line(screen, "mail").is_empty());
    drop(server);
    screen.until_shown("disconnected");
    assert!(!line(&screen.text(), "mail").is_empty(), "the last numbers stay");
    let server = Server::start_at(folder.path(), &address);
    server.run(&["put", "new", "x", "--delay", "1h"]).code(0);
    screen.until(|screen| !screen.contains("disconnected") && !line(screen, "new").is_empty());
    // A signal restores the terminal as well.
    let kill = format!("kill -TERM {}", screen.child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    screen.finish();
}

#[test]
fn without_colours_there_are_none() {
    let server = furnished();
    let (size, no_color) = ((30, 120), [("NO_COLOR", "1")]);
    let mut screen = Terminal::start_with(&server, size, &["top"], &no_color);
    screen.until(|screen| screen.contains("wheel:") && screen.contains("live"));
    assert!(!screen.is_coloured());
    screen.press("q");
    screen.finish();
    let mut screen = Terminal::start_with(&server, size, &["top", "--color", "always"], &no_color);
    screen.until(|screen| screen.contains("wheel:") && screen.contains("live"));
    assert!(screen.is_coloured(), "what is asked for explicitly wins");
    screen.press("q");
    screen.finish();
}

#[test]
fn without_a_terminal_it_is_refused() {
    assert!(tickwheel(&["top"]).code(2).contains("needs a terminal"));
    assert!(tickwheel(&["top", "--json"]).code(2).contains("--json"));
}
