//! `docs/language-index.md`: each sentence of the language reference, and the tests that show it.
//!
//! A number in a comment or a page (`L6.14`) is a promise that the reader finds that sentence; a citation in the index
//! is a promise that a test of that name runs. Both are checked here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::Regex;
use saphyr::{LoadableYamlNode, Yaml};

use crate::{Finding, rust_source, tree::Tree};

const PATH: &str = "docs/language-index.md";
const REFERENCE: &str = "docs/language.md";
const RULE: &str = "language-index";
/// A quote that is cut ends so.
const CUT: &str = " …";

static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\bL([0-9]{1,2})\.([0-9]{1,3})\b").ok());

/// One row.
#[derive(Debug)]
struct Sentence {
    line: usize,
    chapter: u32,
    number: u32,
    quote: String,
    shown_by: Vec<String>,
}

/// The whole index.
#[derive(Debug, Default)]
pub struct Index {
    sentences: Vec<Sentence>,
    malformed: Vec<usize>,
}

impl Index {
    /// Reads the rows; a row that is none is remembered for [`Index::findings`].
    #[must_use]
    pub fn read(tree: &Tree) -> Self {
        let mut index = Self::default();
        for (number, line) in tree.text(PATH).unwrap_or_default().lines().enumerate() {
            if line.starts_with("| L") {
                match row(number + 1, line) {
                    Some(sentence) => index.sentences.push(sentence),
                    None => index.malformed.push(number + 1),
                }
            }
        }
        index
    }

    /// How many sentences there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sentences.len()
    }

    /// Whether there is no sentence.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sentences.is_empty()
    }

    /// How many of them at least one test shows.
    #[must_use]
    pub fn covered(&self) -> usize {
        self.sentences.iter().filter(|sentence| !sentence.shown_by.is_empty()).count()
    }

    /// Rows out of form or order, quotes that are not in the reference, citations of nothing.
    #[must_use]
    pub fn findings(&self, tree: &Tree) -> Vec<Finding> {
        let mut found: Vec<Finding> =
            self.malformed.iter().map(|line| Finding::at(RULE, PATH, *line, "no row of three cells")).collect();
        found.extend(self.out_of_order());
        found.extend(self.misquoted(tree));
        found.extend(self.unshown(tree));
        found.extend(self.wrong_numbers(tree));
        found
    }

    fn out_of_order(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut last = (0, 0);
        for s in &self.sentences {
            let next_here = (last.0, last.1 + 1);
            let this = (s.chapter, s.number);
            if this != next_here && this != (last.0 + 1, 1) {
                found.push(Finding::at(RULE, PATH, s.line, format!("L{}.{} is out of order", s.chapter, s.number)));
            }
            last = this;
        }
        found
    }

    fn misquoted(&self, tree: &Tree) -> Vec<Finding> {
        let chapters = chapters(tree.text(REFERENCE).unwrap_or_default());
        let stands = |s: &Sentence| chapters.get(&s.chapter).is_some_and(|text| text.contains(&s.quote));
        let wrong = self.sentences.iter().filter(|s| !stands(s));
        wrong.map(|s| Finding::at(RULE, PATH, s.line, format!("L{} does not say `{}`", s.chapter, s.quote))).collect()
    }

    fn unshown(&self, tree: &Tree) -> Vec<Finding> {
        let tests = Tests { tree };
        let mut found = Vec::new();
        for sentence in &self.sentences {
            let wrong = sentence.shown_by.iter().filter_map(|citation| tests.fault(citation));
            found.extend(wrong.map(|fault| Finding::at(RULE, PATH, sentence.line, fault)));
        }
        found
    }

    fn wrong_numbers(&self, tree: &Tree) -> Vec<Finding> {
        let Some(pattern) = NUMBER.as_ref() else { return Vec::new() };
        let known: BTreeSet<(u32, u32)> = self.sentences.iter().map(|s| (s.chapter, s.number)).collect();
        let mut found = Vec::new();
        // The index is checked above, and the tests of this file speak of numbers that are not there.
        for (path, text) in tree.files().filter(|(path, _)| *path != PATH && !path.starts_with("tidy/src/")) {
            for (index, line) in text.lines().enumerate() {
                let numbers = pattern.captures_iter(line);
                let unknown = numbers.filter(|n| !known.contains(&(integer(&n[1]), integer(&n[2]))));
                found.extend(unknown.map(|n| Finding::at(RULE, path, index + 1, format!("there is no {}", &n[0]))));
            }
        }
        found
    }
}

