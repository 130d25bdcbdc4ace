//! Payloads as indented JSON, text or a hex dump. None of them is ever HTML.

use std::fmt::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tickwheel_api::Job;

use crate::plain;

/// Characters of text or JSON that a page shows.
const MAX_TEXT: usize = 64 << 10;
/// Bytes that a hex dump shows.
const MAX_HEX: usize = 4 << 10;
/// Bytes in a line of a hex dump.
const HEX_LINE: usize = 16;

/// How a payload is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadKind {
    /// Indented JSON.
    Json,
    /// Text.
    Text,
    /// Bytes in hexadecimal digits.
    Hex,
}

impl PayloadKind {
    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Text => "text",
            Self::Hex => "hex",
        }
    }
}

/// A payload in a form that a person can read.
///
/// ```
/// use tickwheel_page::{PayloadKind, PayloadView};
///
/// let view = PayloadView::of_json(r#"{"id":12345678901234567890123,"a":[1,2]}"#);
/// assert_eq!(view.kind, PayloadKind::Json);
/// assert!(view.text.contains("\"id\": 12345678901234567890123,"));
/// assert!(!view.is_cut);
/// ```
#[derive(Clone, Debug)]
pub struct PayloadView {
    /// How it is shown.
    pub kind: PayloadKind,
    /// What is shown.
    pub text: String,
    /// Whether `text` is only the beginning.
    pub is_cut: bool,
    /// The bytes of the whole payload.
    pub bytes: u64,
}

impl PayloadView {
    /// Returns the payload of a job.
    pub fn of(job: &Job) -> Self {
        match (&job.payload, &job.text, &job.base64) {
            (Some(json), _, _) => Self::of_json(json.get()),
            (_, Some(text), _) => Self::of_text(text),
            (_, _, Some(base64)) => Self::of_bytes(&STANDARD.decode(base64).unwrap_or_default()),
            _ => Self::of_bytes(&[]),
        }
    }

    /// Returns JSON, indented, with its numbers as they are written.
    pub fn of_json(json: &str) -> Self {
        let (text, is_cut) = cut(&indented(json));
        Self { kind: PayloadKind::Json, text, is_cut, bytes: json.len() as u64 }
    }

    /// Returns text.
    pub fn of_text(text: &str) -> Self {
        let (shown, is_cut) = cut(text);
        Self { kind: PayloadKind::Text, text: shown, is_cut, bytes: text.len() as u64 }
    }

    /// Returns bytes as a hex dump.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let shown = &bytes[..bytes.len().min(MAX_HEX)];
        let mut text = String::new();
        for (line, chunk) in shown.chunks(HEX_LINE).enumerate() {
            let _ = write!(text, "{:08x} ", line * HEX_LINE);
            for place in 0..HEX_LINE {
                if place % 8 == 0 {
                    text.push(' ');
                }
                match chunk.get(place) {
                    Some(byte) => _ = write!(text, "{byte:02x} "),
                    None => text.push_str("   "),
                }
            }
            text.push_str(" |");
            let printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
            text.extend(chunk.iter().map(|byte| if printable(byte) { *byte as char } else { '.' }));
            text.push_str("|\n");
        }
        let is_cut = shown.len() < bytes.len();
        Self { kind: PayloadKind::Hex, text, is_cut, bytes: bytes.len() as u64 }
    }
}

fn cut(text: &str) -> (String, bool) {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => (plain(&text[..end]), true),
        None => (plain(text), false),
    }
}

/// Returns JSON with two spaces of indentation for each level. Only white space changes: keys keep
/// their order, and numbers and strings stay as they are written.
///
/// ```
/// let json = r#"{"b":1e400,"a":[],"c":{"d":"{,}"}}"#;
/// assert_eq!(
///     tickwheel_page::indented(json),
///     "{\n  \"b\": 1e400,\n  \"a\": [],\n  \"c\": {\n    \"d\": \"{,}\"\n  }\n}"
/// );
/// ```
pub fn indented(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    let mut characters = json.chars().peekable();
    while let Some(character) = characters.next() {
        if in_string {
            text.push(character);
            in_string = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        match character {
            ' ' | '\t' | '\n' | '\r' => {}
            '{' | '[' => {
                text.push(character);
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    text.push(end);
                } else {
                    depth += 1;
                    new_line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut text, depth);
                text.push(character);
            }
            ',' => {
                text.push(',');
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => {
                in_string = character == '"';
                text.push(character);
            }
        }
    }
    text
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    for _ in 0..depth {
        text.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_json_is_the_same_json() {
        for json in [
            r#""a \" { [ , : \\""#,
            "[ ]",
            "[{ }, [ ] ]",
            r#"{"a" : [1, {"b":null}], "c":-0.10e+5}"#,
            "123456789012345678901234567890",
        ] {
            assert_eq!(tickwheel_api::compact(&indented(json)), tickwheel_api::compact(json));
        }
    }

    #[test]
    fn bytes_are_a_hex_dump_and_long_ones_are_cut() {
        let view = PayloadView::of_bytes(b"\xff<script>\0 and more");
        let first = view.text.lines().next().unwrap();
        assert_eq!(
            first,
            "00000000  ff 3c 73 63 72 69 70 74  3e 00 20 61 6e 64 20 6d  |.<script>. and m|"
        );
        assert!(!view.is_cut);
        let long = PayloadView::of_bytes(&vec![0; 1 << 20]);
        assert!(long.is_cut && long.text.len() < 32 << 10);
        assert_eq!(long.bytes, 1 << 20);
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let view = PayloadView::of_text(&"€".repeat(1 << 20));
        assert!(view.is_cut);
        assert_eq!(view.text.chars().count(), MAX_TEXT);
    }
}
