//! Numbers, durations and hostile text in a readable form.

use std::fmt::Write;

/// Returns a number with thin spaces between groups of three digits.
///
/// ```
/// assert_eq!(tickwheel_page::count(1234567), "1\u{202f}234\u{202f}567");
/// assert_eq!(tickwheel_page::count(999), "999");
/// ```
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Returns a duration in milliseconds with its largest unit, and the next one where that matters.
///
/// ```
/// use tickwheel_page::duration;
/// assert_eq!(duration(250), "250 ms");
/// assert_eq!(duration(4_200), "4.2 s");
/// assert_eq!(duration(240_000), "4 min");
/// assert_eq!(duration(5_400_000), "1 h 30 min");
/// assert_eq!(duration(10 * 86_400_000), "10 d");
/// ```
pub fn duration(millis: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min")];
    if millis < 1_000 {
        return format!("{millis} ms");
    }
    if millis < 10_000 {
        let tenths = millis / 100;
        return match tenths % 10 {
            0 => format!("{} s", tenths / 10),
            rest => format!("{}.{rest} s", tenths / 10),
        };
    }
    if millis < 60_000 {
        return format!("{} s", millis / 1_000);
    }
    for (place, &(length, unit)) in UNITS.iter().enumerate() {
        let whole = millis / length;
        if whole == 0 {
            continue;
        }
        let (next_length, next_unit) = UNITS.get(place + 1).copied().unwrap_or((1_000, "s"));
        let rest = millis % length / next_length;
        // Minutes matter beside one hour, not beside two days.
        return if rest == 0 || whole >= 10 {
            format!("{whole} {unit}")
        } else {
            format!("{whole} {unit} {rest} {next_unit}")
        };
    }
    String::new()
}

/// Returns a duration in microseconds.
///
/// ```
/// use tickwheel_page::micros;
/// assert_eq!(micros(80), "80 µs");
/// assert_eq!(micros(1_540), "1.5 ms");
/// assert_eq!(micros(2_500_000), "2.5 s");
/// ```
pub fn micros(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        _ => duration(micros / 1_000),
    }
}

/// Returns a rate per second.
///
/// ```
/// use tickwheel_page::rate;
/// assert_eq!(rate(0.0), "0");
/// assert_eq!(rate(0.34), "0.34");
/// assert_eq!(rate(12.34), "12.3");
/// assert_eq!(rate(10234.4), "10\u{202f}234");
/// ```
#[allow(clippy::cast_sign_loss, reason = "a rate is not negative")]
pub fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate <= 0.0 => "0".to_owned(),
        rate if rate < 10.0 => format!("{rate:.2}"),
        rate if rate < 100.0 => format!("{rate:.1}"),
        rate => count(rate.round() as u64),
    }
}

/// Returns a number of bytes with its unit.
///
/// ```
/// use tickwheel_page::size;
/// assert_eq!(size(512), "512 B");
/// assert_eq!(size(1 << 20), "1.0 MiB");
/// ```
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut amount = bytes as f64;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{amount:.1} {}", UNITS[unit]) }
}

/// Returns the short form of a job's id: its first twelve digits, two dots and its last six.
///
/// ```
/// let id = "01890a5d-ac96-774b-bcce-b302099a8057";
/// assert_eq!(tickwheel_page::short_id(id), "01890a5dac96..9a8057");
/// ```
pub fn short_id(id: &str) -> String {
    let digits: String = id.chars().filter(|&digit| digit != '-').collect();
    match (digits.get(..12), digits.get(26..)) {
        (Some(first), Some(last)) => format!("{first}..{last}"),
        _ => digits,
    }
}

/// Returns text of a client in a form that cannot disturb the text around it: control characters
/// and characters that change the writing direction or are invisible are shown by their number.
/// Line breaks and tabs stay.
///
/// ```
/// use tickwheel_page::plain;
/// assert_eq!(plain("a\u{202e}b\0c"), "a⟨U+202E⟩b⟨U+0000⟩c");
/// assert_eq!(plain("line\nline\tשלום"), "line\nline\tשלום");
/// ```
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        let is_hidden = match character {
            '\n' | '\t' => false,
            '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}' => true,
            other => other.is_control(),
        };
        if is_hidden {
            let _ = write!(shown, "⟨U+{:04X}⟩", character as u32);
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Returns the first line of a text, at most `length` characters of it.
pub(crate) fn first_line(text: &str, length: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut characters = line.chars();
    let mut shown: String = characters.by_ref().take(length).collect();
    if characters.next().is_some() || line.len() < text.trim_end().len() {
        shown.push('…');
    }
    plain(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        for (millis, wanted) in [
            (0, "0 ms"),
            (1_000, "1 s"),
            (9_990, "9.9 s"),
            (59_999, "59 s"),
            (61_000, "1 min 1 s"),
            (600_000, "10 min"),
            (3_600_000, "1 h"),
            (90_000_000, "1 d 1 h"),
            (u64::MAX, "213503982334 d"),
        ] {
            assert_eq!(duration(millis), wanted);
        }
    }

    #[test]
    fn a_first_line_says_that_there_is_more() {
        assert_eq!(first_line("one", 10), "one");
        assert_eq!(first_line("one\n", 10), "one");
        assert_eq!(first_line("one\ntwo", 10), "one…");
        assert_eq!(first_line("abcdef", 3), "abc…");
        assert_eq!(first_line("", 3), "");
    }
}
