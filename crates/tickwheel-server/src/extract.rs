//! Extractors: names from the path, JSON from the body. Errors name the field.

use std::future::poll_fn;
use std::pin::pin;
use std::str::FromStr;
use std::sync::LazyLock;
use std::task::Poll;

use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, EXPECT};
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use tickwheel_queue::{JobId, ShortId};
use tokio::sync::Semaphore;

use crate::api::{Code, MAX_BATCH_ITEMS};
use crate::app::App;
use crate::config::HttpLimits;
use crate::http::Visit;
use crate::http::memory::{Memory, Share};
use crate::problem::Failure;
use crate::shutdown::Shutdown;

/// How often a body counts towards the memory: once as received, and once as parsed.
pub(crate) const BODY_COPIES: usize = 2;
/// A body up to this size is received before its request is looked at.
const SMALL_BODY: u64 = 4 << 10;
/// Larger JSON is parsed on another thread.
pub(crate) const LARGE_BODY: usize = 64 << 10;

/// The characters of names, which appear in paths, patterns and labels.
pub(crate) fn is_name(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(is_fine) && !text.starts_with('.')
}

pub(crate) const NAME_RULE: &str =
    "use 1 to 128 letters, digits, `_`, `-` and `.`, not beginning with a dot";

async fn path_param(parts: &mut Parts, app: &App, name: &str) -> Result<String, Failure> {
    let params = RawPathParams::from_request_parts(parts, app)
        .await
        .map_err(|error| Failure::new(Code::InvalidParameter, error.to_string()).at(name))?;
    let value = params.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
    value.ok_or_else(|| Failure::new(Code::Internal, format!("the path has no {name}")))
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// The name of a queue in the path.
pub(crate) struct QueueName(pub(crate) String);

impl FromRequestParts<App> for QueueName {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        queue_name(&path_param(parts, app, "queue").await?)
    }
}

impl FromStr for QueueName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if is_name(name) {
            return Ok(Self(name.to_owned()));
        }
        Err(format!("{:?} is not a valid name of a queue: {NAME_RULE}", shown(name)))
    }
}

/// Returns the name of a queue, if a text is one.
pub(crate) fn queue_name(name: &str) -> Result<QueueName, Failure> {
    name.parse().map_err(|why: String| Failure::new(Code::InvalidParameter, why).at("queue"))
}

/// The name of a schedule in the path.
pub(crate) struct ScheduleName(pub(crate) String);

impl FromRequestParts<App> for ScheduleName {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        schedule_name(&path_param(parts, app, "name").await?)
    }
}

/// Returns the name of a schedule, if a text is one.
pub(crate) fn schedule_name(name: &str) -> Result<ScheduleName, Failure> {
    if is_name(name) {
        return Ok(ScheduleName(name.to_owned()));
    }
    let why = format!("{:?} is not a valid name of a schedule: {NAME_RULE}", shown(name));
    Err(Failure::new(Code::InvalidParameter, why).at("name"))
}

/// The name of a push target in the path.
pub(crate) struct TargetName(pub(crate) String);

impl FromRequestParts<App> for TargetName {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        target_name(&path_param(parts, app, "target").await?)
    }
}

/// Returns the name of a target, if a text is one.
pub(crate) fn target_name(name: &str) -> Result<TargetName, Failure> {
    if is_name(name) {
        return Ok(TargetName(name.to_owned()));
    }
    let why = format!("{:?} is not a valid name of a target: {NAME_RULE}", shown(name));
    Err(Failure::new(Code::InvalidParameter, why).at("target"))
}

/// The id of a job in the path.
pub(crate) struct PathId(pub(crate) JobId);

impl FromRequestParts<App> for PathId {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let text = path_param(parts, app, "id").await?;
        let wrong = |error: tickwheel_queue::ParseIdError| {
            Failure::new(Code::InvalidParameter, error.to_string()).at("id")
        };
        text.parse().map(Self).map_err(wrong)
    }
}

/// The short id of a job in the path.
pub(crate) struct PathShortId(pub(crate) ShortId);

impl FromRequestParts<App> for PathShortId {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let text = path_param(parts, app, "short").await?;
        let wrong = |error: tickwheel_queue::ParseShortIdError| {
            Failure::new(Code::InvalidParameter, error.to_string()).at("short")
        };
        text.parse().map(Self).map_err(wrong)
    }
}

/// The key of a job in the path.
pub(crate) struct PathKey(pub(crate) String);

