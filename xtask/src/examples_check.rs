//! Checks that every public type, trait and free function has an example that runs.
//!
//! Methods, fields, variants, plain enums, constants and type aliases need none: the example of
//! their type shows them in use.
//!
//! The check reads the source line by line instead of compiling it. Two other checks make that
//! good enough: rustfmt gives every item its own line, and rustc's lint `unreachable_pub` ensures
//! that a `pub` item is public. Items written by a macro are found in the text of the macro.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Failure, root};

/// The crates whose items must have examples.
const SOURCES: [&str; 7] = [
    "crates/tickwheel/src",
    "crates/tickwheel-queue/src",
    "crates/tickwheel-api/src",
    "crates/tickwheel-client/src",
    "crates/tickwheel-cluster/src",
    "crates/tickwheel-server/src",
    "crates/tickwheel-page/src",
];

/// Public for tests only, and not part of the documentation.
const HIDDEN: &str = "crates/tickwheel-queue/src/store";

/// The kinds of items that need an example.
const ITEMS: [&str; 4] = ["fn", "struct", "union", "trait"];

/// Returns the public items, and a finding for each that has no example.
pub(crate) fn run() -> Result<(usize, Vec<String>), Failure> {
    let (mut items, mut findings) = (0, Vec::new());
    for source in SOURCES {
        let hidden = root().join(HIDDEN);
        for path in rust_files(&root().join(source))?.iter().filter(|it| !it.starts_with(&hidden)) {
            let text = fs::read_to_string(path)
                .map_err(|error| Failure::Read(path.display().to_string(), error))?;
            let shown = path.strip_prefix(root()).unwrap_or(path).display();
            for item in public_items(&text) {
                items += 1;
                if !item.has_example {
                    let Item { line, name, .. } = item;
                    findings.push(format!("{shown}:{line}: `{name}` has no example that runs"));
                }
            }
        }
    }
    Ok((items, findings))
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error| Failure::Read(folder.display().to_string(), error);
    let mut files = Vec::new();
    for member in fs::read_dir(folder).map_err(unreadable)? {
        let path = member.map_err(unreadable)?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[derive(Debug, PartialEq, Eq)]
struct Item {
    line: usize,
    name: String,
    has_example: bool,
}

fn public_items(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    // The indentation of the `impl` or trait that the lines are in.
    let mut owner: Option<&str> = None;
    let mut docs = Docs::default();
    for (line, content) in (1..).zip(text.lines()) {
        let code = content.trim_start();
        let indent = &content[..content.len() - code.len()];
        if docs.take(code) {
            continue;
        }
        if owner.is_some_and(|owner| indent == owner && code.starts_with('}')) {
            owner = None;
        }
        if owner.is_none() {
            let item = item(code);
            if let Some((_, name)) = item.filter(|_| !docs.hidden) {
                let (name, has_example) = (name.to_owned(), docs.has_example);
                items.push(Item { line, name, has_example });
            }
            let opens_trait = item.is_some_and(|(kind, _)| kind == "trait");
            if opens_trait || code.starts_with("impl ") || code.starts_with("impl<") {
                owner = (!code.ends_with("{}")).then_some(indent);
            }
        }
        docs = Docs::default();
    }
    items
}

/// Returns the kind and name of the public item that begins on a line, if it needs an example.
fn item(code: &str) -> Option<(&str, &str)> {
    let words = code.strip_prefix("pub ")?;
    let mut words = words.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let mut kind = words.next()?;
    let mut name = words.next()?;
    // `const fn`, `unsafe fn`, `async fn` and so on.
    while ["const", "unsafe", "async"].contains(&kind)
        && ["fn", "trait", "unsafe", "async"].contains(&name)
    {
        kind = name;
        name = words.next()?;
    }
    ITEMS.contains(&kind).then_some((kind, name))
}

/// The documentation above an item, as far as it was read.
#[derive(Default)]
struct Docs {
    has_example: bool,
    hidden: bool,
    /// An attribute that continues in the next line.
    in_attribute: bool,
    /// How many fences were read: every other one opens a block of code.
    fences: usize,
}

impl Docs {
    /// Reads a line; `false` if it is neither documentation nor an attribute or a comment.
    fn take(&mut self, code: &str) -> bool {
        if let Some(text) = code.strip_prefix("///") {
            self.read(text.trim());
        } else if self.in_attribute || code.starts_with("#[") {
            self.in_attribute = !code.ends_with(']');
            self.hidden |= code.contains("doc(hidden)");
            let documentation =
                code.split_once("doc = \"").and_then(|(_, rest)| rest.split_once('"'));
            if let Some((text, _)) = documentation {
                self.read(text);
            }
        } else {
            return code.starts_with("//") && !code.starts_with("//!");
        }
        true
    }

    fn read(&mut self, text: &str) {
        let Some(language) = text.strip_prefix("```") else { return };
        let runs = language.split(',').all(|word| ["", "rust", "should_panic"].contains(&word));
        self.has_example |= self.fences.is_multiple_of(2) && runs;
        self.fences += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String, bool)> {
        public_items(text)
            .into_iter()
            .map(|item| (item.line, item.name, item.has_example))
            .collect()
    }

    #[test]
    fn an_item_with_a_running_example_is_told_from_one_without() {
        let text = r#"/// Good.
///
/// ```
/// assert!(true);
/// ```
#[derive(Debug)]
pub struct Good<T> {
    /// A field.
    pub field: T,
}

/// Not public.
pub(super) fn inside() {}

/// Bad.
#[must_use = "for a reason"]
pub const fn bad() {}
"#;
        let expected = [(7, "Good".to_owned(), true), (17, "bad".to_owned(), false)];
        assert_eq!(found(text), expected);
    }

    #[test]
    fn an_example_that_does_not_run_is_none() {
        for (fence, runs) in [
            ("```", true),
            ("```rust", true),
            ("```should_panic", true),
            ("```text", false),
            ("```ignore", false),
            ("```no_run", false),
            ("```rust,no_run", false),
        ] {
            let text = format!("/// A.\n/// {fence}\n/// code();\n/// ```\npub fn a() {{}}\n");
            assert_eq!(found(&text), [(5, "a".to_owned(), runs)], "{fence}");
        }
    }

    #[test]
    fn members_and_plain_enums_need_no_example() {
        let text = r"/// Bad.
pub trait Wheel<T> {
    /// Shown by the example of its trait.
    fn len(&self) -> usize;
}

impl<T> Wheel<T> for Vec<T> {
    fn len(&self) -> usize {
        0
    }
}

impl Marker for Timer {}

impl Timer {
    /// Shown by the example of its type.
    pub fn stop(&self) {}
}

/// Explained by its variants.
pub enum State {
    /// A variant.
    Running,
}

/// For tests.
#[doc(hidden)]
pub fn check() {}

/// Bad.
pub fn free() {}
";
        let names: Vec<_> = found(text).into_iter().map(|(line, name, _)| (line, name)).collect();
        assert_eq!(names, [(2, "Wheel".to_owned()), (31, "free".to_owned())]);
    }

    #[test]
    fn documentation_may_be_an_attribute() {
        let text = r#"/// A.
#[cfg_attr(feature = \"std\", doc = \"```\")]
#[cfg_attr(
    not(feature = \"std\"),
    doc = \"```ignore\"
)]
/// code();
/// ```
pub fn a() {}
"#;
        assert_eq!(found(text), [(9, "a".to_owned(), true)]);
    }
}
