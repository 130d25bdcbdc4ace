//! How the view is drawn.
//!
//! From top to bottom: the server and its health, totals, the queues, and below them what comes
//! next, targets and the wheel. On a small terminal the lower panes and the less important columns
//! are left out.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState};
use tickwheel_api::{OverviewTotals, QueueOverview, Target, TargetState, Upcoming};

use super::dial;
use super::theme::{Theme, Tone};
use super::view::{Dialog, View};
use crate::args::TopSort;
use crate::output::text::{bytes, count, grouped, safe, shortened};
use crate::output::time::{Wall, relative, rough};

/// Numbers that are older than this are marked as old.
const OLD: Duration = Duration::from_secs(3);
/// The height of the lower panes, and the least that is left for queues above them.
const PANES: u16 = 12;
const LEAST_QUEUES: u16 = 6;
/// The least width of a pane.
const PANE_WIDTH: u16 = 30;
/// Troubles that are shown at most.
const TROUBLES: usize = 3;

const HELP: &str = "\
 ↑ ↓ j k          select a queue
 PgUp PgDn        ten further
 Home End         first, last
 s                sort by the next column
 S                reverse the order
 /                filter by name
                  (Enter keeps it, Esc clears it)
 p                pause or resume the queue
 ?                this help
 q Esc Ctrl-C     quit

 in, out, fail    jobs in a second, over 10 s
 oldest           how long the oldest ready
                  job has waited
 late             due to delivered, last minute";

