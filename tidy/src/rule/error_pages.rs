//! A code that somebody meets has a page that says what to do; a page about a code that is never given misleads. The
//! codes that only the program itself prints share one page.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;

use crate::{Finding, tree::Tree};

const RULE: &str = "error-pages";
const INDEX: &str = "docs/errors/README.md";

/// Where codes are listed in the code: the file, what stands before the list and what behind it.
const LISTS: &[(&str, &str, &str)] = &[
    ("actors/src/error.rs", "pub fn as_str(", "impl fmt::Display"),
    ("workflow/src/event/error.rs", "pub const CODES", "];"),
];

/// Where the program's own errors are, and the page about their codes.
const PROGRAM: &str = "node/src/";
const PROGRAM_PAGE: &str = "docs/errors/command-line.md";

/// Codes of the specification that no list has yet; their pages may stand already. What a list has does not need to
/// stand here any more.
const ANNOUNCED: &[&str] = &["SCHEDULE_NOT_FOUND"];

static CODE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#""([A-Z][A-Z0-9_]*)""#).ok());

/// `#[error("FILE_NOT_FOUND: there is …")]`, the text perhaps on the next line.
static PRINTED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"#\[error\(\s*"([A-Z][A-Z_]+): "#).ok());

/// Codes without a page, pages without a code, pages that the index does not name, lists that are not where they were.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let (codes, mut found) = codes(tree);
    for (code, list) in &codes {
        if tree.text(&page(code)).is_none() {
            found.push(Finding::about(RULE, list, format!("{code} has no page {}", page(code))));
        }
    }
    let index = tree.text(INDEX).unwrap_or_default();
    for (path, text) in tree.ending(".md") {
        let Some(code) = code_of(path) else { continue };
        let is_known = codes.iter().any(|(known, _)| known == code) || ANNOUNCED.contains(&code);
        if !is_known {
            found.push(Finding::about(RULE, path, "no list of codes has this one"));
        }
        if !text.starts_with(&format!("# {code}\n")) {
            found.push(Finding::at(RULE, path, 1, format!("its heading is not {code}")));
        }
        if !index.contains(&format!("[{code}]({code}.md)")) && !index.contains(&format!("[`{code}`]({code}.md)")) {
            found.push(Finding::about(RULE, path, format!("{INDEX} does not list it")));
        }
    }
    found.extend(unexplained(tree));
    found
}

/// Codes that the program prints and its page does not name.
fn unexplained(tree: &Tree) -> Vec<Finding> {
    let page = tree.text(PROGRAM_PAGE).unwrap_or_default();
    let mut found = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.starts_with(PROGRAM)) {
        let hits = PRINTED.iter().flat_map(|pattern| pattern.captures_iter(text));
        let unnamed =
            hits.filter(|hit| !page.contains(&format!("`{}`", &hit[1])) && tree.text(&self::page(&hit[1])).is_none());
        found.extend(
            unnamed.map(|hit| Finding::about(RULE, path, format!("{PROGRAM_PAGE} says nothing of {}", &hit[1]))),
        );
    }
    found
}

fn page(code: &str) -> String {
    format!("docs/errors/{code}.md")
}

/// The code that a page is about; a page whose name is no code is about something else.
fn code_of(path: &str) -> Option<&str> {
    let name = path.strip_prefix("docs/errors/")?.strip_suffix(".md")?;
    let is_code = name != "README" && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    is_code.then_some(name)
}

/// Every code with the file that lists it, and what is wrong with the lists themselves.
fn codes(tree: &Tree) -> (BTreeSet<(String, &'static str)>, Vec<Finding>) {
    let (mut codes, mut found) = (BTreeSet::new(), Vec::new());
    for (path, begin, end) in LISTS {
        let text = tree.text(path).unwrap_or_default();
        let list = text.split_once(begin).and_then(|(_, rest)| rest.split_once(end)).map_or("", |(list, _)| list);
        let hits = CODE.iter().flat_map(|pattern| pattern.captures_iter(list));
        let before = codes.len();
        codes.extend(hits.map(|hit| (hit[1].to_owned(), *path)));
        if codes.len() == before {
            found.push(Finding::about(RULE, path, format!("there is no code between `{begin}` and `{end}`")));
        }
    }
    (codes, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTORS: &str =
        "pub fn as_str(self) -> &str {\n  match self { Self::Gone => \"GONE\" }\n}\nimpl fmt::Display {\"NOT\"}";
    const WORKFLOW: &str = "pub const CODES: &[&str] = &[\n    \"TIMEOUT\",\n];\nconst OTHER: &str = \"OTHER\";";

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).into_iter().map(|finding| format!("{}: {}", finding.path, finding.message)).collect()
    }

    #[test]
    fn every_code_with_its_page_is_fine() {
        let found = findings(&[
            ("actors/src/error.rs", ACTORS),
            ("workflow/src/event/error.rs", WORKFLOW),
            (
                "docs/errors/README.md",
                "[`GONE`](GONE.md) [TIMEOUT](TIMEOUT.md) [`SCHEDULE_NOT_FOUND`](SCHEDULE_NOT_FOUND.md)",
            ),
            ("docs/errors/GONE.md", "# GONE\n"),
            ("docs/errors/TIMEOUT.md", "# TIMEOUT\n"),
            ("docs/errors/SCHEDULE_NOT_FOUND.md", "# SCHEDULE_NOT_FOUND\n"),
            ("docs/errors/command-line.md", "# Of the command line\n`NO_FILE`"),
            ("node/src/cli.rs", "#[error(\n    \"NO_FILE: there is no {0}\"\n)] #[error(\"GONE: it is gone\")]"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_code_without_page_and_a_page_without_code_are_found() {
        let found = findings(&[
            ("actors/src/error.rs", ACTORS),
            ("workflow/src/event/error.rs", "moved elsewhere"),
            ("docs/errors/README.md", ""),
            ("docs/errors/OTHER.md", "# Another\n"),
            ("node/src/cli.rs", "#[error(\"NO_FILE: there is no {0}\")]"),
        ]);
        let expected = [
            "workflow/src/event/error.rs: there is no code between `pub const CODES` and `];`",
            "actors/src/error.rs: GONE has no page docs/errors/GONE.md",
            "docs/errors/OTHER.md: no list of codes has this one",
            "docs/errors/OTHER.md: its heading is not OTHER",
            "docs/errors/OTHER.md: docs/errors/README.md does not list it",
            "node/src/cli.rs: docs/errors/command-line.md says nothing of NO_FILE",
        ];
        assert_eq!(found, expected);
    }
}
