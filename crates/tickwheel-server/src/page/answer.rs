//! Pages, redirects and problems, with the headers that protect them; and the audit log.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION,
    REFERRER_POLICY, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tickwheel_page::{Frame, ProblemView, path_with};

use crate::api::{Code, Problem};
use crate::auth::Caller;
use crate::problem::Failure;

/// Nothing but files of this server, no inline script or style, no frame around a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Returns a page.
pub(super) fn html(page: String) -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

/// Returns a redirect that a browser follows with GET.
pub(super) fn redirect(path: &str) -> Response {
    let location = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
}

/// Logs what a visitor changed, and returns to a page that says so. `done` is a key of the texts.
pub(super) fn changed(
    caller: &Caller,
    action: &str,
    subject: &str,
    count: u64,
    back: &str,
    done: &str,
) -> Response {
    audit(caller, action, subject, count);
    let number = count.to_string();
    let separator = if back.contains('?') { '&' } else { '?' };
    let notice = path_with("", [("done", done), ("n", &number)]);
    redirect(&format!("{back}{separator}{}", notice.trim_start_matches('?')))
}

/// Logs what a visitor changed.
pub(super) fn audit(caller: &Caller, action: &str, subject: &str, count: u64) {
    let token = caller.id();
    tracing::info!(target: "tickwheel_server::audit", token, action, subject, count, "audit");
}

/// Returns where a visitor may be sent after a form: a path of this server, or `/`.
pub(super) fn safe_path(path: &str) -> &str {
    let is_local = path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_local { path } else { "/" }
}

/// Adds the headers that protect a page.
pub(crate) fn protect(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let fixed = |text: &'static str| HeaderValue::from_static(text);
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(fixed(POLICY));
    headers.insert(X_FRAME_OPTIONS, fixed("DENY"));
    // Forms without scripts prove by `Origin` where they come from; `no-referrer` would hide it.
    headers.insert(REFERRER_POLICY, fixed("same-origin"));
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), fixed("same-origin"));
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), fixed("same-origin"));
    response
}

/// Writes the problem that an answer carries as a page, or sends a visitor without a token to the
/// page that asks for one.
pub(crate) fn write_problem(mut response: Response, frame: &Frame, request_id: &str) -> Response {
    let Some(problem) = response.extensions_mut().remove::<Box<Problem>>() else {
        return response;
    };
    let path = frame.path.split('?').next().unwrap_or_default();
    if problem.code == Code::Unauthorized && path != "/login" {
        let next = if frame.path == "/" { "" } else { &frame.path[..] };
        return redirect(&path_with("/login", [("next", next)]));
    }
    if problem.status >= 500 {
        tracing::warn!(request_id, code = %problem.code, detail = problem.detail, "failed");
    }
    let back = path
        .rsplit_once('/')
        .map_or("/", |(parent, _)| if parent.is_empty() { "/" } else { parent });
    let view = ProblemView::new(
        frame,
        problem.status,
        &problem.title,
        &problem.detail,
        Some(request_id),
        back,
    );
    let body = view.html();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.remove(CONTENT_LENGTH);
    *response.body_mut() = axum::body::Body::from(body);
    response
}

/// The answer to an action that there is not.
pub(super) fn no_such_action(action: &str) -> Failure {
    let shown: String = action.chars().take(64).collect();
    Failure::new(Code::NotFound, format!("there is no action {shown:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_sends_a_visitor_to_another_site() {
        for path in
            ["", "//evil.example", "https://evil.example", "/\\evil.example", "/a b", "/\n", "/é"]
        {
            assert_eq!(safe_path(path), "/", "{path:?}");
        }
        for path in ["/", "/jobs?queue=mail&page=x", "/queues/mail"] {
            assert_eq!(safe_path(path), path);
        }
    }
}