impl FromRequestParts<App> for PathKey {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let key = path_param(parts, app, "key").await?;
        let allowed = app.queue_limits().key;
        if key.len() as u64 > allowed {
            let why = format!("a key of {} bytes is over the limit of {allowed}", key.len());
            return Err(Failure::new(Code::InvalidParameter, why).at("key"));
        }
        Ok(Self(key))
    }
}

/// The name of a group in the path.
pub(crate) struct PathGroup(pub(crate) String);

impl FromRequestParts<App> for PathGroup {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let group = path_param(parts, app, "group").await?;
        let allowed = app.queue_limits().key;
        if group.is_empty() || group.len() as u64 > allowed {
            let why = format!("a group must have 1 to {allowed} bytes, got {}", group.len());
            return Err(Failure::new(Code::InvalidParameter, why).at("group"));
        }
        Ok(Self(group))
    }
}

/// The code of a problem in the path.
pub(crate) struct PathCode(pub(crate) Code);

impl FromRequestParts<App> for PathCode {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let text = path_param(parts, app, "code").await?;
        let known = Code::ALL.iter().find(|code| code.as_str() == text);
        let unknown = || {
            let why = format!("there is no kind of problem called {:?}", shown(&text));
            Failure::new(Code::NotFound, why).at("code")
        };
        known.copied().map(Self).ok_or_else(unknown)
    }
}

/// A required body.
pub(crate) struct Body<T>(pub(crate) T);

/// A required body, with its bytes.
pub(crate) struct BodyAndBytes<T>(pub(crate) T, pub(crate) Bytes);

/// An optional body.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let (is_json, bytes) = read(request, app).await?;
        need_json(is_json)?;
        parse_whole(bytes).await.map(|(body, _)| Self(body))
    }
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for BodyAndBytes<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let (is_json, bytes) = read(request, app).await?;
        need_json(is_json)?;
        parse_whole(bytes).await.map(|(body, bytes)| Self(body, bytes))
    }
}

impl<T: DeserializeOwned + Default + Send + 'static> FromRequest<App> for OptionalBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let (is_json, bytes) = read(request, app).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        need_json(is_json)?;
        parse_whole(bytes).await.map(|(body, _)| Self(body))
    }
}

/// Parses JSON. A large one is parsed on another thread, so that other requests do not wait for it.
async fn parse_whole<T: DeserializeOwned + Send + 'static>(
    bytes: Bytes,
) -> Result<(T, Bytes), Failure> {
    off_thread(bytes.len() > LARGE_BODY, move || Ok((parse(&bytes)?, bytes))).await
}

/// The number of long computations at a time is the number of cores: more would slow down the
/// threads that serve connections.
static LONG_WORK: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)));

/// Runs a long computation on a thread for such work.
pub(crate) async fn off_thread<T: Send + 'static>(
    is_long: bool,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    if !is_long {
        return work();
    }
    // The semaphore is never closed. Work whose request is dropped keeps its permit until it ends.
    let permit = LONG_WORK.acquire().await.ok();
    let failure = |error: tokio::task::JoinError| Failure::new(Code::Internal, error.to_string());
    let work = move || {
        let _permit = permit;
        work()
    };
    tokio::task::spawn_blocking(work).await.map_err(failure)?
}

/// Returns `true` if the content type of a request is JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    is_type(headers, crate::api::JSON_TYPE)
}

/// Returns `true` if the content type of a request is the wanted one.
pub(crate) fn is_type(headers: &HeaderMap, wanted: &str) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(wanted)
}

pub(crate) fn need_json(is_json: bool) -> Result<(), Failure> {
    if is_json {
        return Ok(());
    }
    let why = "the body must be JSON: send it with `Content-Type: application/json`";
    Err(Failure::new(Code::UnsupportedMediaType, why).at("content-type"))
}

/// Reads the whole body. Returns whether its content type is JSON, and its bytes.
async fn read(request: Request, app: &App) -> Result<(bool, Bytes), Failure> {
    let is_json = is_json(request.headers());
    Ok((is_json, read_bytes(request, app).await?))
}

/// Reads the whole body.
pub(crate) async fn read_bytes(request: Request, app: &App) -> Result<Bytes, Failure> {
    let visit = request.extensions().get::<Visit>().cloned();
    read_of(request.into_body(), visit, app).await
}

