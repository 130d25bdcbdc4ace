//! The files that a browser loads besides the pages: style, scripts and the icon. They are part of
//! the binary, compressed at build time.

/// A file that a browser loads.
///
/// ```
/// use tickwheel_page::{asset, asset_path};
///
/// let style = asset("page.css").unwrap();
/// assert!(style.content_type.starts_with("text/css"));
/// assert!(style.gzip.len() < style.plain.len());
/// assert!(asset_path("page.css").starts_with("/assets/"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its file name.
    pub name: &'static str,
    /// The value of its header `Content-Type`.
    pub content_type: &'static str,
    /// Its bytes.
    pub plain: &'static [u8],
    /// The same, compressed with gzip.
    pub gzip: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Returns the asset with a file name.
///
/// ```
/// assert!(tickwheel_page::asset("wheel.js").is_some());
/// assert!(tickwheel_page::asset("../Cargo.toml").is_none());
/// ```
pub fn asset(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

/// Returns the path of an asset on the server. It changes with the content of the assets, so the
/// answer can be cached for ever.
///
/// ```
/// let path = tickwheel_page::asset_path("page.css");
/// assert_eq!(path, format!("/assets/{}/page.css", tickwheel_page::VERSION));
/// ```
pub fn asset_path(name: &str) -> String {
    format!("/assets/{VERSION}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that a browser loads once, compressed. A browser test adds the page itself.
    const MAX_TOTAL_BYTES: usize = 120_000;

    #[test]
    fn all_assets_together_are_small() {
        let total: usize = ASSETS.iter().map(|asset| asset.gzip.len()).sum();
        assert!(total <= MAX_TOTAL_BYTES, "the assets have {total} bytes compressed");
        assert!(ASSETS.len() >= 6, "some assets are missing");
    }

    #[test]
    fn no_asset_needs_another_host_or_eval() {
        for asset in ASSETS.iter().filter(|asset| !is_foreign(asset.name)) {
            let text = std::str::from_utf8(asset.plain).unwrap();
            for forbidden in
                ["https://", "@import", "eval(", "new Function", "innerHTML", "document.write"]
            {
                assert!(!text.contains(forbidden), "{} contains {forbidden}", asset.name);
            }
        }
    }

    fn is_foreign(name: &str) -> bool {
        name.starts_with("htmx") || name.starts_with("uplot")
    }

    #[test]
    fn the_licences_of_foreign_assets_are_recorded() {
        let recorded = include_str!("../assets/THIRD-PARTY.md");
        for asset in ASSETS.iter().filter(|asset| is_foreign(asset.name)) {
            assert!(recorded.contains(&format!("`{}`", asset.name)), "{}", asset.name);
        }
    }
}
