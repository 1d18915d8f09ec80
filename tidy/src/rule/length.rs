//! A function fits on a screen and a file has one subject.

use crate::{Finding, rust_source, tree::Tree};

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 500;

/// Functions that are too long, from `fn` to the closing brace; also a file that is no Rust at all.
#[must_use]
pub fn functions(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.ending(".rs") {
        match rust_source::functions(text) {
            Ok(functions) => found.extend(functions.iter().filter(|f| f.lines > FUNCTION_LINES_MAX).map(|f| {
                let message = format!("function {} has {} lines, {FUNCTION_LINES_MAX} at most", f.name, f.lines);
                Finding::at("function-length", path, f.line, message)
            })),
            Err(error) => found.push(Finding::about("rust", path, format!("does not parse: {error}"))),
        }
    }
    found
}

/// Files that are too long.
#[must_use]
pub fn files(tree: &Tree) -> Vec<Finding> {
    tree.ending(".rs")
        .filter_map(|(path, text)| {
            let lines = text.lines().count();
            let message = format!("{lines} lines, {FILE_LINES_MAX} at most");
            (lines > FILE_LINES_MAX).then(|| Finding::about("file-length", path, message))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function_of(lines: usize) -> String {
        format!("impl A {{\n    fn long() {{\n{}    }}\n}}\n", "        work();\n".repeat(lines - 2))
    }

    #[test]
    fn the_seventy_first_line_of_a_function_is_found() {
        let (good, bad) = (function_of(70), function_of(71));
        let found = functions(&Tree::of(&[("good.rs", &good), ("bad.rs", &bad)]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].path.as_str(), found[0].line), ("bad.rs", 2));
    }

    #[test]
    fn the_five_hundred_and_first_line_of_a_file_is_found() {
        let (good, bad) = ("//\n".repeat(500), "//\n".repeat(501));
        let found = files(&Tree::of(&[("good.rs", &good), ("bad.rs", &bad), ("long.md", &bad)]));
        assert_eq!(found.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(), ["bad.rs"]);
    }
}
