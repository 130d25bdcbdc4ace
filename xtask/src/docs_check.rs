//! Checks of the Markdown files: the two READMEs have the same shape, relative links resolve, and
//! the capacity plan follows from the measured costs.
//!
//! The parser covers the part of Markdown that these files use: fenced code, `#` headings, pipe
//! tables, lists, inline links, link definitions, and `src`/`href` of HTML.

use std::fs;
use std::path::{Path, PathBuf};

use crate::capacity;
use crate::examples_check;
use crate::process::{Failure, root};

const README: &str = "README.md";
const TRANSLATION: &str = "README.zh-CN.md";

pub(crate) fn run() -> Result<(), Failure> {
    let root = root();
    let mut findings = Vec::new();
    findings.extend(disagreement(
        &outline(&read(&root.join(README))?),
        &outline(&read(&root.join(TRANSLATION))?),
    ));
    let files = markdown_files(root)?;
    for file in &files {
        findings.extend(broken_links(file)?);
    }
    findings.extend(capacity::check()?);
    let (items, without_example) = examples_check::run()?;
    findings.extend(without_example);
    if findings.is_empty() {
        println!(
            "{} documents are in order, and {items} public types and functions have examples",
            files.len()
        );
        Ok(())
    } else {
        Err(Failure::Findings(findings))
    }
}

/// A part of a document that a translation must have as well.
#[derive(Debug, PartialEq, Eq)]
enum Block {
    Heading {
        level: usize,
    },
    /// Includes the fences and the language.
    Code(String),
    TableRow {
        cells: usize,
    },
    ListItem,
}

fn outline(text: &str) -> Vec<(usize, Block)> {
    let mut blocks = Vec::new();
    for piece in pieces(text) {
        let block = match piece.kind {
            Kind::Code => Block::Code(piece.text),
            Kind::Text => {
                let line = piece.text.trim();
                if let Some((level, _)) = heading(line) {
                    Block::Heading { level }
                } else if line.starts_with('|') {
                    let cells = line.trim_matches('|').split('|').count();
                    Block::TableRow { cells }
                } else if is_list_item(line) {
                    Block::ListItem
                } else {
                    continue;
                }
            }
        };
        blocks.push((piece.line, block));
    }
    blocks
}

fn is_list_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* "].iter().any(|bullet| line.starts_with(bullet))
        || (number.len() < line.len() && number.starts_with(". "))
}

/// Returns the first place where the two outlines differ.
fn disagreement(original: &[(usize, Block)], translation: &[(usize, Block)]) -> Option<String> {
    let same =
        original.iter().zip(translation).take_while(|((_, one), (_, other))| one == other).count();
    match (original.get(same), translation.get(same)) {
        (None, None) => None,
        (Some((line, block)), None) => {
            Some(format!("{README}:{line}: {} that {TRANSLATION} lacks", describe(block)))
        }
        (None, Some((line, block))) => {
            Some(format!("{TRANSLATION}:{line}: {} that {README} lacks", describe(block)))
        }
        (Some((line, one)), Some((other_line, other))) => Some(format!(
            "{README}:{line} has {} where {TRANSLATION}:{other_line} has {}",
            describe(one),
            describe(other)
        )),
    }
}

fn describe(block: &Block) -> String {
    match block {
        Block::Heading { level } => format!("a heading of level {level}"),
        Block::Code(code) => format!("the code block\n{code}"),
        Block::TableRow { cells } => format!("a table row of {cells} cells"),
        Block::ListItem => "a list item".to_owned(),
    }
}

/// Returns the Markdown files in the root, those of the crates, and all below docs/.
fn markdown_files(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    let crates = root.join("crates");
    let unreadable = |error| Failure::Read(crates.display().to_string(), error);
    for member in fs::read_dir(&crates).map_err(unreadable)? {
        let path = member.map_err(unreadable)?.path();
        folders.extend(path.is_dir().then_some(path));
    }
    while let Some(folder) = folders.pop() {
        let unreadable = |error| Failure::Read(folder.display().to_string(), error);
        for member in fs::read_dir(&folder).map_err(unreadable)? {
            let path = member.map_err(unreadable)?.path();
            let is_below_docs = path.starts_with(root.join("docs"));
            if path.is_dir() {
                folders.extend(is_below_docs.then_some(path));
            } else if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn broken_links(file: &Path) -> Result<Vec<String>, Failure> {
    let text = read(file)?;
    let mut broken = Vec::new();
    for (line, link) in links(&text) {
        let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
        let target = match path {
            "" => file.to_owned(),
            _ => file.parent().unwrap_or(Path::new("")).join(path),
        };
        let is_markdown = target.extension().is_some_and(|extension| extension == "md");
        let resolves = target.exists()
            && (anchor.is_empty()
                || !is_markdown
                || anchors(&read(&target)?).contains(&anchor.to_owned()));
        if !resolves {
            let shown = file.strip_prefix(root()).unwrap_or(file);
            broken.push(format!("{}:{line}: `{link}` leads nowhere", shown.display()));
        }
    }
    Ok(broken)
}

/// Returns every relative link with its line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for piece in pieces(text).into_iter().filter(|piece| piece.kind == Kind::Text) {
        let line = without_code_spans(&piece.text);
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let definition = line
            .trim_start()
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "))
            .and_then(|(_, target)| target.split_whitespace().next());
        let html = ["src=\"", "href=\""]
            .into_iter()
            .flat_map(|attribute| line.split(attribute).skip(1))
            .filter_map(|rest| rest.split('"').next());
        links.extend(
            inline
                .chain(definition)
                .chain(html)
                .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
                .map(|target| (piece.line, target.to_owned())),
        );
    }
    links
}

/// Returns the names under which a file's headings can be linked to, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    pieces(text)
        .iter()
        .filter(|piece| piece.kind == Kind::Text)
        .filter_map(|piece| heading(&piece.text))
        .map(|(_, title)| {
            let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
            title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
        })
        .collect()
}

