//! The payload of a job: JSON, text or bytes.
//!
//! The queue stores bytes and headers. The header `content-type` says what the bytes are; a put sets
//! it unless the request has one.
//!
//! Answers contain JSON as it is stored, beside other jobs. So a `payload` is restricted to JSON
//! that common parsers read ([`check_json`]): one job must not make the answer that carries it
//! unreadable. Other JSON can be put as `text` or `base64`, and is shown as `text`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The content type of jobs that are put with `payload`.
pub const JSON_TYPE: &str = "application/json";

/// The content type of jobs that are put with `text`.
pub const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// A payload in one of its three forms.
///
/// ```
/// use tickwheel_api::Content;
///
/// let content = Content::of(b"{\"order\":42}", Some("application/json"));
/// assert!(matches!(&content, Content::Json(json) if json.get() == "{\"order\":42}"));
/// // Bytes that do not match their content type are shown in base 64.
/// let content = Content::of(b"{\"order\":", Some("application/json"));
/// assert!(matches!(&content, Content::Base64(text) if text == "eyJvcmRlciI6"));
/// // JSON that many parsers refuse is shown as text.
/// let content = Content::of(b"1e999", Some("application/json"));
/// assert!(matches!(&content, Content::Text(text) if text == "1e999"));
/// ```
#[derive(Clone, Debug)]
pub enum Content {
    /// Any JSON value.
    Json(Box<RawValue>),
    /// Text.
    Text(String),
    /// Bytes, in base 64.
    Base64(String),
}

impl Content {
    /// Returns the form in which stored bytes of this content type are shown.
    pub fn of(bytes: &[u8], content_type: Option<&str>) -> Self {
        let form = Form::of(content_type);
        if form == Form::Json {
            if let Ok(json) = serde_json::from_slice::<Box<RawValue>>(bytes) {
                return match check_json(json.get()) {
                    Ok(()) => Self::Json(json),
                    Err(_) => Self::Text(Box::<str>::from(json).into_string()),
                };
            }
        } else if form == Form::Text
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            return Self::Text(text.to_owned());
        }
        Self::Base64(STANDARD.encode(bytes))
    }

    /// Returns an upper bound for the bytes that [`Content::of`] takes as JSON.
    pub fn max_encoded_len(bytes: &[u8], content_type: Option<&str>) -> usize {
        let base64 = bytes.len().div_ceil(3) * 4;
        match Form::of(content_type) {
            Form::Base64 => base64,
            Form::Json | Form::Text => base64.max(escaped_len(bytes)),
        }
    }

    /// Returns the bytes to store.
    ///
    /// # Errors
    ///
    /// If the base 64 is malformed, or common parsers cannot read the JSON ([`check_json`]).
    pub fn into_bytes(self) -> Result<Vec<u8>, String> {
        if let Self::Json(json) = &self {
            check_json(json.get())?;
        }
        match self {
            // Most programs send no white space, and then the text is not copied.
            Self::Json(json) if !json.get().bytes().any(|byte| byte.is_ascii_whitespace()) => {
                Ok(Box::<str>::from(json).into_string().into_bytes())
            }
            Self::Json(json) => Ok(compact(json.get()).into_bytes()),
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Base64(text) => STANDARD
                .decode(text)
                .map_err(|error| format!("not base 64 of RFC 4648 with padding: {error}")),
        }
    }

    /// Returns the content type for a job whose headers have none.
    pub fn content_type(&self) -> Option<&'static str> {
        match self {
            Self::Json(_) => Some(JSON_TYPE),
            Self::Text(_) => Some(TEXT_TYPE),
            Self::Base64(_) => None,
        }
    }
}

/// The form that a content type asks for.
#[derive(PartialEq, Eq)]
enum Form {
    Json,
    Text,
    Base64,
}

