//! Text for people and terminals.
//!
//! Ground rules: keys, payloads, headers and error messages come from others. Whatever of them goes
//! to a terminal passes through [`safe`] or [`safe_lines`], so that no job can move the cursor or
//! change the title of a window.

use std::fmt::Write as _;

/// Returns the text on one line, with control characters as escapes.
pub(crate) fn safe(text: &str) -> String {
    escape(text, |_| false)
}

/// Returns the text with its line breaks and tabs, and with other control characters as escapes.
pub(crate) fn safe_lines(text: &str) -> String {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

fn escape(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        // Marks that change the direction of writing can hide text, too.
        let turns = matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if (c.is_control() || turns) && !is_kept(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Returns how many columns of a terminal the text takes: the wide characters of East Asia take two.
pub(crate) fn width(text: &str) -> usize {
    text.chars()
        .map(|c| match c {
            '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{fe00}'..='\u{fe0f}' => 0,
            '\u{1100}'..='\u{115f}'
            | '\u{2e80}'..='\u{a4cf}'
            | '\u{ac00}'..='\u{d7a3}'
            | '\u{f900}'..='\u{faff}'
            | '\u{fe30}'..='\u{fe6f}'
            | '\u{ff00}'..='\u{ff60}'
            | '\u{ffe0}'..='\u{ffe6}'
            | '\u{1f300}'..='\u{1faff}'
            | '\u{20000}'..='\u{3fffd}' => 2,
            _ => 1,
        })
        .sum()
}

/// Shortens the text to at most `max` columns of a terminal. If something is cut off, the last column
/// is an ellipsis.
pub(crate) fn shortened(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let mut left = max.saturating_sub(1);
    let mut short = String::new();
    for c in text.chars() {
        let Some(rest) = left.checked_sub(width(c.encode_utf8(&mut [0; 4]))) else { break };
        left = rest;
        short.push(c);
    }
    short.push('…');
    short
}

/// Returns the number with a comma at each thousand.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// "1 job", "2 jobs".
pub(crate) fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

/// Returns a number of bytes with a fitting unit.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let (mut value, mut unit) = (number as f64 / 1024.0, UNITS[0]);
    for next in &UNITS[1..] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    let mut text = String::new();
    let _ = write!(text, "{value:.1} {unit}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_cannot_write_to_the_terminal() {
        assert_eq!(safe("\x1b[31mred\n\u{202e}x"), r"\u{1b}[31mred\n\u{202e}x");
        assert_eq!(safe_lines("a\n\tb\r\u{7}"), "a\n\tb\\r\\u{7}");
        assert_eq!(safe("日本 é"), "日本 é");
    }

    #[test]
    fn long_text_ends_in_an_ellipsis() {
        assert_eq!(shortened("äöüß", 4), "äöüß");
        assert_eq!(shortened("äöüßx", 4), "äöü…");
        assert_eq!(shortened("ab", 0), "…");
        assert_eq!(shortened("日本語", 4), "日…");
        assert_eq!(shortened("日本", 4), "日本");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(count(1, "job"), "1 job");
        assert_eq!(count(2_000, "job"), "2,000 jobs");
        assert_eq!(bytes(1_023), "1023 B");
        assert_eq!(bytes(1_536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
    }
}
