//! What long commands show on a terminal: a bar that fills, and at its end a summary.
#![cfg(target_os = "linux")]

mod rig;

use rig::Server;
use rig::terminal::Terminal;

const SIZE: (u16, u16) = (24, 80);

/// The lines that the program has drawn over each other, in their order.
fn drawn(written: &str) -> Vec<&str> {
    written.split('\r').map(|line| line.trim_start_matches("\x1b[K").trim_end()).collect()
}

/// The filled part of a bar, as characters; `None` if the line has no bar.
fn filled(line: &str) -> Option<usize> {
    let bar = line.strip_prefix('[')?.split_once(']')?.0;
    assert_eq!(bar.len(), 30, "{line}");
    Some(bar.trim_end_matches(' ').matches('#').count())
}

/// Runs a command in a terminal to its end; all that it has written, and the last screen.
fn run(server: &Server, args: &[&str], last: &str) -> (String, String) {
    let terminal = Terminal::start(server, SIZE, args);
    terminal.until_shown(last);
    let (written, screen) = (terminal.written(), terminal.text());
    terminal.finish();
    (written, screen)
}

#[test]
fn many_lines_fill_a_bar_and_are_summed_up() {
    let server = Server::start();
    let file = server.folder().join("lines");
    std::fs::write(&file, "job\n".repeat(3_000)).unwrap();
    let args = ["put", "q", "--lines", "--delay", "1h", "--file", file.to_str().unwrap()];
    let (written, screen) = run(&server, &args, "3,000 jobs put");
    // One step for each batch.
    let steps: Vec<(usize, &str)> = drawn(&written)
        .into_iter()
        .filter_map(|line| Some((filled(line)?, line.split_once("] ")?.1)))
        .collect();
    let expected = [500, 1_000, 1_500, 2_000, 2_500, 3_000].map(|done: usize| {
        let grouped = if done < 1_000 {
            done.to_string()
        } else {
            format!("{},{:03}", done / 1_000, done % 1_000)
        };
        (done / 100, format!("{grouped} of 3,000"))
    });
    assert!(
        steps.iter().copied().eq(expected.iter().map(|(filled, told)| (*filled, &told[..]))),
        "{steps:?}"
    );
    // The steps share a line, and the jobs have none.
    let bar = format!("[{}] 3,000 of 3,000", "#".repeat(30));
    assert_eq!(screen.trim_end(), format!("{bar}\n3,000 jobs put"));
}

#[test]
fn a_refused_line_stands_on_a_line_of_its_own() {
    let server = Server::start();
    let file = server.folder().join("lines");
    let mut lines = "{\"text\":\"x\"}\n".repeat(700);
    lines.push_str("{\"text\":\"\",\"max_attempts\":0}\n");
    std::fs::write(&file, lines).unwrap();
    let terminal = Terminal::start(
        &server,
        SIZE,
        &["put", "q", "--jsonl", "--delay", "1h", "--file", file.to_str().unwrap()],
    );
    terminal.until_shown("1 of 701 jobs refused");
    let screen = terminal.text();
    let refused = screen.lines().find(|line| line.contains("refused:")).unwrap_or_default();
    assert!(refused.starts_with("line 701: refused: "), "{screen}");
}

#[test]
fn backup_and_restore_fill_a_bar() {
    let server = Server::start();
    // Many pieces of the transfer.
    let line = "x".repeat(1_000) + "\n";
    let put = ["put", "q", "--lines", "-", "--delay", "1h"];
    server.run_with(&put, line.repeat(16_000).as_bytes()).code(0);
    let path = |name: &str| server.folder().join(name).to_str().expect("UTF-8").to_owned();
    let file = path("copy.backup");
    let (written, screen) = run(&server, &["backup", &file], "copy.backup: ");
    let steps: Vec<usize> = drawn(&written).into_iter().filter_map(filled).collect();
    assert!(steps.len() > 10 && steps.is_sorted(), "{steps:?}");
    assert!(steps[0] < steps[steps.len() - 1], "{steps:?}");
    assert!(written.contains(" MiB of about "), "{written}");
    assert!(!screen.contains('['), "the bar is gone at the end: {screen}");

    // The size of a file is known.
    let (written, screen) =
        run(&server, &["restore", &file, "--data", &path("restored")], "checked");
    let steps: Vec<usize> = drawn(&written).into_iter().filter_map(filled).collect();
    let most = steps.iter().max();
    assert!(steps.len() > 10 && steps[0] < 5 && most >= Some(&29), "{steps:?}");
    assert!(!written.contains("about") && !screen.contains('['), "{written}");

    // A pipe gets no bar.
    let ran = server.run(&["backup", &path("other.backup")]);
    ran.code(0);
    assert_eq!(ran.stderr, "");
}

#[test]
fn the_list_of_queues_explains_what_done_and_cancelled_count() {
    let server = Server::start();
    server.run(&["queue", "set", "q", "--keep-done", "1d", "--keep-cancelled", "1d"]).code(0);
    server.run(&["put", "q", "x", "--key", "k", "--delay", "1h"]).code(0);
    let note = "done and cancelled count the jobs that retention keeps";
    assert!(!server.run(&["queue", "ls"]).stderr.contains(note), "there are none");
    server.run(&["cancel", "q", "k"]).code(0);
    let (_, screen) = run(&server, &["queue", "ls"], note);
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[0].contains("done") && lines[0].contains("cancelled"), "{screen}");
    assert!(lines[1].starts_with("q ") && lines[2].contains(note), "{screen}");
    // Beside the table, not in it: a pipe gets the table alone.
    let ran = server.run(&["queue", "ls"]);
    assert_eq!(ran.text().lines().count(), 2, "{ran:?}");
    assert!(ran.stderr.contains(note) && !ran.stderr.contains('\u{1b}'), "{ran:?}");
}
