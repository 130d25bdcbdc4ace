//! How things are told apart: by colour, or by weight alone where colours are not wanted.

use ratatui::style::{Color, Modifier, Style};

#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    has_colours: bool,
}

/// What a piece of the screen means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Faint,
    Heading,
    Good,
    Warning,
    Bad,
    Accent,
}

impl Theme {
    pub(super) const fn new(has_colours: bool) -> Self {
        Self { has_colours }
    }

    pub(super) fn style(self, tone: Tone) -> Style {
        let style = Style::new();
        let style = match tone {
            Tone::Plain | Tone::Good | Tone::Accent => style,
            Tone::Faint => style.add_modifier(Modifier::DIM),
            Tone::Heading | Tone::Warning | Tone::Bad => style.add_modifier(Modifier::BOLD),
        };
        if self.has_colours { style.fg(self.colour(tone)) } else { style }
    }

    /// The colour for a drawing, which has no other means.
    pub(super) const fn colour(self, tone: Tone) -> Color {
        if !self.has_colours {
            return Color::Reset;
        }
        match tone {
            Tone::Plain | Tone::Heading => Color::Reset,
            Tone::Faint => Color::DarkGray,
            Tone::Good => Color::Green,
            Tone::Warning => Color::Yellow,
            Tone::Bad => Color::Red,
            Tone::Accent => Color::Cyan,
        }
    }

    /// The selected line.
    pub(super) const fn selected() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
