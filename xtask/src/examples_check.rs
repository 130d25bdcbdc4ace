//! Checks that every public item of the library has an example that runs.
//!
//! This reads the source line by line instead of compiling it, which two other checks make good
//! enough: rustfmt gives every item a line of its own, and rustc's lint `unreachable_pub` sees to
//! it that what is `pub` is public. Items that a macro writes are met in the macro's text. Fields,
//! variants and `impl`s of traits are told of with their type.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Failure, root};

/// The crates that this is asked of.
const SOURCES: [&str; 3] =
    ["crates/tickwheel/src", "crates/tickwheel-queue/src", "crates/tickwheel-server/src"];

/// What may follow `pub` and needs an example.
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

/// The public items, and a finding for each that has no example.
pub(crate) fn run() -> Result<(usize, Vec<String>), Failure> {
    let (mut items, mut findings) = (0, Vec::new());
    for source in SOURCES {
        for path in rust_files(&root().join(source))? {
            let text = fs::read_to_string(&path)
                .map_err(|error| Failure::Read(path.display().to_string(), error))?;
            let shown = path.strip_prefix(root()).unwrap_or(&path).display();
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

/// A block whose members belong to it by name.
struct Owner<'a> {
    /// What the line that closes it begins with.
    indent: &'a str,
    name: String,
    is_public_trait: bool,
}

fn public_items(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut owner: Option<Owner> = None;
    let mut docs = Docs::default();
    for (line, content) in (1..).zip(text.lines()) {
        let code = content.trim_start();
        let indent = &content[..content.len() - code.len()];
        if docs.take(code) {
            continue;
        }
        if owner.as_ref().is_some_and(|owner| indent == owner.indent && code.starts_with('}')) {
            owner = None;
        }
        let in_public_trait = owner.as_ref().is_some_and(|owner| owner.is_public_trait);
        if let Some((kind, name)) = item(code, in_public_trait) {
            if !docs.hidden {
                let path = owner.iter().map(|owner| owner.name.as_str()).chain([name]);
                items.push(Item {
                    line,
                    name: path.collect::<Vec<_>>().join("::"),
                    has_example: docs.has_example,
                });
            }
            if kind == "trait" {
                owner = Some(Owner { indent, name: name.to_owned(), is_public_trait: true });
            }
        } else if let Some(name) = implemented(code) {
            owner = Some(Owner { indent, name, is_public_trait: false });
        }
        docs = Docs::default();
    }
    items
}

/// The kind and name of the public item that begins on a line.
fn item(code: &str, in_public_trait: bool) -> Option<(&str, &str)> {
    let words = code.strip_prefix("pub ").or(in_public_trait.then_some(code))?;
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

/// The type that an `impl` is for, without what it is generic over.
fn implemented(code: &str) -> Option<String> {
    let code = code.replace("->", "");
    let mut header = code.strip_prefix("impl")?;
    if header.starts_with('<') {
        let mut depth = 0;
        let end = header.find(|c| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        })?;
        header = &header[end + 1..];
    }
    let header = header.strip_prefix(' ')?;
    let name = header.split_once(" for ").map_or(header, |(_, name)| name);
    name.split(['<', ' ']).next().map(str::to_owned)
}

/// The documentation above an item, as far as it was read.
#[derive(Default)]
struct Docs {
    has_example: bool,
    hidden: bool,
    /// An attribute that goes on in the next line.
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

impl<T: Into<U>, U> Good<T> {
    /// Not public.
    pub(super) fn inside() {}

    /// Bad.
    #[must_use = "for a reason"]
    pub const fn bad(&self) {}
}
"#;
        let expected = [(7, "Good".to_owned(), true), (18, "Good::bad".to_owned(), false)];
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
    fn methods_of_a_public_trait_count_and_those_of_an_impl_do_not() {
        let text = r"/// Bad.
pub trait Wheel<T> {
    /// Bad.
    fn len(&self) -> usize;
    /// For tests.
    #[doc(hidden)]
    fn check(&self);
}

impl<T> Wheel<T> for Vec<T> {
    fn len(&self) -> usize {
        0
    }
}

/// Bad.
pub fn free() {}
";
        let names: Vec<_> = found(text).into_iter().map(|(line, name, _)| (line, name)).collect();
        let expected = [(2, "Wheel"), (4, "Wheel::len"), (17, "free")];
        assert_eq!(names, expected.map(|(line, name)| (line, name.to_owned())));
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

    #[test]
    fn the_type_of_an_impl_is_found_behind_its_generics() {
        for (code, name) in [
            ("impl Timer {", "Timer"),
            ("impl<'a> Keyed<'a> {", "Keyed"),
            ("impl<T, F: Fn(T) -> Vec<T>> Of<T, F> {", "Of"),
            ("impl<T> $Wheel<T> {", "$Wheel"),
            ("impl fmt::Debug for Timer {", "Timer"),
        ] {
            assert_eq!(implemented(code).as_deref(), Some(name), "{code}");
        }
        assert_eq!(implemented("implement();"), None);
    }
}
