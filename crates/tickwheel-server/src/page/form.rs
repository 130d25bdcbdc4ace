//! Bodies of forms.

use axum::extract::{FromRequest, Request};

use crate::api::Code;
use crate::app::App;
use crate::extract::{is_type, read_bytes};
use crate::problem::Failure;

/// The type of a form's body.
const FORM_TYPE: &str = "application/x-www-form-urlencoded";

/// The fields of a form, in order.
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    pub(super) fn of_query(query: Option<&str>) -> Self {
        Self(form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect())
    }

    /// Returns the value of a field; the empty text if it is not there.
    pub(super) fn get(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// Returns the value of a field without white space around it.
    pub(super) fn trimmed(&self, name: &str) -> String {
        self.get(name).trim().to_owned()
    }

    /// Returns the value of a field with the line breaks that the visitor typed: a browser sends
    /// each of them as two characters.
    pub(super) fn multiline(&self, name: &str) -> String {
        self.get(name).replace("\r\n", "\n")
    }

    /// Returns all values of a field.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| &value[..])
    }
}

impl FromRequest<App> for Form {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let is_form = is_type(request.headers(), FORM_TYPE);
        let bytes = read_bytes(request, app).await?;
        if !is_form && !bytes.is_empty() {
            let why = format!("the body must be a form: `Content-Type: {FORM_TYPE}`");
            return Err(Failure::new(Code::UnsupportedMediaType, why).at("content-type"));
        }
        Ok(Self(form_urlencoded::parse(&bytes).into_owned().collect()))
    }
}
