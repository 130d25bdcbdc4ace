//! `top`: a live view of a server in the terminal.
//!
//! Ground rules: the thread that draws never waits for the network. Other threads ask the server
//! and send what they learn over a channel. Text of others (names, errors, keys) passes through
//! `text::safe` before it is drawn.
//!
//! | file | what it holds |
//! |---|---|
//! | `feed` | the threads that ask the server |
//! | `view` | what is shown, and what keys change |
//! | `screen` | how it is drawn |
//! | `dial` | the small timing wheel |
//! | `theme` | colours, or none |

mod dial;
mod feed;
mod screen;
mod theme;
mod view;

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::style::force_color_output;

use self::feed::Feed;
use self::theme::Theme;
use self::view::{Action, View};
use super::Context;
use crate::args::TopArgs;
use crate::client::Path;
use crate::failure::Failure;

/// How long a key may wait, and how often the screen shows how old its numbers are.
const FRAME: Duration = Duration::from_millis(100);

pub(crate) fn run(context: &Context, args: &TopArgs) -> Result<(), Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let why = "`tickwheel top` needs a terminal; for programs there are `tickwheel stats --json` \
                   and GET /v1/overview";
        return Err(Failure::Usage(why.to_owned()));
    }
    // Whatever is wrong from the start is told as any command tells it.
    let first = context.client.get(&Path::new(&["overview"]))?.read()?;
    let mut view = View::new(args, context.client.base());
    view.show_first(first);
    let feed = Feed::start(&context.client);
    let theme = Theme::new(context.output.paint.is_coloured());
    // The terminal library follows `NO_COLOR` by itself, over which `--color always` wins.
    force_color_output(context.output.paint.is_coloured());
    let is_ended = ends_on_signals();
    let mut terminal = ratatui::try_init().map_err(Failure::from)?;
    let shown = show(&mut terminal, &mut view, &feed, theme, context, &is_ended);
    ratatui::restore();
    shown
}

fn show(
    terminal: &mut DefaultTerminal,
    view: &mut View,
    feed: &Feed,
    theme: Theme,
    context: &Context,
    is_ended: &AtomicBool,
) -> Result<(), Failure> {
    while !is_ended.load(Ordering::Relaxed) {
        for update in feed.updates() {
            view.update(update);
        }
        feed.select(view.selected());
        terminal.draw(|frame| screen::draw(frame, view, theme, &context.output.wall))?;
        if !event::poll(FRAME)? {
            continue;
        }
        // A key that is held down, or pasted text, comes in pieces that one frame can show.
        while event::poll(Duration::ZERO)? {
            let Event::Key(key) = event::read()? else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            match view.press(key) {
                Some(Action::Quit) => return Ok(()),
                Some(Action::Switch { queue, pauses }) => feed.switch(queue, pauses),
                None => {}
            }
        }
    }
    Ok(())
}

/// Notes signals that end the process, so that the terminal is restored first.
fn ends_on_signals() -> Arc<AtomicBool> {
    let is_ended = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    {
        let is_ended = Arc::clone(&is_ended);
        std::thread::spawn(move || {
            use tokio::signal::unix::{SignalKind, signal};
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let (Ok(mut terminate), Ok(mut hangup)) =
                    (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
                else {
                    return;
                };
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                is_ended.store(true, Ordering::Relaxed);
            });
        });
    }
    is_ended
}
