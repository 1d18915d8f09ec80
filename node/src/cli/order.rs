//! The order in which documents can be registered.

use workflow::definition::{Definition, Kind};

/// Things that hold definitions, each after all those whose workflows it starts as children; otherwise in their order.
pub(crate) fn children_first<T>(things: Vec<T>, definitions: impl Fn(&T) -> Vec<&Definition>) -> Vec<T> {
    let names = |thing: &T| definitions(thing).iter().map(|held| held.name.clone()).collect::<Vec<_>>();
    let needs = |thing: &T| definitions(thing).iter().flat_map(|held| children(held)).collect::<Vec<_>>();
    let mut left: Vec<_> = things.into_iter().map(|thing| (names(&thing), needs(&thing), thing)).collect();
    let mut placed = Vec::new();
    while !left.is_empty() {
        let waits = |(own, needed, _): &(Vec<String>, Vec<String>, T)| {
            let theirs = left.iter().flat_map(|(names, ..)| names).filter(|name| !own.contains(name));
            theirs.into_iter().any(|name| needed.contains(name))
        };
        // Documents that start each other have no order: the first goes first.
        let next = left.iter().position(|thing| !waits(thing)).unwrap_or(0);
        placed.push(left.remove(next).2);
    }
    placed
}

fn children(definition: &Definition) -> Vec<String> {
    let mut names: Vec<_> = definition.workflows.keys().cloned().collect();
    for step in &definition.steps {
        if let Kind::Workflow { name, .. } = &step.kind
            && let Some(name) = name.constant().and_then(|name| name.as_str())
        {
            names.push(name.to_owned());
        }
    }
    names
}
