//! Payloads: read from an argument, a file or standard input, and put into a request.

use std::fs;
use std::io::{self, IsTerminal, Read};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::value::RawValue;
use tickwheel_api::{Content, Job};

use crate::args::{PayloadArgs, PayloadKind};
use crate::failure::Failure;

/// The payload, as given. Standard input is the default, where the arguments allow to leave it out.
pub(crate) fn read(args: &PayloadArgs) -> Result<Vec<u8>, Failure> {
    if let Some(path) = &args.file {
        return fs::read(path)
            .map_err(|error| Failure::Usage(format!("--file {}: {error}", path.display())));
    }
    match args.payload.as_deref() {
        Some("-") | None => {
            if io::stdin().is_terminal() {
                // A user at a terminal should know that the command waits for input.
                eprintln!("Reading the payload from the terminal; end it with Ctrl-D.");
            }
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes)?;
            Ok(bytes)
        }
        Some(payload) => Ok(payload.as_bytes().to_vec()),
    }
}

/// The payload in the form in which it is sent.
pub(crate) fn content(bytes: &[u8], kind: PayloadKind) -> Result<Content, Failure> {
    let json = || serde_json::from_slice::<Box<RawValue>>(bytes);
    let text = || std::str::from_utf8(bytes);
    let base64 = || Content::Base64(BASE64_STANDARD.encode(bytes));
    match kind {
        PayloadKind::Auto => Ok(match (json(), text()) {
            (Ok(json), _) => Content::Json(json),
            (Err(_), Ok(text)) => Content::Text(text.to_owned()),
            (Err(_), Err(_)) => base64(),
        }),
        PayloadKind::Json => json()
            .map(Content::Json)
            .map_err(|error| Failure::Usage(format!("the payload is not JSON: {error}"))),
        PayloadKind::Text => text().map(|text| Content::Text(text.to_owned())).map_err(|error| {
            Failure::Usage(format!("the payload is not UTF-8: {error}; send it --as bytes"))
        }),
        PayloadKind::Bytes => Ok(base64()),
    }
}

/// Returns the payload of an answer; `None` if it has none.
pub(crate) fn of(job: &Job) -> Option<Content> {
    from_fields(job.payload.clone(), job.text.clone(), job.base64.clone())
}

/// Returns the payload field that is present.
pub(crate) fn from_fields(
    json: Option<Box<RawValue>>,
    text: Option<String>,
    base64: Option<String>,
) -> Option<Content> {
    let json = json.map(Content::Json);
    json.or_else(|| text.map(Content::Text)).or_else(|| base64.map(Content::Base64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(bytes: &[u8], kind: PayloadKind) -> String {
        match content(bytes, kind) {
            Ok(Content::Json(json)) => format!("payload: {json}"),
            Ok(Content::Text(text)) => format!("text: {text:?}"),
            Ok(Content::Base64(text)) => format!("base64: {text:?}"),
            Err(failure) => format!("refused: {failure}"),
        }
    }

    #[test]
    fn the_kind_is_seen_from_the_payload() {
        use PayloadKind::{Auto, Bytes, Json, Text};
        assert_eq!(sent(br#" {"b": 1, "a": 2} "#, Auto), r#"payload: {"b": 1, "a": 2}"#);
        assert_eq!(sent(b"42", Auto), "payload: 42");
        assert_eq!(sent(b"42", Text), r#"text: "42""#);
        assert_eq!(sent(b"hello", Auto), r#"text: "hello""#);
        assert_eq!(sent(b"", Auto), r#"text: """#);
        assert_eq!(sent(b"\xff\x00", Auto), r#"base64: "/wA=""#);
        assert_eq!(sent(b"42", Bytes), r#"base64: "NDI=""#);
        assert!(sent(b"{", Json).starts_with("refused: the payload is not JSON"));
        assert!(sent(b"\xff", Text).contains("--as bytes"));
    }
}