/// Returns a heading's level and title.
fn heading(line: &str) -> Option<(usize, &str)> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    let title = title.strip_prefix(' ')?;
    (1..=6).contains(&level).then(|| (level, title.trim()))
}

fn without_code_spans(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// One line of text.
    Text,
    /// One fenced block, from fence to fence.
    Code,
}

#[derive(PartialEq, Eq, Debug)]
struct Piece {
    line: usize,
    kind: Kind,
    text: String,
}

/// Cuts a document into lines of text and blocks of code.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut open_fence = None;
    for (line, content) in (1..).zip(text.split_inclusive('\n')) {
        let trimmed = content.trim();
        let fence = ["```", "~~~"].into_iter().find(|fence| trimmed.starts_with(fence));
        if let Some(open) = open_fence {
            let block = pieces.last_mut().expect("an open fence has begun a piece");
            block.text.push_str(content);
            if trimmed == open {
                open_fence = None;
            }
        } else {
            open_fence = fence;
            pieces.push(Piece {
                line,
                kind: if fence.is_some() { Kind::Code } else { Kind::Text },
                text: content.to_owned(),
            });
        }
    }
    pieces
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::Read(path.display().to_string(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: &str = "# One\n\ntext\n\n```rust\n# not a heading\nlet x = 1;\n```\n\n\
                           | a | b |\n|---|---|\n\n- item\n";

    fn compare(original: &str, translation: &str) -> Option<String> {
        disagreement(&outline(original), &outline(translation))
    }

    #[test]
    fn an_outline_holds_headings_code_tables_and_lists() {
        let blocks: Vec<Block> = outline(ENGLISH).into_iter().map(|(_, block)| block).collect();
        let code = "```rust\n# not a heading\nlet x = 1;\n```\n".to_owned();
        assert_eq!(
            blocks,
            [
                Block::Heading { level: 1 },
                Block::Code(code),
                Block::TableRow { cells: 2 },
                Block::TableRow { cells: 2 },
                Block::ListItem,
            ]
        );
    }

    #[test]
    fn a_translation_of_the_prose_alone_agrees() {
        let chinese = ENGLISH.replace("One", "一").replace("text", "文字").replace("item", "项");
        assert_eq!(compare(ENGLISH, &chinese), None);
    }

    #[test]
    fn a_change_inside_a_code_block_is_found() {
        let changed = ENGLISH.replace("x = 1", "x = 2");
        let finding = compare(ENGLISH, &changed).unwrap();
        assert!(finding.starts_with("README.md:5 has the code block"), "{finding}");
    }

    #[test]
    fn a_missing_or_additional_block_is_found() {
        let longer = format!("{ENGLISH}\n## Two\n");
        let lacking = compare(&longer, ENGLISH).unwrap();
        assert_eq!(lacking, "README.md:15: a heading of level 2 that README.zh-CN.md lacks");
        let additional = compare(ENGLISH, &longer).unwrap();
        assert_eq!(additional, "README.zh-CN.md:15: a heading of level 2 that README.md lacks");
        assert!(compare(ENGLISH, &ENGLISH.replace("# One", "## One")).is_some());
    }

    #[test]
    fn numbered_and_bulleted_lines_are_list_items() {
        for line in ["- a", "* a", "1. a", "12. a"] {
            assert!(is_list_item(line), "{line}");
        }
        for line in ["a", "-a", "1.5 times", ". a", "**bold** text"] {
            assert!(!is_list_item(line), "{line}");
        }
    }

    #[test]
    fn relative_links_are_found_and_others_left_alone() {
        let text = "[a](docs/a.md) ![b](b.svg \"title\") [c](https://example.org/c)\n\
                    `[d](d.md)` <img src=\"e.png\">\n[f]: f.md\n```text\n[g](g.md)\n```\n[h](#one)\n";
        let found = links(text);
        let expected = [(1, "docs/a.md"), (1, "b.svg"), (2, "e.png"), (3, "f.md"), (7, "#one")];
        assert_eq!(found, expected.map(|(line, link)| (line, link.to_owned())));
    }

    #[test]
    fn a_file_without_its_last_line_end_keeps_its_open_code_block() {
        let cut = pieces("text\n```sh\nls");
        assert_eq!(cut.len(), 2);
        assert_eq!((cut[1].kind, cut[1].text.as_str()), (Kind::Code, "```sh\nls"));
    }

    #[test]
    fn anchors_are_named_as_github_names_them() {
        let text = "# The `two` wheels, and when\n## 两种轮\n";
        assert_eq!(anchors(text), ["the-two-wheels-and-when", "两种轮"]);
    }

    #[test]
    fn links_that_lead_nowhere_are_named_with_their_line() {
        let folder = std::env::temp_dir().join(format!("xtask-docs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.md");
        fs::write(&file, "# Top\n[self](a.md#top) [gone](b.md)\n[no such heading](#bottom)\n")
            .unwrap();
        let broken = broken_links(&file).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let shown = file.display();
        assert_eq!(
            broken,
            [
                format!("{shown}:2: `b.md` leads nowhere"),
                format!("{shown}:3: `#bottom` leads nowhere"),
            ]
        );
    }
}
