//! The middleware of every request: gives it an id, authenticates the caller, and writes problems,
//! logs and counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;

use crate::api::{Code, Problem};
use crate::app::App;
use crate::auth::Caller;
use crate::config::AccessLog;
use crate::extract::await_small_body;
use crate::http::Visit;
use crate::page;
use crate::problem::Failure;
use crate::query;
use crate::telemetry::{self, TRACEPARENT, TraceContext};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_ID: usize = 64;
const LONGEST_URI: usize = 8 << 10;

/// Paths that need no token.
const OPEN: [&str; 4] = ["/healthz", "/readyz", "/openapi.json", "/docs"];

pub(crate) async fn front(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("", MatchedPath::as_str);
    let exchange = Exchange::begin(&request, route);
    let span = tracing::info_span!("request", id = %exchange.id, trace_id = exchange.trace_id());
    let traces = exchange.trace.map(Some).into_iter().collect();
    let _in_flight = app.counts().begin();
    // Scripts of the dashboard read problems as programs do.
    let visit = (owns(&app, &exchange.path) && !exchange.path.starts_with("/page/")).then(|| {
        let address = request.uri().path_and_query().map_or("/", |address| address.as_str());
        (page::Preferences::of(request.headers()), address.to_owned())
    });
    let answered = async {
        match admit(&app, &request, route) {
            Ok(caller) => {
                request.extensions_mut().insert(caller.clone());
                let response = match await_small_body(request, &app).await {
                    Ok(request) => telemetry::within(traces, next.run(request)).await,
                    Err(failure) => failure.into_response(),
                };
                (response, Some(caller))
            }
            Err(failure) => (failure.into_response(), None),
        }
    };
    let (response, caller) = answered.instrument(span).await;
    let response = match visit {
        Some((preferences, address)) => {
            let frame = preferences.frame(&app, caller.as_ref(), &address);
            page::protect(page::write_problem(response, &frame, &exchange.id))
        }
        None => response,
    };
    exchange.end(&app, response, caller.as_ref())
}

/// A request and its answer, for ids, problems, logs and counts.
pub(crate) struct Exchange {
    started: Instant,
    id: String,
    method: Method,
    path: String,
    /// The method and the pattern of the path; empty if no route matched.
    route: String,
    /// The trace that the client continues here.
    pub(crate) trace: Option<TraceContext>,
}

impl Exchange {
    /// Begins with a request that has arrived.
    pub(crate) fn begin<B>(request: &axum::http::Request<B>, route: &str) -> Self {
        let method = request.method().clone();
        let route = if route.is_empty() { String::new() } else { format!("{method} {route}") };
        let path = request.uri().path().to_owned();
        let (id, trace) = (request_id(request.headers()), incoming_trace(request.headers()));
        Self { started: Instant::now(), id, method, path, route, trace }
    }

    /// Returns the trace as logs show it.
    fn trace_id(&self) -> Option<String> {
        self.trace.map(|context| format!("{:032x}", context.trace))
    }

    /// Completes the answer, counts it and logs it.
    pub(crate) fn end<B: From<Vec<u8>>>(
        self,
        app: &App,
        response: axum::http::Response<B>,
        caller: Option<&Caller>,
    ) -> axum::http::Response<B> {
        let mut response = write_problem(response, &self.id, &self.path);
        let headers = response.headers_mut();
        if let Ok(value) = HeaderValue::from_str(&self.id) {
            headers.insert(REQUEST_ID, value);
        }
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let (status, took) = (response.status(), self.started.elapsed());
        app.counts().end(&self.route, status, took);
        let is_logged = match app.config().access_log {
            AccessLog::All => true,
            AccessLog::Errors => status.is_client_error() || status.is_server_error(),
            AccessLog::None => false,
        };
        if is_logged {
            let Self { id, method, path, .. } = &self;
            let (token, trace_id) = (caller.map_or("", Caller::id), self.trace_id());
            let (status, micros) = (status.as_u16(), took.as_micros() as u64);
            tracing::info!(target: "tickwheel_server::access", request_id = %id, %method, path, status, micros, token, trace_id, "answered");
        }
        response
    }
}

/// Returns `true` if a path belongs to the dashboard, and that is enabled.
fn owns(app: &App, path: &str) -> bool {
    app.config().page && page::owns(path)
}

