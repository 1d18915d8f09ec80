//! An example that no test or page mentions rots, and a script that nothing calls is dead.

use crate::{Finding, tree::Tree};

/// Folders whose files must be mentioned somewhere else.
const FOLDERS: &[&str] = &["examples/", "scripts/", "ci/"];

/// Files of `examples/`, `scripts/` and `ci/` that no other file names, neither by path nor by a folder around them.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let candidates = tree.files().filter(|(path, _)| FOLDERS.iter().any(|folder| path.starts_with(folder)));
    candidates
        .filter(|(path, _)| !is_named(tree, path))
        .map(|(path, _)| Finding::about("unused", path, "no other file mentions it"))
        .collect()
}

fn is_named(tree: &Tree, path: &str) -> bool {
    // The top folder alone (`examples`) names nothing in particular; those below it do.
    let names: Vec<&str> =
        path.match_indices('/').skip(1).map(|(end, _)| &path[..end]).chain(std::iter::once(path)).collect();
    tree.files().any(|(other, text)| {
        // Files of the same folder name each other only by being neighbours, which proves no use.
        let own_folder = other.rsplit_once('/').map(|(folder, _)| folder);
        names.iter().any(|name| other != path && own_folder != Some(name) && text.contains(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_mentions_is_found() {
        let found = check(&Tree::of(&[
            ("Makefile", "demo:\n\tscripts/demo\n"),
            ("scripts/demo", "orbit test examples/language/*.yaml"),
            ("scripts/dead", "scripts/dead"),
            ("examples/language/01.yaml", ""),
            ("examples/alone/x.yaml", "examples/alone/x.yaml"),
        ]));
        let places: Vec<_> = found.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(places, ["examples/alone/x.yaml", "scripts/dead"]);
    }
}
