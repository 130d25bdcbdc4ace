//! What a job carries: JSON, text or bytes.
//!
//! The queue stores bytes and headers. What the bytes are is said by the header `content-type`,
//! which is set when a job is put, unless it has one already.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The content type of jobs that are put with `payload`.
///
/// ```
/// assert_eq!(tickwheel_server::api::JSON_TYPE, "application/json");
/// ```
pub const JSON_TYPE: &str = "application/json";

/// The content type of jobs that are put with `text`.
///
/// ```
/// assert!(tickwheel_server::api::TEXT_TYPE.starts_with("text/plain"));
/// ```
pub const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// A payload in one of its three forms.
///
/// ```
/// use tickwheel_server::api::Content;
///
/// let content = Content::of(b"{\"order\":42}", Some("application/json"));
/// assert!(matches!(&content, Content::Json(json) if json.get() == "{\"order\":42}"));
/// // What does not look like its type is shown as bytes.
/// let content = Content::of(b"{\"order\":", Some("application/json"));
/// assert!(matches!(&content, Content::Base64(text) if text == "eyJvcmRlciI6"));
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
    /// How stored bytes of this type are shown.
    ///
    /// ```
    /// use tickwheel_server::api::Content;
    /// assert!(matches!(Content::of(b"hello", Some("text/plain")), Content::Text(_)));
    /// assert!(matches!(Content::of(b"hello", None), Content::Base64(_)));
    /// ```
    pub fn of(bytes: &[u8], content_type: Option<&str>) -> Self {
        let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
        let essence = essence.trim().to_ascii_lowercase();
        if essence == JSON_TYPE || essence.ends_with("+json") {
            if let Ok(json) = serde_json::from_slice(bytes) {
                return Self::Json(json);
            }
        } else if essence.starts_with("text/")
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            return Self::Text(text.to_owned());
        }
        Self::Base64(STANDARD.encode(bytes))
    }

    /// The bytes to store; an error says what is wrong with base 64.
    ///
    /// ```
    /// use tickwheel_server::api::Content;
    /// assert_eq!(Content::Base64("aGk=".into()).into_bytes().unwrap(), b"hi");
    /// assert!(Content::Base64("a".into()).into_bytes().is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// If the base 64 is none.
    pub fn into_bytes(self) -> Result<Vec<u8>, String> {
        match self {
            // Programs mostly send none that could go, and then the text is taken as it is.
            Self::Json(json) if !json.get().bytes().any(|byte| byte.is_ascii_whitespace()) => {
                Ok(Box::<str>::from(json).into_string().into_bytes())
            }
            Self::Json(json) => Ok(compact(json.get()).into_bytes()),
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Base64(text) => STANDARD
                .decode(text)
                .map_err(|error| format!("this is not base 64 of RFC 4648 with padding: {error}")),
        }
    }

    /// The content type that it has without a header that says otherwise.
    ///
    /// ```
    /// use tickwheel_server::api::Content;
    /// assert_eq!(Content::Base64(String::new()).content_type(), None);
    /// ```
    pub fn content_type(&self) -> Option<&'static str> {
        match self {
            Self::Json(_) => Some(JSON_TYPE),
            Self::Text(_) => Some(TEXT_TYPE),
            Self::Base64(_) => None,
        }
    }
}

/// JSON without the white space between its parts. Numbers, order and escapes stay as they are.
///
/// ```
/// use tickwheel_server::api::compact;
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

/// A `null` is a payload too: it must not be taken for a field that is not there.
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
    fn bytes_are_shown_by_their_type() {
        let is_text = |bytes: &[u8], kind| matches!(Content::of(bytes, kind), Content::Text(_));
        assert!(is_text(b"a,b", Some("text/csv; charset=utf-8")));
        assert!(!is_text(&[0xff], Some("text/plain")));
        let json = Content::of(b"[1]", Some("application/vnd.order+json"));
        assert!(matches!(json, Content::Json(_)));
        assert!(matches!(Content::of(b"", Some("application/json")), Content::Base64(_)));
    }
}