impl Form {
    fn of(content_type: Option<&str>) -> Self {
        let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
        let essence = essence.trim().to_ascii_lowercase();
        if essence == JSON_TYPE || essence.ends_with("+json") {
            Self::Json
        } else if essence.starts_with("text/") {
            Self::Text
        } else {
            Self::Base64
        }
    }
}

/// Returns the number of bytes that text takes in a JSON string, where a zero byte is `\u0000` and a
/// quote `\"`, without the quotes around it.
///
/// ```
/// assert_eq!(tickwheel_api::escaped_len(b"a\"\n"), 1 + 2 + 6);
/// ```
pub fn escaped_len(text: &[u8]) -> usize {
    let control = text.iter().filter(|&&byte| byte < 0x20).count();
    let quoted = text.iter().filter(|&&byte| byte == b'"' || byte == b'\\').count();
    text.len() + 5 * control + quoted
}

/// The maximum nesting of arrays and objects in a payload.
const MAX_DEPTH: usize = 128;
/// The maximum length of a number in a payload, in characters.
const MAX_NUMBER_LEN: usize = 1_000;

/// Checks that common parsers read this JSON: arrays and objects are nested at most 128 deep,
/// numbers have at most 1,000 characters and fit a 64-bit float, and no escape is half of a
/// surrogate pair. The text must be JSON.
///
/// ```
/// use tickwheel_api::check_json;
///
/// assert!(check_json(r#"{"price": 19.90, "name": "\ud83d\ude00"}"#).is_ok());
/// assert!(check_json("1e999").is_err());
/// assert!(check_json(r#""\ud83d""#).is_err());
/// ```
///
/// # Errors
///
/// Says what is wrong and what to do instead.
pub fn check_json(json: &str) -> Result<(), String> {
    const INSTEAD: &str = "put this value as `text` or `base64`";
    let bytes = json.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = check_string(bytes, at + 1).map_err(|escape| {
                    format!("`\\u{escape}` is half of a surrogate pair: {INSTEAD}")
                })?;
                continue;
            }
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(format!(
                        "JSON nested deeper than {MAX_DEPTH} levels, which many parsers refuse: \
                         {INSTEAD}"
                    ));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'-' | b'0'..=b'9' => {
                let rest = &json[at..];
                let end = rest
                    .find(|next: char| !matches!(next, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
                let number = &rest[..end.unwrap_or(rest.len())];
                check_number(number).map_err(|why| format!("{why}: {INSTEAD}"))?;
                at += number.len();
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Returns where the string that begins here ends, or the escape that is half of a surrogate pair.
fn check_string(bytes: &[u8], mut at: usize) -> Result<usize, String> {
    let escape_at = |at: usize| {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let digits = std::str::from_utf8(digits).ok()?;
        Some((digits, u16::from_str_radix(digits, 16).ok()?))
    };
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'"' => return Ok(at + 1),
            b'\\' => match escape_at(at) {
                Some((_, 0xd800..=0xdbff))
                    if matches!(escape_at(at + 6), Some((_, 0xdc00..=0xdfff))) =>
                {
                    12
                }
                Some((digits, 0xd800..=0xdfff)) => return Err(digits.to_owned()),
                Some(_) => 6,
                None => 2,
            },
            _ => 1,
        };
    }
    Ok(at)
}

fn check_number(number: &str) -> Result<(), String> {
    if number.len() > MAX_NUMBER_LEN {
        let found = number.len();
        return Err(format!(
            "a number of {found} characters is over the limit of {MAX_NUMBER_LEN}"
        ));
    }
    // A short number without an exponent always fits. Most numbers are short.
    if number.len() < 300 && !number.bytes().any(|byte| matches!(byte, b'e' | b'E')) {
        return Ok(());
    }
    let value: f64 = number.parse().unwrap_or(f64::INFINITY);
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if value.is_finite() && (value != 0.0 || is_zero) {
        return Ok(());
    }
    let shown: String = number.chars().take(32).collect();
    Err(format!("the number {shown} does not fit a 64-bit float, which is what many parsers read"))
}

/// Returns JSON without the white space between its parts. Numbers, order and escapes stay.
///
/// ```
/// use tickwheel_api::compact;
/// assert_eq!(compact("{ \"a b\" : [1.0, 1e9] }"), "{\"a b\":[1.0,1e9]}");
/// ```
pub fn compact(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let (mut in_text, mut escaped) = (false, false);
    for character in json.chars() {
        if in_text {
            in_text = escaped || character != '"';
            escaped = !escaped && character == '\\';
        } else if character.is_ascii_whitespace() {
            continue;
        } else {
            in_text = character == '"';
        }
        text.push(character);
    }
    text
}

/// Reads a payload. `null` is a payload, too, and not an absent field.
pub(super) fn some_json<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_outside_of_texts_goes() {
        for (json, wanted) in [
            ("  null ", "null"),
            (r#"{"a" : "x \" y", "b" :[ ] }"#, r#"{"a":"x \" y","b":[]}"#),
            (r#"[ "\\", " " ]"#, r#"["\\"," "]"#),
            ("123456789012345678901234567890.10", "123456789012345678901234567890.10"),
        ] {
            assert_eq!(compact(json), wanted);
        }
    }

    #[test]
    fn json_is_stored_without_white_space_whether_it_has_some_or_not() {
        for json in [r#"{"a":[1,2]}"#, "{ \"a\" :\n[1, 2] }"] {
            let content = Content::Json(RawValue::from_string(json.to_owned()).unwrap());
            assert_eq!(content.into_bytes().unwrap(), br#"{"a":[1,2]}"#);
        }
        let text = RawValue::from_string(r#""a b""#.to_owned()).unwrap();
        assert_eq!(Content::Json(text).into_bytes().unwrap(), br#""a b""#);
    }

    #[test]
    fn json_that_common_parsers_refuse_is_no_payload() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let objects = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        for json in [
            &nested(128)[..],
            &objects(128),
            "[[],[],{}]",
            "12345678901234567890123456789012345678901234567890",
            "[0e999, -0.0, 1e308, 1e-300, 0.1]",
            r#"{"\ud83d\ude00": "\u0000 \\ud83d \" \\"}"#,
            &format!(r#""{}""#, "[".repeat(500)),
            &"9".repeat(308),
        ] {
            assert_eq!(check_json(json), Ok(()), "{json}");
        }
        for json in [
            &nested(129)[..],
            &objects(129),
            &"9".repeat(309),
            &"9".repeat(5_000),
            &format!("0.{}", "1".repeat(1_000)),
            "1e309",
            "-1e309",
            "1e-400",
            r#"["\ud83d"]"#,
            r#"["\ude00"]"#,
            r#"["\ud83dx\ude00"]"#,
            r#"["\ud83d\ud83d\ude00"]"#,
            r#"{"\uDC00": 1}"#,
            r#"["\\\ud800"]"#,
        ] {
            let content = Content::Json(RawValue::from_string(json.to_owned()).unwrap());
            let why = content.into_bytes().unwrap_err();
            assert!(why.contains("put this value as `text` or `base64`"), "{why}");
            let shown = Content::of(json.as_bytes(), Some(JSON_TYPE));
            assert!(matches!(shown, Content::Text(text) if text == json), "{json}");
        }
    }

    #[test]
    fn bytes_are_shown_by_their_type() {
        let is_text = |bytes: &[u8], kind| matches!(Content::of(bytes, kind), Content::Text(_));
        assert!(is_text(b"a,b", Some("text/csv; charset=utf-8")));
        assert!(!is_text(&[0xff], Some("text/plain")));
        let json = Content::of(b"[1]", Some("application/vnd.order+json"));
        assert!(matches!(json, Content::Json(_)));
        assert!(matches!(Content::of(b"", Some("application/json")), Content::Base64(_)));
    }
}
