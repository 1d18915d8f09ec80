//! No line of Rust is wider than a reader's window, and no line of anything ends in blanks.

use crate::{Finding, tree::Tree};

const COLUMNS_MAX: usize = 120;

/// Wide lines of Rust (rustfmt leaves long strings and comments alone), trailing blanks in every text.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.files() {
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if path.ends_with(".rs") && columns > COLUMNS_MAX {
                found.push(Finding::at("width", path, index + 1, format!("{columns} columns, {COLUMNS_MAX} at most")));
            }
            if line.ends_with([' ', '\t']) {
                found.push(Finding::at("trailing-blanks", path, index + 1, "ends in blanks"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_line_and_a_trailing_blank_are_found() {
        let wide = format!("// {}\n", "é".repeat(118));
        let found = check(&Tree::of(&[("a.rs", &wide), ("b.md", "fine\nnot fine \n"), ("c.md", &wide)]));
        let places: Vec<_> = found.iter().map(|f| (f.rule, f.path.as_str(), f.line)).collect();
        assert_eq!(places, [("width", "a.rs", 1), ("trailing-blanks", "b.md", 2)]);
    }
}