pub(super) fn draw(frame: &mut Frame, view: &View, theme: Theme, wall: &Wall) {
    let troubles = view.overview.as_ref().map_or(0, |it| it.health.len().min(TROUBLES));
    let has_panes = frame.area().height >= PANES + LEAST_QUEUES + troubles as u16 + 4;
    let panes = if has_panes { PANES } else { 0 };
    let [head, totals, trouble, queues, below, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(troubles as u16),
        Constraint::Min(1),
        Constraint::Length(panes),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_head(frame, head, view, theme, wall);
    draw_totals(frame, totals, view, theme);
    draw_troubles(frame, trouble, view, theme);
    draw_queues(frame, queues, view, theme);
    if has_panes {
        draw_panes(frame, below, view, theme);
    }
    draw_foot(frame, foot, view, theme);
    if view.dialog == Dialog::Help {
        draw_help(frame, theme);
    }
}

fn draw_head(frame: &mut Frame, area: Rect, view: &View, theme: Theme, wall: &Wall) {
    let age = view.received.elapsed();
    let (state, tone) = match &view.lost {
        Some(why) => {
            (format!("disconnected, numbers are {} old: {}", rough(age), safe(why)), Tone::Bad)
        }
        None if age > OLD => (format!("no news for {}", rough(age)), Tone::Warning),
        None => ("live".to_owned(), Tone::Good),
    };
    let mut spans = vec![
        Span::styled("tickwheel ", theme.style(Tone::Heading)),
        Span::raw(safe(&view.server)),
        Span::raw("  "),
        Span::styled(state, theme.style(tone)),
    ];
    if let Some(overview) = view.overview.as_ref().filter(|_| view.lost.is_none()) {
        spans.push(Span::styled(
            format!("  {}  ", wall.absolute(overview.at_ms)),
            theme.style(Tone::Faint),
        ));
        let tone = if overview.health.is_empty() { Tone::Good } else { Tone::Warning };
        spans.push(Span::styled(safe(&overview.summary), theme.style(tone)));
    }
    frame.render_widget(Line::from(spans), area);
}

fn draw_totals(frame: &mut Frame, area: Rect, view: &View, theme: Theme) {
    let totals = view.overview.as_ref().and_then(|overview| overview.totals.as_ref());
    let text = totals.map_or_else(|| "the store does not answer".to_owned(), totals_line);
    frame.render_widget(Line::styled(text, theme.style(Tone::Plain)), area);
}

fn totals_line(totals: &OverviewTotals) -> String {
    let jobs = &totals.jobs;
    let mut parts = vec![count(totals.queues, "queue")];
    if totals.paused_queues > 0 {
        parts.push(format!("{} paused", totals.paused_queues));
    }
    for (number, name) in [
        (jobs.scheduled, "scheduled"),
        (jobs.ready, "ready"),
        (jobs.leased, "leased"),
        (jobs.dead, "dead"),
    ] {
        parts.push(format!("{} {name}", grouped(number)));
    }
    if let Some(rates) = &totals.rates {
        parts.push(format!("in {}/s out {}/s", rate(rates.put), rate(rates.acked)));
    }
    if let Some(late) = totals.lateness_p99_ms {
        parts.push(format!("late {} (p99)", millis(late)));
    }
    if let Some(workers) = totals.workers {
        parts.push(count(workers, "worker"));
    }
    if let (Some(used), Some(free)) = (totals.disk_bytes, totals.disk_free_bytes) {
        parts.push(format!("disk {}, {} free", bytes(used), bytes(free)));
    }
    parts.join("  ")
}

fn draw_troubles(frame: &mut Frame, area: Rect, view: &View, theme: Theme) {
    let troubles = view.overview.iter().flat_map(|overview| &overview.health).take(TROUBLES);
    let lines: Vec<Line> = troubles
        .map(|trouble| {
            Line::styled(format!("! {}", safe(&trouble.message)), theme.style(Tone::Warning))
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// A column of the table of queues.
struct Column {
    heading: &'static str,
    width: u16,
    /// The sort that orders by it.
    sort: Option<TopSort>,
    /// How soon it is left out on a narrow terminal: the largest first.
    rank: u8,
    value: fn(&QueueOverview) -> (String, Tone),
}

const COLUMNS: [Column; 12] = [
    column("state", 8, None, 4, |queue| match (queue.paused, &queue.target) {
        (true, _) => ("paused".to_owned(), Tone::Warning),
        (false, Some(_)) => ("push".to_owned(), Tone::Faint),
        (false, None) => (String::new(), Tone::Plain),
    }),
    column("sched", 10, Some(TopSort::Scheduled), 1, |queue| number(queue.jobs.scheduled)),
    column("ready", 10, Some(TopSort::Ready), 1, |queue| {
        let more = if queue.more_ready { "+" } else { "" };
        (format!("{}{more}", grouped(queue.jobs.ready)), Tone::Plain)
    }),
    column("leased", 8, None, 3, |queue| number(queue.jobs.leased)),
    column("dead", 8, Some(TopSort::Dead), 3, |queue| {
        let tone = if queue.jobs.dead > 0 { Tone::Bad } else { Tone::Plain };
        (grouped(queue.jobs.dead), tone)
    }),
    column("in/s", 8, Some(TopSort::In), 2, |queue| of_rates(queue, |rates| rates.put)),
    column("out/s", 8, Some(TopSort::Out), 2, |queue| of_rates(queue, |rates| rates.acked)),
    column("fail/s", 7, None, 6, |queue| {
        let (text, _) = of_rates(queue, |rates| rates.failed);
        let fails = queue.rates.as_ref().is_some_and(|rates| rates.failed > 0.0);
        (text, if fails { Tone::Bad } else { Tone::Plain })
    }),
    column("oldest", 8, Some(TopSort::Oldest), 2, |queue| time(queue.waiting_ms)),
    column("late p50", 8, None, 7, |queue| time(queue.lateness_p50_ms)),
    column("late p99", 8, Some(TopSort::Late), 5, |queue| time(queue.lateness_p99_ms)),
    column("workers", 7, None, 6, |queue| {
        (queue.workers.map_or_else(unknown, grouped), Tone::Plain)
    }),
];

const fn column(
    heading: &'static str,
    width: u16,
    sort: Option<TopSort>,
    rank: u8,
    value: fn(&QueueOverview) -> (String, Tone),
) -> Column {
    Column { heading, width, sort, rank, value }
}

fn unknown() -> String {
    "-".to_owned()
}

fn number(number: u64) -> (String, Tone) {
    (grouped(number), Tone::Plain)
}

fn time(time: Option<u64>) -> (String, Tone) {
    (time.map_or_else(unknown, millis), Tone::Plain)
}

fn of_rates(queue: &QueueOverview, of: fn(&tickwheel_api::Rates) -> f64) -> (String, Tone) {
    (queue.rates.as_ref().map_or_else(unknown, |rates| rate(of(rates))), Tone::Plain)
}

fn millis(millis: u64) -> String {
    rough(Duration::from_millis(millis))
}

fn rate(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

/// The least width of the names.
const NAME_WIDTH: u16 = 16;

/// The columns that fit beside the names.
fn fitting(width: u16) -> Vec<&'static Column> {
    let mut columns: Vec<&Column> = COLUMNS.iter().collect();
    let needed = |columns: &[&Column]| columns.iter().map(|it| it.width + 1).sum::<u16>();
    while needed(&columns) + NAME_WIDTH > width {
        let Some(most) = columns.iter().map(|column| column.rank).max() else { break };
        let last = columns.iter().rposition(|column| column.rank == most).unwrap_or(0);
        columns.remove(last);
    }
    columns
}

fn draw_queues(frame: &mut Frame, area: Rect, view: &View, theme: Theme) {
    let columns = fitting(area.width);
    let arrow = |sort: Option<TopSort>| match sort {
        Some(sort) if sort == view.sort && view.is_reversed => "▲",
        Some(sort) if sort == view.sort => "▼",
        _ => "",
    };
    let right = |text: String, tone| {
        Cell::from(Line::styled(text, theme.style(tone)).alignment(Alignment::Right))
    };
    let name = format!("queue{}", arrow(Some(TopSort::Name)));
    let mut heading = vec![Cell::from(Line::styled(name, theme.style(Tone::Heading)))];
    heading.extend(
        columns.iter().map(|column| {
            right(format!("{}{}", column.heading, arrow(column.sort)), Tone::Heading)
        }),
    );
    let rows = view.queues().into_iter().map(|queue| {
        let mut cells = vec![Cell::from(safe(&queue.name))];
        cells.extend(columns.iter().map(|column| {
            let (text, tone) = (column.value)(queue);
            right(text, tone)
        }));
        Row::new(cells)
    });
    let widths = std::iter::once(Constraint::Min(NAME_WIDTH))
        .chain(columns.iter().map(|column| Constraint::Length(column.width)));
    let table = Table::new(rows, widths)
        .header(Row::new(heading))
        .column_spacing(1)
        .row_highlight_style(Theme::selected());
    let mut state = TableState::default().with_selected(view.selected_index());
    frame.render_stateful_widget(table, area, &mut state);
}

fn draw_panes(frame: &mut Frame, area: Rect, view: &View, theme: Theme) {
    let has_targets = view.targets.as_ref().is_some_and(|targets| !targets.is_empty());
    let has_wheel = view.wheel.is_some();
    let mut panes: Vec<fn(&mut Frame, Rect, &View, Theme)> = vec![draw_upcoming];
    let room = area.width / PANE_WIDTH;
    if has_wheel && room >= 2 {
        panes.push(draw_wheel);
    }
    if has_targets && room > panes.len() as u16 {
        panes.insert(1, draw_targets);
    }
    let parts = Layout::horizontal(vec![Constraint::Fill(1); panes.len()]).split(area);
    for (pane, part) in panes.iter().zip(parts.iter()) {
        pane(frame, *part, view, theme);
    }
}

/// When jobs become due, and the next ones of the selected queue.
fn draw_upcoming(frame: &mut Frame, area: Rect, view: &View, theme: Theme) {
    let queues = view.queues();
    let queue = view.selected_index().and_then(|index| queues.get(index).copied());
    let title = queue.map_or("upcoming".to_owned(), |queue| format!("upcoming in {}", queue.name));
    let block = Block::bordered().title(safe(&title));
    let inner = block.inner(area);
    let mut lines = Vec::new();
    match queue.and_then(|queue| queue.upcoming.as_ref()) {
        Some(upcoming) => lines.extend(ranges(upcoming, inner.width)),
        None if queue.is_some() => lines.push(Line::from("not counted yet")),
        None => lines.push(Line::from("there are no queues")),
    }
    if let (Some(queue), Some((of, jobs))) = (queue, &view.next_jobs)
        && *of == queue.name
    {
        for job in jobs {
            let key = job.key.as_deref().map_or_else(|| job.id.to_string(), safe);
            let told = format!("{:>9}  {key}", relative(job.due_ms));
            let told = shortened(&told, inner.width.into());
            lines.push(Line::styled(told, theme.style(Tone::Faint)));
        }
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// A line with a bar for each range of due times.
fn ranges(upcoming: &Upcoming, width: u16) -> Vec<Line<'static>> {
    let ranges = [
        ("minute", upcoming.minute),
        ("hour", upcoming.hour),
        ("day", upcoming.day),
        ("30 days", upcoming.month),
        ("later", upcoming.later),
    ];
    let most = ranges.iter().map(|(_, jobs)| *jobs).max().unwrap_or(0).max(1);
    let room = u64::from(width.saturating_sub(20));
    ranges
        .into_iter()
        .map(|(name, jobs)| {
            // A range that is not empty shows.
            let length = (jobs.saturating_mul(room) / most).max(u64::from(jobs > 0));
            let bar = "█".repeat(length as usize);
            Line::from(format!("{name:<7} {:>10} {bar}", grouped(jobs)))
        })
        .collect()
}

fn draw_targets(frame: &mut Frame, area: Rect, view: &View, theme: Theme) {
    let block = Block::bordered().title("targets");
    let lines: Vec<Line> =
        view.targets.iter().flatten().map(|target| target_line(target, theme)).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn target_line(target: &Target, theme: Theme) -> Line<'static> {
    let tone = match target.state {
        TargetState::Active => Tone::Good,
        TargetState::Slow | TargetState::Paused => Tone::Warning,
        TargetState::Held | TargetState::Stopped => Tone::Bad,
    };
    let reason = target.reason.as_deref().map(|why| format!("  {}", safe(why)));
    Line::from(vec![
        Span::styled(format!("{:<8}", target.state.as_str()), theme.style(tone)),
        Span::raw(format!("{}  {} in flight", safe(&target.name), target.in_flight)),
        Span::styled(reason.unwrap_or_default(), theme.style(Tone::Faint)),
    ])
}

fn draw_wheel(frame: &mut Frame, area: Rect, view: &View, theme: Theme) {
    let Some(wheel) = &view.wheel else { return };
    let jobs: u64 = wheel.levels.iter().flat_map(|level| &level.jobs).sum();
    let title = format!("wheel: {} jobs, {} on disk", grouped(jobs), grouped(wheel.beyond));
    dial::draw(frame, area, wheel, theme, Block::bordered().title(title));
}

fn draw_foot(frame: &mut Frame, area: Rect, view: &View, theme: Theme) {
    let line = match &view.dialog {
        Dialog::Filter => {
            Line::from(format!("filter: {}▏ Enter keeps it, Esc clears it", safe(&view.filter)))
        }
        Dialog::Confirm { queue, pauses } => {
            let verb = if *pauses { "Pause" } else { "Resume" };
            let asked = format!("{verb} queue {:?}? [y/N]", safe(queue));
            Line::styled(asked, theme.style(Tone::Warning))
        }
        Dialog::None | Dialog::Help => view.message.as_ref().map_or_else(
            || Line::styled(keys_line(view), theme.style(Tone::Faint)),
            |(text, fails)| {
                let tone = if *fails { Tone::Bad } else { Tone::Good };
                Line::styled(safe(text), theme.style(tone))
            },
        ),
    };
    frame.render_widget(line, area);
}

/// The keys, and why some queues are not shown.
fn keys_line(view: &View) -> String {
    let filter = match view.filter.as_str() {
        "" => String::new(),
        filter => format!("  filter: {}", safe(filter)),
    };
    let left_out = match view.overview.as_ref().map_or(0, |overview| overview.queues_left_out) {
        0 => String::new(),
        left_out => format!("  {} not shown", count(left_out, "queue")),
    };
    format!("q quit  s sort  / filter  p pause  ? help{filter}{left_out}")
}

fn draw_help(frame: &mut Frame, theme: Theme) {
    let (width, height) = (48, HELP.lines().count() as u16 + 2);
    let area = frame.area();
    let area = Rect {
        x: area.width.saturating_sub(width) / 2,
        y: area.height.saturating_sub(height) / 2,
        width: width.min(area.width),
        height: height.min(area.height),
    };
    frame.render_widget(Clear, area);
    let block = Block::bordered().title("keys").style(theme.style(Tone::Plain));
    frame.render_widget(Paragraph::new(HELP).block(block), area);
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::view;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let theme = Theme::new(true);
        terminal.draw(|frame| draw(frame, view, theme, &Wall::system())).expect("a frame");
        terminal.backend().to_string()
    }

    #[test]
    fn every_size_can_be_drawn() {
        let mut view = view(&[("mail", 12_345), ("日本\x1b[2J", 1)]);
        for dialog in [Dialog::None, Dialog::Filter, Dialog::Help] {
            view.dialog = dialog;
            for (width, height) in [(1, 1), (10, 3), (40, 10), (80, 24), (300, 100)] {
                let shown = drawn(&view, width, height);
                assert!(!shown.contains('\x1b'), "{width} by {height}");
            }
        }
        view.dialog = Dialog::None;
        let shown = drawn(&view, 80, 24);
        assert!(shown.contains("mail") && shown.contains("12,345"), "{shown}");
    }

    #[test]
    fn a_narrow_table_keeps_the_important_columns() {
        let headings = |width| fitting(width).iter().map(|it| it.heading).collect::<Vec<_>>();
        assert_eq!(headings(200).len(), COLUMNS.len());
        assert_eq!(headings(40), ["sched", "ready"]);
        assert!(headings(80).contains(&"oldest") && !headings(80).contains(&"workers"));
        assert!(headings(5).is_empty());
    }
}
