//! Words that no finished tree holds: unfinished places, paths of one machine, and whatever speaks of how the work was
//! organised instead of what stands. The words are written in pieces here, so that this file does not offend.

use std::sync::LazyLock;

use regex::Regex;

use crate::{Finding, tree::Tree};

/// A pattern and what to do instead.
const BANNED: &[(&str, &str)] = &[
    (concat!(r"\btodo", r"!\s*[(\[{]"), "an unfinished place: finish it, or return an error that says what is missing"),
    (concat!(r"\bunimplemented", r"!\s*[(\[{]"), "an unfinished place: finish it, or return an error that says so"),
    (concat!(r"\bFIX", r"ME\b"), "an unfinished place: finish it"),
    (concat!(r"\bX", r"XX\b"), "an unfinished place: finish it"),
    (concat!(r"(?i)\bissue ", r"#?[0-9]"), "say what the reason is; a reader has no tracker at hand"),
    (concat!(r"(?i)\bissue ", r"#"), "say what the reason is; a reader has no tracker at hand"),
    (concat!(r"(?i)\b(work|coding|developer'?s'?) ", r"session\b"), "the repository speaks of Orbit alone"),
    (concat!(r"(?m)(^|[^\w.~})/-])/(work|root|farm)", r"/"), "a path of one machine"),
    (
        concat!(r"(index|static)\.crates", r"\.io|pypi", r"\.org|pythonhosted", r"\.org|registry\.npmjs", r"\.org"),
        "a registry's host: the tools know where to ask",
    ),
];

/// The lock files are written by tools and name what the tools need.
const EXEMPT: &[&str] = &["Cargo.lock"];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    // A pattern that does not compile fails every test of this file.
    BANNED.iter().filter_map(|(pattern, why)| Some((Regex::new(pattern).ok()?, *why))).collect()
});

/// Every banned word in every text.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| !EXEMPT.contains(path)) {
        for (index, line) in text.lines().enumerate() {
            let mut hits = PATTERNS.iter().filter_map(|(pattern, why)| Some((pattern.find(line)?, why)));
            if let Some((word, why)) = hits.next() {
                found.push(Finding::at("words", path, index + 1, format!("`{}`: {why}", word.as_str().trim())));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_banned_word_is_found() {
        assert_eq!(PATTERNS.len(), BANNED.len(), "a pattern does not compile");
        let offenders = [
            concat!("    todo", "!()"),
            concat!("    unimplemented", "!(\"later\")"),
            concat!("// FIX", "ME: later"),
            concat!("// X", "XX"),
            concat!("see issue ", "#12"),
            concat!("as Issue ", "3 asks"),
            concat!("in this work ", "session"),
            concat!("cd /wo", "rk/main"),
            concat!("\"/ro", "ot/x\""),
            concat!("https://pypi", ".org/simple"),
        ];
        for text in offenders {
            assert_eq!(check(&Tree::of(&[("a.md", text)])).len(), 1, "{text}");
        }
    }

    #[test]
    fn words_of_the_product_are_free() {
        let fine = "a worker session resumes; docs/work/a.md; an issue of trust; \"$dir/work/\"; xxxXXXX";
        assert_eq!(check(&Tree::of(&[("a.md", fine)])), []);
    }
}