/// A number too large for its type is none of ours; no chapter is 0.
fn integer(digits: &str) -> u32 {
    digits.parse().unwrap_or(0)
}

fn row(line: usize, text: &str) -> Option<Sentence> {
    let held = text.trim().strip_prefix('|')?.strip_suffix('|')?.replace(r"\|", "\u{0}");
    let cells: Vec<&str> = held.split('|').map(str::trim).collect();
    let [name, quote, shown] = cells.as_slice() else { return None };
    let (chapter, number) = name.strip_prefix('L')?.split_once('.')?;
    let citations = shown.split("<br>").map(|c| c.trim().trim_matches('`').replace('\u{0}', "|"));
    let shown_by = if *shown == "-" { Vec::new() } else { citations.collect() };
    let quote = quote.strip_suffix(CUT).unwrap_or(quote).replace('\u{0}', "|");
    Some(Sentence {
        line,
        chapter: chapter.parse().ok()?,
        number: number.parse().ok()?,
        quote: one_line(&quote),
        shown_by,
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text of each chapter, headed `## L6 …`, in one line.
fn chapters(reference: &str) -> BTreeMap<u32, String> {
    let parts = reference.split("\n## L").skip(1);
    parts
        .filter_map(|part| {
            let (number, _) = part.split_once(' ')?;
            Some((number.parse().ok()?, one_line(part)))
        })
        .collect()
}

struct Tests<'a> {
    tree: &'a Tree,
}

impl Tests<'_> {
    /// What is wrong with a citation, if anything.
    fn fault(&self, citation: &str) -> Option<String> {
        let Some((kind, place)) = citation.split_once(": ") else {
            return Some(format!("`{citation}` is neither `crate: file::test` nor `case: file#name`"));
        };
        let is_there = match kind {
            "case" => place.split_once('#').is_some_and(|(path, name)| self.has_case(path, name)),
            folder => place.split_once("::").is_some_and(|(path, name)| self.has_test(folder, path, name)),
        };
        (!is_there).then(|| format!("there is no test `{citation}`"))
    }

    fn has_test(&self, folder: &str, path: &str, name: &str) -> bool {
        let functions = self.tree.text(&format!("{folder}/{path}")).map(rust_source::functions);
        functions.is_some_and(|f| f.is_ok_and(|all| all.iter().any(|test| test.is_test && test.name == name)))
    }

    fn has_case(&self, path: &str, name: &str) -> bool {
        let Some(documents) = self.tree.text(path).and_then(|text| Yaml::load_from_str(text).ok()) else {
            return false;
        };
        let cases = documents.iter().filter_map(Yaml::as_vec).flatten();
        cases.filter_map(|case| case.as_mapping_get("name")).any(|found| found.as_str() == Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(rows: &str, extra: &[(&str, &str)]) -> Vec<String> {
        let reference = "# Language\n\n## L1 One\n\nA rule.\nAnother | rule\nin two lines.\n\n## L2 Two\n\nLast.\n";
        let mut files = vec![(REFERENCE, reference), (PATH, rows)];
        files.extend(extra);
        let tree = Tree::of(&files);
        Index::read(&tree).findings(&tree).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn good_rows_are_good_and_counted() {
        let rows = "| L1.1 | A rule. | `workflow: src/a.rs::t` |\n\
                    | L1.2 | Another \\| rule in … | `case: e/a.test.yaml#ends (well)` |\n\
                    | L2.1 | Last. | - |\n";
        let extra = [
            ("workflow/src/a.rs", "#[test] fn t() {} // shows L2.1"),
            ("e/a.test.yaml", "- {name: ends (well), expect: {}}\n"),
        ];
        assert_eq!(findings(rows, &extra), Vec::<String>::new());
        let index = Index::read(&Tree::of(&[(PATH, rows)]));
        assert_eq!((index.covered(), index.len()), (2, 3));
    }

    #[test]
    fn a_gap_a_wrong_quote_and_a_broken_row_are_found() {
        let found = findings("| L1.2 | Another | - |\n| L2.1 | First. | - |\n| L2.2 | Last. |\n", &[]);
        assert_eq!(found, ["no row of three cells", "L1.2 is out of order", "L2 does not say `First.`"]);
    }

    #[test]
    fn citations_of_nothing_are_found() {
        let rows = "| L1.1 | A rule. | `workflow: src/a.rs::helper`<br>`case: e.yaml#x`<br>`somewhere` |\n";
        let found = findings(rows, &[("workflow/src/a.rs", "fn helper() {} // L9.1")]);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[3].ends_with("there is no L9.1"));
    }
}
