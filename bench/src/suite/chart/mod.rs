//! A chart of horizontal bars in groups, as SVG that reads well on light and dark pages.
//!
//! Ground rules: every bar has its number; one style sheet defines all colours, for light and for
//! dark pages.

mod axis;
mod drawing;

use std::fmt;

use drawing::Drawing;

const STYLE: &str = "\
.page{fill:#fff}.title{font-size:20px;font-weight:600;fill:#1f2328}\
.group{font-size:13px;fill:#1f2328}.note,.axis{font-size:11px;fill:#59636e}\
.heading{font-size:13px;font-weight:600;fill:#1f2328}.key{font-size:12px;fill:#1f2328}\
.number{font-size:10.5px;fill:#59636e}.first{font-weight:600;fill:#1f2328}\
.grid{stroke:#d1d9e0;stroke-width:1}.mark{fill:#fff;stroke:#1f2328;stroke-width:1.4}\
.s0{fill:#1668dc}.s1{fill:#69a8f5}.s2{fill:#e07b18}.s3{fill:#9aa4af}.s4{fill:#5f9e78}.s5{fill:#a487c4}\
@media(prefers-color-scheme:dark){.page{fill:#0d1117}\
.note,.axis,.number{fill:#9198a1}.title,.group,.heading,.key,.first{fill:#f0f6fc}\
.grid{stroke:#30363d}.mark{fill:#0d1117;stroke:#f0f6fc}.s0{fill:#3b8bff}.s1{fill:#9cc8ff}}";

/// A chart: a legend, then panels.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// Names in the legend; bars of a group are in this order. The first one stands out.
    pub(crate) systems: Vec<String>,
    /// The legend of marks on bars, if there are any.
    pub(crate) marked: Option<String>,
    pub(crate) panels: Vec<Panel>,
    pub(crate) caption: Vec<String>,
}

/// Groups that share a scale.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) scale: Scale,
    pub(crate) groups: Vec<Group>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Logarithmic,
}

/// One bar for each system.
pub(crate) struct Group {
    pub(crate) label: String,
    pub(crate) bars: Vec<Option<Bar>>,
}

pub(crate) struct Bar {
    pub(crate) value: f64,
    pub(crate) text: String,
    pub(crate) mark: Option<f64>,
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drawing = Drawing::of(self)?;
        let (width, height) = drawing.size();
        writeln!(
            f,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" font-family="system-ui,-apple-system,'Segoe UI',Inter,Helvetica,Arial,sans-serif">"#
        )?;
        writeln!(f, "<title>{}</title>\n<style>{STYLE}</style>", escape(&self.title))?;
        writeln!(f, r#"<rect class="page" width="{width}" height="{height}" rx="8"/>"#)?;
        writeln!(f, "{}</svg>", drawing.body())
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
