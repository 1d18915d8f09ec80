//! A page that no other page leads to is not read, and a link that leads nowhere is worse.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::LazyLock,
};

use regex::Regex;

use crate::{Finding, tree::Tree};

/// Where readers come in.
const DOORS: &[&str] = &["README.md"];

static LINK: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\]\(([^)\s]+)\)").ok());

/// Pages under `docs/` that cannot be reached from the front page, and relative links of any page to nothing.
///
/// A link to a folder leads to its `README.md` and to each page in it: the decisions are listed by their names.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (line, target) in links(path, text) {
            if tree.text(&target).is_none() && !tree.has_folder(&target) {
                found.push(Finding::at("links", path, line, format!("the link leads to {target}, which is not there")));
            }
        }
    }
    let reached = reached(tree);
    let lost = tree.ending(".md").filter(|(path, _)| path.starts_with("docs/") && !reached.contains(*path));
    found.extend(lost.map(|(path, _)| Finding::about("links", path, "no page leads here from README.md")));
    found
}

fn reached(tree: &Tree) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut next: VecDeque<String> = DOORS.iter().map(|door| (*door).to_owned()).collect();
    while let Some(path) = next.pop_front() {
        if tree.has_folder(&path) {
            let prefix = format!("{path}/");
            let directly_in = |page: &str| page.strip_prefix(&prefix).is_some_and(|rest| !rest.contains('/'));
            next.extend(tree.ending(".md").filter(|(page, _)| directly_in(page)).map(|(page, _)| page.to_owned()));
        }
        if let (Some(text), true) = (tree.text(&path), seen.insert(path.clone())) {
            next.extend(links(&path, text).into_iter().map(|(_, target)| target));
        }
    }
    seen
}

/// The relative links of a page, each with its line and its target from the root.
fn links(page: &str, text: &str) -> Vec<(usize, String)> {
    let Some(pattern) = LINK.as_ref() else { return Vec::new() };
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for hit in pattern.captures_iter(line) {
            let target = hit[1].split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push((index + 1, resolved(folder, target)));
            }
        }
    }
    found
}

fn resolved(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_page_and_a_dead_link_are_found() {
        let tree = Tree::of(&[
            ("README.md", "[docs](docs/README.md)"),
            ("docs/README.md", "[a](guide/a.md#part) [decisions](decisions/) [web](https://example.com/x.md)"),
            ("docs/guide/a.md", "[up](../README.md)\n[dead](gone.md)"),
            ("docs/guide/lost.md", ""),
            ("docs/decisions/0001-x.md", ""),
        ]);
        let found = check(&tree);
        let places: Vec<_> = found.iter().map(|f| (f.path.as_str(), f.line)).collect();
        assert_eq!(places, [("docs/guide/a.md", 2), ("docs/guide/lost.md", 0)]);
    }
}
