//! The URL of a target: where to connect, and a path with places for values of the job.

use std::fmt::Write;

use super::request::Message;
use axum::http::Uri;

const MAX_URL_BYTES: usize = 2_048;

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) is_tls: bool,
    /// The host without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Host and port, as the header `host` has them.
    pub(super) authority: String,
    path: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Id,
    Key,
    Queue,
    Header(String),
}

impl Endpoint {
    /// Reads a URL. Places for values are allowed in its path and query alone: a job must not choose
    /// the host.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        if url.is_empty() || url.len() > MAX_URL_BYTES {
            let found = url.len();
            return Err(format!("must have between 1 and {MAX_URL_BYTES} bytes, got {found}"));
        }
        let (is_tls, rest) = if let Some(rest) = strip_scheme(url, "https://") {
            (true, rest)
        } else if let Some(rest) = strip_scheme(url, "http://") {
            (false, rest)
        } else {
            return Err("must begin with http:// or https://".to_owned());
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('{') {
            return Err("must not contain a place for a value in its host".to_owned());
        }
        if authority.contains('@') {
            return Err("must not contain a user name: use the header authorization".to_owned());
        }
        if path.contains('#') {
            return Err("must not contain a fragment (#)".to_owned());
        }
        let path = match path.as_bytes().first() {
            Some(b'/') => parts_of(path)?,
            _ => parts_of(&format!("/{path}"))?,
        };
        let parsed: Uri = format!("http://{authority}/")
            .parse()
            .map_err(|_| format!("has no valid host: {authority:?}"))?;
        let host = parsed.host().unwrap_or_default();
        if host.is_empty() {
            return Err("has no host".to_owned());
        }
        let port = match authority.get(host.len()..).unwrap_or_default() {
            "" if is_tls => 443,
            "" => 80,
            port => port
                .strip_prefix(':')
                .and_then(|port| port.parse().ok())
                .ok_or_else(|| format!("has no valid port: {authority:?}"))?,
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        if port == 0 {
            return Err("must not name port 0".to_owned());
        }
        Ok(Self { is_tls, host, port, authority: authority.to_owned(), path })
    }

    /// The job headers that the URL names.
    pub(super) fn header_names(&self) -> impl Iterator<Item = &str> {
        self.path.iter().filter_map(|part| match part {
            Part::Header(name) => Some(&name[..]),
            _ => None,
        })
    }

    /// Returns path and query for a job.
    pub(super) fn path_for(&self, message: &Message<'_>) -> Result<String, String> {
        let mut path = String::new();
        for part in &self.path {
            match part {
                Part::Text(text) => path.push_str(text),
                Part::Id => encode(&message.id.to_string(), &mut path),
                Part::Queue => encode(message.queue, &mut path),
                Part::Key => {
                    let missing = "the URL names {key}, and the job has none";
                    encode(message.key.ok_or(missing)?, &mut path);
                }
                Part::Header(name) => {
                    let missing =
                        || format!("the URL names {{header:{name}}}, and the job has none");
                    encode(message.header(name).ok_or_else(missing)?, &mut path);
                }
            }
        }
        Ok(path)
    }
}

fn strip_scheme<'a>(url: &'a str, scheme: &str) -> Option<&'a str> {
    let head = url.get(..scheme.len())?;
    head.eq_ignore_ascii_case(scheme).then(|| &url[scheme.len()..])
}

fn parts_of(path: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut rest = path;
    while let Some((text, after)) = rest.split_once('{') {
        let (name, after) =
            after.split_once('}').ok_or("has a { without its }: write a brace itself as %7B")?;
        push_text(&mut parts, text)?;
        parts.push(match name {
            "id" => Part::Id,
            "key" => Part::Key,
            "queue" => Part::Queue,
            _ => match name.strip_prefix("header:").filter(|header| !header.is_empty()) {
                Some(header) => Part::Header(header.to_owned()),
                None => {
                    return Err(format!(
                        "names {{{name}}}, which is unknown: use {{id}}, {{key}}, {{queue}} or \
                         {{header:NAME}}"
                    ));
                }
            },
        });
        rest = after;
    }
    push_text(&mut parts, rest)?;
    Ok(parts)
}

