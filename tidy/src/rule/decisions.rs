//! A decision is cited by its number, so a number means one decision for ever.

use std::collections::BTreeMap;

use crate::{Finding, tree::Tree};

const FOLDER: &str = "docs/decisions/";
/// Pages about the decisions.
const ABOUT: &[&str] = &["README.md", "template.md"];

/// Decisions without a number of four digits, and numbers given twice.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    for (path, _) in tree.files() {
        let Some(name) = path.strip_prefix(FOLDER).filter(|name| !ABOUT.contains(name)) else { continue };
        let number = name.split_once('-').map_or("", |(number, _)| number);
        if number.len() != 4 || !number.bytes().all(|b| b.is_ascii_digit()) || !name.ends_with(".md") {
            found.push(Finding::about("decisions", path, "is not named like 0001-what-was-decided.md"));
        } else if let Some(first) = taken.insert(number, path) {
            found.push(Finding::about("decisions", path, format!("has the number of {first}")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_given_twice_and_a_name_without_one_are_found() {
        let found = check(&Tree::of(&[
            ("docs/decisions/0001-a.md", ""),
            ("docs/decisions/0001-b.md", ""),
            ("docs/decisions/0002-c.md", ""),
            ("docs/decisions/later.md", ""),
            ("docs/decisions/template.md", ""),
        ]));
        let places: Vec<_> = found.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(places, ["docs/decisions/0001-b.md", "docs/decisions/later.md"]);
    }
}
