//! Payloads and headers: bytes in the queue, JSON, text or base 64 on the wire.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{invalid, missing};
use crate::api::{Code, Content};
use crate::problem::Failure;

pub(super) const CONTENT_TYPE: &str = "content-type";

/// The payload of a request, in one of its three forms, with the headers.
pub(super) struct Parcel {
    pub(super) payload: Option<Box<RawValue>>,
    pub(super) text: Option<String>,
    pub(super) base64: Option<String>,
    pub(super) headers: BTreeMap<String, String>,
}

impl Parcel {
    /// Returns the bytes to store, at most `max_len`, and the headers, which include a content type
    /// where it is known.
    pub(super) fn open(self, max_len: u64) -> Result<(Bytes, Vec<(String, String)>), Failure> {
        let (content, field) = match (self.payload, self.text, self.base64) {
            (Some(json), None, None) => (Content::Json(json), "/payload"),
            (None, Some(text), None) => (Content::Text(text), "/text"),
            (None, None, Some(text)) => (Content::Base64(text), "/base64"),
            (None, None, None) => {
                let why = "a payload is missing: give one of `payload` (JSON), `text` and `base64`";
                return Err(missing("/payload", why));
            }
            (payload, text, _) => {
                let field = match (payload, text) {
                    (Some(_), Some(_)) => "/text",
                    _ => "/base64",
                };
                return Err(invalid(field, "give only one of `payload`, `text` and `base64`"));
            }
        };
        let mut headers = Vec::with_capacity(self.headers.len() + 1);
        for (name, value) in self.headers {
            check_header(&name, &value)?;
            headers.push((name, value));
        }
        let has_type = headers.iter().any(|(name, _)| name == CONTENT_TYPE);
        if let (false, Some(kind)) = (has_type, content.content_type()) {
            headers.push((CONTENT_TYPE.to_owned(), kind.to_owned()));
        }
        let bytes = content.into_bytes().map_err(|why| invalid(field, why))?;
        if bytes.len() as u64 > max_len {
            let why = format!("a payload of {} bytes is over the limit of {max_len}", bytes.len());
            return Err(Failure::field(Code::TooLarge, field, why));
        }
        Ok((bytes.into(), headers))
    }
}

/// Refuses headers that cannot be sent over HTTP unchanged.
fn check_header(name: &str, value: &str) -> Result<(), Failure> {
    let is_token = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
    };
    let field = || format!("/headers/{}", name.replace('~', "~0").replace('/', "~1"));
    if name.is_empty() || !name.bytes().all(is_token) {
        let why = "a header name must consist of lower-case letters, digits and -_.!#$%&'*+^`|~";
        return Err(invalid(&field(), why));
    }
    if value.chars().any(|character| character.is_control() && character != '\t') {
        return Err(invalid(&field(), "a header value must not contain control characters"));
    }
    Ok(())
}

/// Returns headers as JSON has them. Values of the same name are joined, as in HTTP.
pub(super) fn headers_of(headers: Vec<(String, String)>) -> BTreeMap<String, String> {
    let mut map = BTreeMap::new();
    for (name, value) in headers {
        map.entry(name)
            .and_modify(|values: &mut String| {
                values.push_str(", ");
                values.push_str(&value);
            })
            .or_insert(value);
    }
    map
}

pub(super) fn content_type(headers: &[(String, String)]) -> Option<&str> {
    let is_type = |name: &str| name.eq_ignore_ascii_case(CONTENT_TYPE);
    headers.iter().find(|(name, _)| is_type(name)).map(|(_, value)| &value[..])
}

/// The fields `payload`, `text` and `base64`, one of them present.
pub(super) type ContentFields = (Option<Box<RawValue>>, Option<String>, Option<String>);

pub(super) fn content_fields(bytes: &[u8], headers: &[(String, String)]) -> ContentFields {
    match Content::of(bytes, content_type(headers)) {
        Content::Json(json) => (Some(json), None, None),
        Content::Text(text) => (None, Some(text), None),
        Content::Base64(text) => (None, None, Some(text)),
    }
}
