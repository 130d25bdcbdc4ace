//! Signing in and out, preferences, and assets.

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, SET_COOKIE, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tickwheel_page::{Language, LoginView, Theme, TimeFormat, VERSION};

use super::answer::{audit, html, redirect, safe_path};
use super::form::Form;
use super::visitor::{LANGUAGE_COOKIE, THEME_COOKIE, TIMES_COOKIE, TOKEN_COOKIE, Visitor, cookie};
use crate::api::Code;
use crate::app::App;
use crate::auth::Caller;
use crate::http::Visit;
use crate::problem::Failure;

/// The longest token that is looked at.
const MAX_TOKEN_BYTES: usize = 256;
/// How long a browser keeps preferences, in seconds.
const YEAR: u64 = 31_536_000;

/// Returns the attribute that restricts a cookie to TLS, where TLS is spoken by the server or by a
/// proxy before it.
fn secure(app: &App, headers: &HeaderMap) -> &'static str {
    let forwarded = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    if app.config().tls.is_some() || forwarded { "; Secure" } else { "" }
}

fn set_cookie(response: &mut Response, name: &str, value: &str, rest: &str) {
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{rest}");
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().append(SET_COOKIE, value);
    }
}

pub(super) async fn login_form(visitor: Visitor, RawQuery(query): RawQuery) -> Response {
    let form = Form::of_query(query.as_deref());
    html(LoginView::new(&visitor.frame, safe_path(form.get("next")), false).html())
}

/// Checks a token and keeps it in the cookie. The cookie ends with the browser.
pub(super) async fn login(
    State(app): State<App>,
    visitor: Visitor,
    Extension(visit): Extension<Visit>,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Failure> {
    let (token, next) = (form.get("token").trim(), safe_path(form.get("next")));
    let is_plain = token.len() <= MAX_TOKEN_BYTES
        && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let admitted = app.gate().admit_token(Some(token).filter(|_| is_plain));
    match admitted {
        Ok(caller) => {
            audit(&caller, "login", caller.id(), 1);
            let mut response = redirect(next);
            set_cookie(&mut response, TOKEN_COOKIE, token, secure(&app, &headers));
            Ok(response)
        }
        Err(refusal) => {
            let refusal = app.refuse(visit.address().ip(), refusal);
            if refusal.problem.code == Code::RateLimited {
                return Err(refusal);
            }
            let page = html(LoginView::new(&visitor.frame, next, true).html());
            Ok((StatusCode::UNAUTHORIZED, page).into_response())
        }
    }
}

pub(super) async fn logout(State(app): State<App>, headers: HeaderMap) -> Response {
    // The path needs no token, so it is looked up here.
    let admitted = app.gate().admit_token(cookie(&headers, TOKEN_COOKIE));
    if let Ok(caller @ Caller::Token(_)) = admitted {
        audit(&caller, "logout", caller.id(), 1);
    }
    let mut response = redirect("/login");
    let rest = format!("; Max-Age=0{}", secure(&app, &headers));
    set_cookie(&mut response, TOKEN_COOKIE, "", &rest);
    response
}

/// Keeps language, theme and time format in cookies, and returns to the page.
pub(super) async fn preferences(
    State(app): State<App>,
    headers: HeaderMap,
    form: Form,
) -> Response {
    let mut response = redirect(safe_path(form.get("back")));
    let rest = format!("; Max-Age={YEAR}{}", secure(&app, &headers));
    let chosen = [
        (LANGUAGE_COOKIE, Language::of_code(form.get("language")).map(Language::code)),
        (THEME_COOKIE, Theme::of_name(form.get("theme")).map(Theme::as_str)),
        (TIMES_COOKIE, TimeFormat::of_name(form.get("times")).map(TimeFormat::as_str)),
    ];
    for (name, value) in chosen {
        if let Some(value) = value {
            set_cookie(&mut response, name, value, &rest);
        }
    }
    response
}

/// Serves an asset. Under the version of the running server it never changes.
pub(super) async fn asset(
    Path((version, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let Some(asset) = tickwheel_page::asset(&name) else {
        return Err(Failure::new(Code::NotFound, "there is no such file"));
    };
    let accepts = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let takes_gzip = accepts.is_some_and(|encodings| {
        encodings.split(',').any(|encoding| {
            let mut parts = encoding.trim().split(';').map(str::trim);
            parts.next() == Some("gzip") && parts.next() != Some("q=0")
        })
    });
    let cache = if version == VERSION { "public, max-age=31536000, immutable" } else { "no-cache" };
    let fixed =
        [(CONTENT_TYPE, asset.content_type), (CACHE_CONTROL, cache), (VARY, "accept-encoding")];
    Ok(if takes_gzip {
        (fixed, [(CONTENT_ENCODING, "gzip")], asset.gzip).into_response()
    } else {
        (fixed, asset.plain).into_response()
    })
}