/// Waits for a small body before the request is answered, whatever the answer is. hyper closes a
/// connection whose request was answered before its body arrived, without a word to the client, and
/// the client's next request on it is lost.
pub(crate) async fn await_small_body(request: Request, app: &App) -> Result<Request, Failure> {
    let length = request.body().size_hint().exact();
    let is_small = length.is_some_and(|bytes| (1..=SMALL_BODY).contains(&bytes));
    if !is_small || request.headers().contains_key(EXPECT) {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let visit = parts.extensions.get::<Visit>().cloned();
    let bytes = read_of(body, visit, app).await?;
    Ok(Request::from_parts(parts, bytes.into()))
}

/// Reads the whole body. The visit keeps its share of the memory until the request is answered.
async fn read_of(
    body: axum::body::Body,
    visit: Option<Visit>,
    app: &App,
) -> Result<Bytes, Failure> {
    let limits = &app.config().limits;
    let received = read_body(body, visit.as_ref(), limits, app.memory(), app.shutdown());
    let (bytes, share) = received.await?;
    if let Some(visit) = visit {
        visit.keep(share);
    }
    Ok(bytes)
}

/// Reads a whole body within the limits of size, time and memory. Returns it with its share of the
/// memory.
pub(crate) async fn read_body(
    body: axum::body::Body,
    visit: Option<&Visit>,
    limits: &HttpLimits,
    memory: &Memory,
    shutdown: &Shutdown,
) -> Result<(Bytes, Share), Failure> {
    // hyper sends `100 Continue` when the body is first polled, so a request is refused before
    // that.
    let expected = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if expected > limits.body {
        return Err(over_limit(limits.body));
    }
    memory.check(expected.saturating_mul(BODY_COPIES))?;
    let mut body = pin!(receive(body, limits.body, memory.share()));
    // Most bodies arrive with their headers.
    let at_once = poll_fn(|context| Poll::Ready(body.as_mut().poll(context))).await;
    match at_once {
        Poll::Ready(received) => received,
        Poll::Pending => {
            let _receiving = visit.map(Visit::receiving);
            tokio::select! {
                biased;
                received = body => received,
                () = tokio::time::sleep(limits.body_timeout) => {
                    let why = format!("the body did not arrive within {:?}", limits.body_timeout);
                    Err(Failure::new(Code::IncompleteBody, why))
                }
                () = shutdown.begun() => Err(tickwheel_queue::Error::Closed.into()),
            }
        }
    }
}

/// Receives a body of at most `limit` bytes, with its share of the memory.
async fn receive(
    mut body: axum::body::Body,
    limit: usize,
    mut share: Share,
) -> Result<(Bytes, Share), Failure> {
    // Most bodies are one piece, which is not copied.
    let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Failure::new(Code::IncompleteBody, format!("the body could not be read: {error}"))
        })?;
        let Ok(piece) = frame.into_data() else { continue };
        if first.len() + rest.len() + piece.len() > limit {
            return Err(over_limit(limit));
        }
        share.grow(piece.len() * BODY_COPIES)?;
        if first.is_empty() && rest.is_empty() {
            first = piece;
        } else {
            rest.extend_from_slice(&std::mem::take(&mut first));
            rest.extend_from_slice(&piece);
        }
    }
    Ok((if rest.is_empty() { first } else { rest.freeze() }, share))
}

fn over_limit(limit: usize) -> Failure {
    Failure::new(Code::TooLarge, format!("the body is over the limit of {limit} bytes"))
}

/// Parses JSON. On an error it is parsed again to find the path of the field.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    // serde would also accept a list of the values of all fields.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        return Err(
            Failure::new(Code::InvalidField, "the body must be an object, got a list").at("")
        );
    }
    serde_json::from_slice(bytes).map_err(|error| {
        if !error.is_data() {
            return Failure::new(Code::MalformedJson, error.to_string());
        }
        let mut deserializer = serde_json::Deserializer::from_slice(bytes);
        match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
            Ok(_) => wrong_field(String::new(), &error),
            Err(located) => {
                let pointer = pointer_to(located.path());
                wrong_field(pointer, located.inner())
            }
        }
    })
}

fn pointer_to(path: &serde_path_to_error::Path) -> String {
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            // In JSON, the variant of an enum is the name of a field.
            Segment::Enum { variant } => format!("/{variant}"),
            Segment::Unknown => String::new(),
        })
        .collect()
}

