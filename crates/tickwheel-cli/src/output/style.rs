//! Colours of the terminal.

use std::io::IsTerminal;

use clap::ValueEnum;
use tickwheel_api::JobState;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The meaning of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// The name of a column.
    Heading,
    /// Less important than its neighbours.
    Faint,
    /// All is well.
    Good,
    /// A warning.
    Warning,
    /// An error.
    Bad,
    /// Under way.
    Active,
}

impl Style {
    /// Returns the style of a state.
    pub(crate) const fn of_state(state: JobState) -> Self {
        match state {
            JobState::Scheduled => Self::Active,
            JobState::Ready | JobState::Done => Self::Good,
            JobState::Leased => Self::Warning,
            JobState::Dead => Self::Bad,
            JobState::Cancelled => Self::Faint,
        }
    }

    const fn code(self) -> &'static str {
        match self {
            Self::Heading => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Warning => "33",
            Self::Bad => "1;31",
            Self::Active => "36",
        }
    }
}

/// Whether styles are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint(bool);

impl Paint {
    /// Returns the style that the user wants for output to this stream.
    pub(crate) fn new(when: ColorWhen, stream: &impl IsTerminal) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self::decide(when, is_set("NO_COLOR") || is_dumb, stream.is_terminal())
    }

    fn decide(when: ColorWhen, is_unwanted: bool, is_terminal: bool) -> Self {
        Self(match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => is_terminal && !is_unwanted,
        })
    }

    /// Returns `true` if colours are shown.
    pub(crate) const fn is_coloured(self) -> bool {
        self.0
    }

    /// Returns a style without colours.
    #[cfg(test)]
    pub(crate) const fn plain() -> Self {
        Self(false)
    }

    /// Returns a style with colours.
    #[cfg(test)]
    pub(crate) const fn always() -> Self {
        Self(true)
    }

    /// Returns the text in its style.
    pub(crate) fn text(self, style: Style, text: &str) -> String {
        if self.0 { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_of_those_who_want_them() {
        let shown = |when, unwanted, terminal| Paint::decide(when, unwanted, terminal).0;
        assert!(shown(ColorWhen::Auto, false, true));
        assert!(!shown(ColorWhen::Auto, false, false) && !shown(ColorWhen::Auto, true, true));
        assert!(shown(ColorWhen::Always, true, false) && !shown(ColorWhen::Never, false, true));
    }
}