fn push_text(parts: &mut Vec<Part>, text: &str) -> Result<(), String> {
    let is_fine = |byte: u8| byte.is_ascii_graphic() && !b"{}\"<>\\^`|".contains(&byte);
    if let Some(wrong) = text.chars().find(|it| !u8::try_from(*it).is_ok_and(is_fine)) {
        return Err(format!("must have the character {wrong:?} percent-encoded"));
    }
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
    Ok(())
}

/// Percent-encodes all but unreserved characters. A value of dots alone is encoded as a whole, so
/// that it cannot become a step up in the path.
fn encode(value: &str, path: &mut String) {
    let is_dots = value.bytes().all(|byte| byte == b'.');
    for byte in value.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-_~".contains(&byte);
        if is_plain || (byte == b'.' && !is_dots) {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use tickwheel_queue::{Job, NewJob, Queues};

    use super::*;

    fn job(change: impl FnOnce(NewJob) -> NewJob) -> Job {
        let queues = Queues::in_memory();
        queues.put(change(NewJob::new("orders", ""))).wait().unwrap();
        queues.reserve("orders", 1, None).wait().unwrap().remove(0).job
    }

    #[test]
    fn values_of_the_job_are_encoded() {
        let job = job(|job| job.key("a/b ?#é..").header("x-region", ".."));
        let endpoint = Endpoint::parse(
            "https://Partner.example:8443/v1/{queue}/{key}?r={header:X-Region}&i={id}",
        );
        let endpoint = endpoint.unwrap();
        let path = endpoint.path_for(&Message::of(&job)).unwrap();
        let id = job.id;
        assert_eq!(path, format!("/v1/orders/a%2Fb%20%3F%23%C3%A9..?r=%2E%2E&i={id}"));
        assert!(endpoint.is_tls);
        assert_eq!((&endpoint.host[..], endpoint.port), ("Partner.example", 8443));
        assert_eq!(endpoint.authority, "Partner.example:8443");
    }

    #[test]
    fn a_missing_value_is_named() {
        let job = job(|job| job);
        let path = |url: &str| Endpoint::parse(url).unwrap().path_for(&Message::of(&job));
        assert!(path("http://x/{key}").unwrap_err().contains("{key}"));
        assert!(path("http://x/{header:a}").unwrap_err().contains("{header:a}"));
        assert_eq!(path("http://x").unwrap(), "/");
        assert_eq!(path("http://x?a=1").unwrap(), "/?a=1");
    }

    #[test]
    fn hosts_are_read_in_all_forms() {
        let host = |url: &str| Endpoint::parse(url).map(|it| (it.host, it.port));
        assert_eq!(host("HTTP://[::1]:81/x"), Ok(("::1".into(), 81)));
        assert_eq!(host("http://0x7f.1/"), Ok(("0x7f.1".into(), 80)));
        assert_eq!(host("https://2130706433"), Ok(("2130706433".into(), 443)));
    }

    #[test]
    fn wrong_urls_are_refused() {
        for url in [
            "",
            "partner.example",
            "ftp://x/",
            "http://",
            "http:///x",
            "http://{key}/",
            "http://u:p@x/",
            "http://x/#a",
            "http://x/{",
            "http://x/{}",
            "http://x/{nope}",
            "http://x/{header:}",
            "http://x:0/",
            "http://x:99999/",
            "http://x/a b",
            "http://x/é",
            "http://x y/",
            "http://x/}",
            "file:///etc/passwd",
            "//x",
        ] {
            assert!(Endpoint::parse(url).is_err(), "{url}");
        }
        assert!(Endpoint::parse(&format!("http://x/{}", "a".repeat(MAX_URL_BYTES))).is_err());
    }
}