/// Returns serde's message without Rust's names for numbers.
fn in_plain_words(what: &str) -> String {
    let names = [
        ("i8", "a whole number from -128 to 127"),
        ("u8", "a whole number from 0 to 255"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("u64", "a whole number from 0 up"),
    ];
    let Some((rest, expected)) = what.rsplit_once(", expected ") else { return what.to_owned() };
    let plain = names.iter().find(|(name, _)| *name == expected).map(|(_, plain)| plain);
    plain.map_or_else(|| what.to_owned(), |plain| format!("{rest}, expected {plain}"))
}

/// Returns serde's message about a field, with the field.
fn wrong_field(pointer: String, error: &serde_json::Error) -> Failure {
    let text = error.to_string();
    let what = in_plain_words(text.rsplit_once(" at line ").map_or(&text[..], |(what, _)| what));
    let what = &what[..];
    let quoted = |start: &str| {
        let rest = what.strip_prefix(start)?;
        Some(rest.split('`').next().unwrap_or_default())
    };
    // Whether the path ends with the field itself depends on where the error was found.
    let field = |name: &str| {
        let last = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        if pointer.ends_with(&last) { pointer.clone() } else { format!("{pointer}{last}") }
    };
    if what.starts_with(&format!("more than {MAX_BATCH_ITEMS} items")) {
        return Failure::new(Code::TooLarge, what).at(pointer);
    }
    if let Some(name) = quoted("unknown field `") {
        return Failure::new(Code::UnknownField, what).at(field(name));
    }
    if let Some(name) = quoted("missing field `") {
        return Failure::new(Code::MissingField, what).at(format!("{pointer}/{name}"));
    }
    if let Some(name) = quoted("duplicate field `") {
        return Failure::new(Code::InvalidField, what).at(field(name));
    }
    Failure::new(Code::InvalidField, what).at(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Batch, PutRequest};

    fn problem_of<T: DeserializeOwned>(json: &str) -> (Code, String) {
        let Err(failure) = parse::<T>(json.as_bytes()) else { panic!("{json} was read") };
        (failure.problem.code, failure.problem.field.unwrap_or_default())
    }

    #[test]
    fn a_wrong_field_is_named_by_a_pointer() {
        let wrong = |json| problem_of::<PutRequest>(json);
        assert_eq!(wrong(r#"{"delay": "soon"}"#), (Code::InvalidField, "/delay".into()));
        assert_eq!(wrong(r#"{"dealy": 1}"#), (Code::UnknownField, "/dealy".into()));
        assert_eq!(wrong(r#"{"a/b~": 1}"#), (Code::UnknownField, "/a~1b~0".into()));
        assert_eq!(wrong(r#"{"text": 1}"#), (Code::InvalidField, "/text".into()));
        assert_eq!(wrong(r#"{"text": "", "text": ""}"#), (Code::InvalidField, "/text".into()));
        assert_eq!(wrong(r#"{"priority": 128}"#), (Code::InvalidField, "/priority".into()));
        assert_eq!(
            wrong(r#"{"retry": {"exponential": {"first": 1}}}"#),
            (Code::MissingField, "/retry/exponential/max".into())
        );
        assert_eq!(wrong(r#"{"headers": {"a": 1}}"#), (Code::InvalidField, "/headers/a".into()));
        assert_eq!(wrong("[]"), (Code::InvalidField, String::new()));
        assert_eq!(wrong("{"), (Code::MalformedJson, String::new()));
        assert_eq!(wrong(""), (Code::MalformedJson, String::new()));
        assert_eq!(wrong("{} x"), (Code::MalformedJson, String::new()));
        let (code, field) = problem_of::<Batch<PutRequest>>(r#"{"items": [{}, {"due": "x"}]}"#);
        assert_eq!((code, &field[..]), (Code::InvalidField, "/items/1/due"));
    }

    #[test]
    fn numbers_are_described_for_people() {
        for (json, wanted) in [
            (
                r#"{"priority": 128}"#,
                "invalid value: integer `128`, expected a whole number from -128 to 127",
            ),
            (
                r#"{"max_attempts": -1}"#,
                "invalid value: integer `-1`, expected a whole number from 0 to 4294967295",
            ),
            (r#"{"text": 1}"#, "invalid type: integer `1`, expected a string"),
        ] {
            let Err(failure) = parse::<PutRequest>(json.as_bytes()) else { panic!("{json}") };
            assert_eq!(failure.problem.detail, wanted);
        }
    }

    #[test]
    fn bytes_that_are_no_utf8_are_malformed() {
        let Err(failure) = parse::<PutRequest>(b"{\"text\": \"\xff\"}") else { panic!() };
        assert_eq!(failure.problem.code, Code::MalformedJson);
    }

    #[test]
    fn names_with_tricks_are_refused() {
        for name in ["", ".", "..", ".a", "a/b", "a b", "a%2f", "é", "a\0", &"x".repeat(129)] {
            assert!(!is_name(name), "{name:?}");
        }
        for name in ["a", "orders-eu.v2_x", &"x".repeat(128), "-"] {
            assert!(is_name(name), "{name:?}");
        }
    }
}
