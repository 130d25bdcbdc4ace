//! Who visits: the token of the cookie, preferences, and requests of other sites.

use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::header::{ACCEPT_LANGUAGE, COOKIE, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use tickwheel_page::{Frame, Language, Notice, Rights, Theme, TimeFormat};

use crate::api::Code;
use crate::app::App;
use crate::auth::{Caller, Gate};
use crate::cluster::Fleet;
use crate::problem::Failure;
use crate::tokens::Scope;

/// The cookie with the token.
pub(super) const TOKEN_COOKIE: &str = "tickwheel_token";
pub(super) const LANGUAGE_COOKIE: &str = "tickwheel_language";
pub(super) const THEME_COOKIE: &str = "tickwheel_theme";
pub(super) const TIMES_COOKIE: &str = "tickwheel_times";

/// Paths that need no token.
const OPEN: [&str; 3] = ["/login", "/preferences", "/logout"];

/// Returns the value of a cookie. If a browser sends several with the name, the first counts.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(key, value)| (key.trim(), value.trim()))
        .find(|(key, _)| *key == name)
        .map(|it| it.1)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

/// Returns the token of a visitor.
pub(crate) fn token_of(headers: &HeaderMap) -> Option<&str> {
    cookie(headers, TOKEN_COOKIE)
}

/// Decides who visits, by the cookie; refuses requests that a page of another site makes.
pub(crate) fn admit(
    app: &App,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Result<Caller, Failure> {
    check_site(method, headers)?;
    if OPEN.contains(&path) || path.starts_with("/assets/") {
        return Ok(app.gate().anyone());
    }
    admit_cookie(app.gate(), headers)
}

/// Returns the caller that the cookie of a visitor belongs to, or why it is refused.
pub(crate) fn admit_cookie(gate: &Gate, headers: &HeaderMap) -> Result<Caller, Failure> {
    gate.admit_token(cookie(headers, TOKEN_COOKIE))
}

/// Refuses changes that do not come from a page of this origin, and anything that a page of another
/// site loads. Links from elsewhere are fine: they arrive without the cookie.
fn check_site(method: &Method, headers: &HeaderMap) -> Result<(), Failure> {
    let refused = |why: &str| Err(Failure::new(Code::CrossOrigin, why));
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    match text(headers, "sec-fetch-site") {
        Some("same-origin") => Ok(()),
        Some(_) if is_read && text(headers, "sec-fetch-mode") == Some("navigate") => Ok(()),
        Some("none") if is_read => Ok(()),
        Some(_) => refused("a page of another site cannot use the dashboard"),
        // The layer around all routes refuses an origin that is not this one.
        None if is_read || headers.contains_key(ORIGIN) => Ok(()),
        None => refused(
            "a change must come from a page of the dashboard: the header `Origin` is missing",
        ),
    }
}

/// How the visitor wants pages to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preferences {
    language: Language,
    theme: Theme,
    times: TimeFormat,
}

impl Preferences {
    /// Reads them from the cookies; the language otherwise from `Accept-Language`.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let accepted =
            || Language::preferred(text(headers, ACCEPT_LANGUAGE.as_str()).unwrap_or_default());
        let chosen = |name| cookie(headers, name);
        Self {
            language: chosen(LANGUAGE_COOKIE).and_then(Language::of_code).unwrap_or_else(accepted),
            theme: chosen(THEME_COOKIE).and_then(Theme::of_name).unwrap_or_default(),
            times: chosen(TIMES_COOKIE).and_then(TimeFormat::of_name).unwrap_or_default(),
        }
    }

    /// Returns the frame of a page, for a caller or without one.
    pub(crate) fn frame(self, app: &App, caller: Option<&Caller>, path: &str) -> Frame {
        let (token, rights) = match caller {
            Some(Caller::Token(known)) => {
                let has = |scope| known.token.has(scope);
                let rights = Rights {
                    produce: has(Scope::Produce),
                    admin: has(Scope::Admin),
                    all_queues: !known.access.is_limited(),
                };
                (Some(known.token.name.clone()), rights)
            }
            Some(Caller::Anyone(_)) => (None, Rights::ALL),
            None => (None, Rights::default()),
        };
        Frame {
            language: self.language,
            theme: self.theme,
            times: self.times,
            token,
            rights,
            ..Frame::at(path, app.now().as_millis())
        }
    }
}

/// A visitor with the frame of the page that is asked for.
pub(super) struct Visitor {
    pub(super) caller: Caller,
    pub(super) frame: Frame,
    /// All partitions, if the server is a node of a cluster with several.
    pub(super) fleet: Option<Fleet>,
}

impl FromRequestParts<App> for Visitor {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |uri| &uri.0);
        let query = uri.query().unwrap_or_default();
        let of_query = |name: &str| {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut frame = Preferences::of(&parts.headers).frame(app, Some(&caller), path);
        let number = of_query("n").and_then(|number| number.parse().ok());
        frame.notice = of_query("done").and_then(|done| Notice::of(frame.language, &done, number));
        let fleet = parts.extensions.get().cloned();
        Ok(Self { caller, frame, fleet })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (axum::http::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        pairs.collect()
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let headers = headers(&[("cookie", "a=1; xtickwheel_token=no; tickwheel_token=twk_a_b")]);
        assert_eq!(cookie(&headers, TOKEN_COOKIE), Some("twk_a_b"));
        assert_eq!(cookie(&headers, "tickwheel"), None);
    }

    #[test]
    fn only_pages_of_this_origin_change_anything() {
        let ok =
            |method, pairs: &[(&'static str, &str)]| check_site(&method, &headers(pairs)).is_ok();
        assert!(ok(Method::POST, &[("sec-fetch-site", "same-origin")]));
        assert!(ok(Method::POST, &[("origin", "http://127.0.0.1:7300")]));
        for site in ["cross-site", "same-site", "none", ""] {
            assert!(!ok(Method::POST, &[("sec-fetch-site", site), ("sec-fetch-mode", "navigate")]));
        }
        assert!(!ok(Method::POST, &[]));
        assert!(ok(Method::GET, &[]));
        assert!(ok(
            Method::GET,
            &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]
        ));
        assert!(!ok(
            Method::GET,
            &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")]
        ));
    }

    #[test]
    fn cookies_choose_before_the_browser_does() {
        let chosen = Preferences::of(&headers(&[
            ("accept-language", "zh-CN"),
            ("cookie", "tickwheel_language=en; tickwheel_theme=dark; tickwheel_times=nonsense"),
        ]));
        assert_eq!(chosen.language, Language::English);
        assert_eq!((chosen.theme, chosen.times), (Theme::Dark, TimeFormat::Relative));
        let browser = Preferences::of(&headers(&[("accept-language", "zh-CN")]));
        assert_eq!(browser.language, Language::Chinese);
    }
}