/// Returns the caller of a request, or why the request is refused.
pub(crate) fn admit<B>(
    app: &App,
    request: &axum::http::Request<B>,
    route: &str,
) -> Result<Caller, Failure> {
    let address = request.extensions().get::<Visit>().map(|visit| visit.address().ip());
    let Some(address) = address else {
        return Err(Failure::new(Code::Internal, "the request came from nowhere"));
    };
    if request.uri().path_and_query().is_some_and(|text| text.as_str().len() > LONGEST_URI) {
        let why = format!("the address has more than {LONGEST_URI} bytes");
        return Err(Failure::new(Code::UriTooLong, why));
    }
    check_host(request)?;
    app.gate().check_browser(request.method(), request.headers())?;
    let path = request.uri().path();
    let caller = if OPEN.contains(&path) || path.starts_with("/problems/") {
        app.gate().anyone()
    } else if owns(app, path) {
        page::admit(app, request.method(), path, request.headers())?
    } else if path == "/" {
        app.gate().anyone()
    } else {
        app.gate().admit(request.headers()).map_err(|refusal| app.refuse(address, refusal))?
    };
    app.check_rate(&caller, address)?;
    check_query(app, request, route)?;
    Ok(caller)
}

/// Refuses a request with two hosts, or with none where HTTP requires one: a proxy might use one of
/// them, and this service another.
fn check_host<B>(request: &axum::http::Request<B>) -> Result<(), Failure> {
    let hosts = request.headers().get_all(HOST).iter().count();
    let why = match hosts {
        0 if request.version() >= Version::HTTP_11 => "the header `Host` is missing",
        0 | 1 => return Ok(()),
        _ => "there is more than one header `Host`: send one",
    };
    Err(Failure::new(Code::InvalidHeader, why).at("host"))
}

/// Refuses parameters on routes without any. Otherwise a delay in the query of a put would be
/// ignored, and the job would be due at once.
fn check_query<B>(app: &App, request: &axum::http::Request<B>, route: &str) -> Result<(), Failure> {
    let Some(query) = request.uri().query().filter(|query| !query.is_empty()) else {
        return Ok(());
    };
    let method = if *request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let takes_some = app.documents().with_query.contains(&format!("{method} {route}"));
    if takes_some || !route.starts_with("/v1/") {
        return Ok(());
    }
    Err(query::unknown(query.split(['=', '&']).next().unwrap_or_default(), &[]))
}

/// Returns the trace that the client continues here.
fn incoming_trace(headers: &HeaderMap) -> Option<TraceContext> {
    TraceContext::parse(headers.get(TRACEPARENT)?.to_str().ok()?)
}

/// Returns the client's request id, if it can be logged unchanged.
pub(crate) fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    match given {
        Some(id) if (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(is_fine) => {
            id.to_owned()
        }
        _ => new_id(),
    }
}

/// Returns a request id that is unique in this process, and very likely elsewhere.
fn new_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static SEED: std::sync::LazyLock<u64> = std::sync::LazyLock::new(|| {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(std::process::id())
    });
    format!("{:08x}{:08x}", *SEED as u32, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Writes the problem of an answer as its body.
pub(crate) fn write_problem<B: From<Vec<u8>>>(
    mut response: axum::http::Response<B>,
    id: &str,
    path: &str,
) -> axum::http::Response<B> {
    let Some(mut problem) = response.extensions_mut().remove::<Box<Problem>>() else {
        return response;
    };
    problem.instance = Some(path.to_owned());
    problem.request_id = Some(id.to_owned());
    if problem.status >= 500 {
        tracing::warn!(request_id = id, code = %problem.code, detail = problem.detail, "failed");
    }
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.remove(CONTENT_LENGTH);
    // The answer to HEAD has only the length.
    *response.body_mut() = B::from(body);
    response
}

/// Answers an unknown path.
pub(crate) async fn no_such_page(request: Request) -> Failure {
    let shown: String = request.uri().path().chars().take(128).collect();
    Failure::new(
        Code::NotFound,
        format!("there is nothing at {shown:?}: see /docs for what there is"),
    )
}

/// Answers an unknown method of a known path.
pub(crate) async fn wrong_method(request: Request) -> Failure {
    let why = format!(
        "the method {} is not allowed here: use one of the header `Allow`",
        request.method()
    );
    Failure::new(Code::MethodNotAllowed, why)
}
