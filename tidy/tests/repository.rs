//! The rules over this repository.

use std::path::Path;

use tidy::{
    exceptions,
    language_index::Index,
    tree::{self, Tree},
};

fn repository() -> Result<Tree, tree::Error> {
    Tree::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")))
}

#[test]
fn the_house_rules_hold() {
    let tree = repository().expect("the repository is readable");
    let list = exceptions::Exceptions::parse(tree.text(exceptions::PATH).expect("ci/tidy.toml is there"));
    let remaining = list.expect("ci/tidy.toml has its form").apply(tidy::findings(&tree));
    let lines: Vec<String> = remaining.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
}

/// The rules of the index itself are among the house rules; this prints how far it has come.
#[test]
fn language_index_covers() {
    let index = Index::read(&repository().expect("the repository is readable"));
    println!("language index: {} of {} sentences covered", index.covered(), index.len());
    assert!(index.len() > 100, "the index has only {} sentences", index.len());
}
