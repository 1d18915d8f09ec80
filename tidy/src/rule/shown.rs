//! What a page shows of an example is what the example says: a reader copies from the page, a test runs the file.
//!
//! A comment before a block names its file: `<!-- examples/guide/order.yaml -->` for the whole of it,
//! `<!-- examples/guide/order.yaml, part -->` for lines that stand in it one after the other.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;

use crate::{Finding, tree::Tree};

const RULE: &str = "shown";

/// Pages whose every YAML block comes from a file.
const PAGES: &[&str] = &["docs/guide/", "docs/recipes/"];

/// Examples that are there to be read: each is on a page and has cases.
const EXAMPLES: &[&str] = &["examples/guide/", "examples/recipes/"];

static MARK: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^<!-- (examples/[^ ,]+)(, part)? -->$").ok());

/// Blocks that differ from the file that they name, blocks of the guide that name none, examples that no page shows
/// or no case tries.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut shown = BTreeSet::new();
    for (page, text) in tree.ending(".md") {
        for block in blocks(text) {
            found.extend(fault(tree, page, &block).map(|fault| Finding::at(RULE, page, block.line, fault)));
            shown.extend(block.mark.map(|mark| mark.file));
        }
    }
    for (path, _) in tree.files().filter(|(path, _)| is_document(path)) {
        if !shown.contains(path) {
            found.push(Finding::about(RULE, path, "no page shows this example"));
        }
        if tree.text(&path.replace(".yaml", ".test.yaml")).is_none() {
            found.push(Finding::about(RULE, path, "it has no cases beside it"));
        }
    }
    found
}

fn is_document(path: &str) -> bool {
    EXAMPLES.iter().any(|folder| path.starts_with(folder)) && path.ends_with(".yaml") && !path.ends_with(".test.yaml")
}

/// The file that a comment names.
struct Mark<'a> {
    file: &'a str,
    is_part: bool,
}

/// A fenced block, or a mark that none follows.
struct Block<'a> {
    /// Of the mark, or else of the fence.
    line: usize,
    mark: Option<Mark<'a>>,
    /// What stands behind the opening fence; `None` below a mark that no block follows.
    language: Option<&'a str>,
    lines: Vec<&'a str>,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let mark = mark(line);
        let fence = if mark.is_some() { lines.next().map(|(_, next)| next) } else { Some(line) };
        let language = fence.and_then(|fence| fence.strip_prefix("```"));
        if language.is_none() && mark.is_none() {
            continue;
        }
        let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
        let lines = if language.is_some() { inside.collect() } else { Vec::new() };
        found.push(Block { line: index + 1, mark, language, lines });
    }
    found
}

fn mark(line: &str) -> Option<Mark<'_>> {
    let captures = MARK.as_ref()?.captures(line)?;
    Some(Mark { file: captures.get(1)?.as_str(), is_part: captures.get(2).is_some() })
}

fn fault(tree: &Tree, page: &str, block: &Block<'_>) -> Option<String> {
    let Some(mark) = &block.mark else {
        let is_nameless = block.language == Some("yaml") && PAGES.iter().any(|folder| page.starts_with(folder));
        return is_nameless.then(|| "no comment before the block names the file that it is from".to_owned());
    };
    let Some(text) = tree.text(mark.file) else { return Some(format!("there is no {}", mark.file)) };
    if block.lines.is_empty() {
        return Some(format!("no block with lines of {} follows", mark.file));
    }
    let file: Vec<&str> = text.lines().collect();
    let count = block.lines.len();
    if mark.is_part {
        let is_there = file.windows(count).any(|part| part == block.lines);
        return (!is_there).then(|| format!("{} does not hold these {count} lines together", mark.file));
    }
    let differs = (0..count.max(file.len())).find(|line| file.get(*line) != block.lines.get(*line))?;
    Some(format!("line {} of {} is another one", differs + 1, mark.file))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings of one page about `examples/guide/a.yaml`, which has the lines a, b and c.
    fn findings(page: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("docs/guide/a.md", page),
            ("examples/guide/a.yaml", "a\nb\nc\n"),
            ("examples/guide/a.test.yaml", "[]\n"),
        ]);
        check(&tree).into_iter().map(|finding| format!("{}: {}", finding.line, finding.message)).collect()
    }

    #[test]
    fn the_whole_and_a_part_are_fine() {
        let page = "<!-- examples/guide/a.yaml -->\n```yaml\na\nb\nc\n```\n\ntext\n\n```sh\nls\n```\n\n\
                    <!-- examples/guide/a.yaml, part -->\n```yaml\nb\nc\n```\n";
        assert_eq!(findings(page), Vec::<String>::new());
    }

    #[test]
    fn what_differs_is_found() {
        let whole = |lines: &str| findings(&format!("<!-- examples/guide/a.yaml -->\n```yaml\n{lines}```\n"));
        assert_eq!(whole("a\nB\nc\n"), ["1: line 2 of examples/guide/a.yaml is another one"]);
        assert_eq!(whole("a\nb\n"), ["1: line 3 of examples/guide/a.yaml is another one"]);
        assert_eq!(whole("a\nb\nc\nd\n"), ["1: line 4 of examples/guide/a.yaml is another one"]);
        let part = findings("x\n<!-- examples/guide/a.yaml, part -->\n```yaml\na\nc\n```\n");
        assert_eq!(part, ["2: examples/guide/a.yaml does not hold these 2 lines together"]);
    }

    #[test]
    fn a_mark_without_block_or_file_and_a_block_without_mark_are_found() {
        let page =
            "<!-- examples/guide/a.yaml -->\n\n```yaml\na\n```\n<!-- examples/guide/b.yaml -->\n```yaml\na\n```\n";
        let expected = [
            "1: no block with lines of examples/guide/a.yaml follows",
            "3: no comment before the block names the file that it is from",
            "6: there is no examples/guide/b.yaml",
        ];
        assert_eq!(findings(page), expected);
    }

    #[test]
    fn an_example_without_page_or_cases_is_found() {
        let tree = Tree::of(&[("examples/recipes/a.yaml", "a\n"), ("examples/recipes/b.test.yaml", "b\n")]);
        let found: Vec<String> = check(&tree).into_iter().map(|finding| finding.message).collect();
        assert_eq!(found, ["no page shows this example", "it has no cases beside it"]);
    }
}
