//! How units, blocks, timers and idempotency keys are named (L8, L11).
//!
//! ```text
//! key     = [compensate:|deadline:|grace:] [handler.] segment{.segment}
//! segment = id [element]? #iteration? ~attempt?        order[2].charge   poll#3   ship~2.pack
//! handler = on:failure | on:exit~2 | on:event:<signal>@<seq>
//! ```
//!
//! A *path* is the key of an open block instance: the empty text for the root, `x` or `x~2` for a block step, a
//! handler's name. Everything here is text slicing: state is a fold that needs no definition, so the keys themselves
//! say what lies where.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The name of the root block and of the workflow as a whole in events.
pub const ROOT: &str = "";

/// Begins the key of a unit that undoes another.
pub const COMPENSATE: &str = "compensate:";

/// Begins the name of a step's deadline timer.
pub const DEADLINE: &str = "deadline:";

/// Begins the name of a closing's grace timer.
pub const GRACE: &str = "grace:";

/// The key of a unit, a block instance or a timer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(Arc<str>);

impl Key {
    /// The root block.
    #[must_use]
    pub fn root() -> Self {
        Self::from(ROOT)
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(workflow)" } else { &self.0 })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// The parts of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The step's id, or the handler's name.
    pub id: &'a str,
    /// Which element of a `for`.
    pub element: Option<u32>,
    /// Which iteration of a `repeat`.
    pub iteration: Option<u32>,
    /// Which attempt of a block.
    pub attempt: Option<u32>,
}

impl<'a> Segment<'a> {
    /// Reads one segment. Total: what is no number is no part.
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        if is_handler(text) {
            return Self { id: text, element: None, iteration: None, attempt: None };
        }
        let (rest, attempt) = split_number(text, '~');
        let (rest, iteration) = split_number(rest, '#');
        let (id, element) = match rest.strip_suffix(']').and_then(|open| open.rsplit_once('[')) {
            Some((id, number)) if let Ok(element) = number.parse() => (id, Some(element)),
            _ => (rest, None),
        };
        Self { id, element, iteration, attempt }
    }
}

fn split_number(text: &str, mark: char) -> (&str, Option<u32>) {
    match text.rsplit_once(mark) {
        Some((rest, number)) if let Ok(number) = number.parse() => (rest, Some(number)),
        _ => (text, None),
    }
}

/// Whether `key` names a handler or something inside one.
#[must_use]
pub fn is_handler(key: &str) -> bool {
    key.starts_with("on:")
}

/// Whether `path` names a handler itself: its one segment.
#[must_use]
pub fn is_handler_path(path: &str) -> bool {
    is_handler(path) && !path.contains('.')
}

/// Whether `key` names a unit that undoes another.
#[must_use]
pub fn is_undo(key: &str) -> bool {
    key.starts_with(COMPENSATE)
}

/// The segments of `key`, outermost first; the root has none.
pub fn segments(key: &str) -> impl DoubleEndedIterator<Item = &str> {
    key.split('.').filter(|segment| !segment.is_empty())
}

/// The last segment, read.
#[must_use]
pub fn last_segment(key: &str) -> Segment<'_> {
    Segment::parse(key.rsplit_once('.').map_or(key, |(_, last)| last))
}

/// The path of the block that `key` stands in; the root for top-level keys.
#[must_use]
pub fn parent(key: &str) -> &str {
    key.rsplit_once('.').map_or(ROOT, |(parent, _)| parent)
}

/// The key of step `id` in the block at `path`.
#[must_use]
pub fn join(path: &str, id: &str) -> Key {
    if path.is_empty() { Key::from(id) } else { Key::from(format!("{path}.{id}")) }
}

/// Where the last segment of `key` begins.
fn last_start(key: &str) -> usize {
    key.rfind('.').map_or(0, |dot| dot + 1)
}

/// `x[2]#3~1` → `x`: the step as a whole.
#[must_use]
pub fn step_of(key: &str) -> &str {
    let start = last_start(key);
    let end = key[start..].find(['[', '#', '~']).map_or(key.len(), |at| start + at);
    if is_handler(&key[start..]) { key } else { &key[..end] }
}

/// `x[2]#3~1` → `x[2]`, `x#3` → `x`: the element, or the step where there is no `for`.
#[must_use]
pub fn element_of(key: &str) -> &str {
    let start = last_start(key);
    let end = key[start..].find(['#', '~']).map_or(key.len(), |at| start + at);
    if is_handler(&key[start..]) { key } else { &key[..end] }
}

/// The key of element `index` of the `for` at `step`.
#[must_use]
pub fn element(step: &str, index: u32) -> Key {
    Key::from(format!("{step}[{index}]"))
}

/// `x~2` → `x`: the unit whose open block instance a path is. A handler's path is its own.
#[must_use]
pub fn unit_of(path: &str) -> &str {
    let start = last_start(path);
    match path[start..].rfind('~') {
        Some(at) if !is_handler(&path[start..]) => &path[..start + at],
        _ => path,
    }
}

/// Whether `key` lies at or below `top`. Handlers do not lie below the root, undo units below nothing.
#[must_use]
pub fn is_under(key: &str, top: &str) -> bool {
    if is_undo(key) {
        return false;
    }
    if top.is_empty() {
        return !is_handler(key);
    }
    let Some(rest) = key.strip_prefix(top) else { return false };
    match rest.chars().next() {
        None | Some('.') => true,
        // `on:exit~2` is another handler than `on:exit`, not an attempt of it.
        Some('[' | '#' | '~') => !is_handler_path(top),
        Some(_) => false,
    }
}

/// What `key` is a part of, from itself outwards to the root: unit, iteration's repeat, element, step, block instance.
///
/// `x[1]#2.y` → `x[1]#2.y`, `x[1]#2`, `x[1]`, `x`, ``. A handler's chain ends with the handler.
pub fn chain(key: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(key), |key| enclosing(key))
}

/// The next thing outwards; `None` at the root and at a handler.
#[must_use]
pub fn enclosing(key: &str) -> Option<&str> {
    if key.is_empty() || is_handler_path(key) {
        return None;
    }
    let start = last_start(key);
    match key[start..].rfind(['[', '#', '~']) {
        Some(at) => Some(&key[..start + at]),
        None => Some(parent(key)),
    }
}

/// The id of the child that unit `key` starts (L8).
#[must_use]
pub fn child_id(parent: &str, key: &str, run: u32, attempt: u32) -> String {
    let key: String = key.chars().filter(|c| *c != ']').map(|c| if "[#~@".contains(c) { '.' } else { c }).collect();
    let run = if run > 1 { format!(":r{run}") } else { String::new() };
    let attempt = if attempt > 1 { format!(":a{attempt}") } else { String::new() };
    format!("{parent}.{key}{run}{attempt}")
}

/// The idempotency key of a unit: equal for every attempt, redelivery and redrive of it, different when the
/// execution's id is used again (L11).
#[must_use]
pub fn idempotency_key(execution_id: &str, created_at_ms: u64, run: u32, key: &str) -> String {
    let digest = digest([execution_id, &created_at_ms.to_string(), &run.to_string(), key]);
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The variation of a retry's delay, in [-1, 1): chance without randomness (L3).
#[must_use]
pub fn jitter(execution_id: &str, run: u32, key: &str, attempt: u32) -> f64 {
    let digest = digest([execution_id, &run.to_string(), key, &attempt.to_string()]);
    let first = digest.iter().take(8).fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    // 53 bits fit a double exactly.
    2.0 * ((first >> 11) as f64) / ((1_u64 << 53) as f64) - 1.0
}

fn digest(parts: [&str; 4]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            hash.update([0]);
        }
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_up_to_four_parts() {
        let all = Segment { id: "x", element: Some(2), iteration: Some(3), attempt: Some(1) };
        assert_eq!(Segment::parse("x[2]#3~1"), all);
        let none = Segment { id: "x", element: None, iteration: None, attempt: None };
        assert_eq!(Segment::parse("x"), none);
        assert_eq!(Segment::parse("on:exit~2").attempt, None, "a handler's number is no attempt");
    }

    #[test]
    fn parts_of_a_key() {
        assert_eq!(step_of("a.x[2]#3~1"), "a.x");
        assert_eq!(element_of("a.x[2]#3~1"), "a.x[2]");
        assert_eq!(element_of("x#3"), "x");
        assert_eq!(unit_of("a.x[2]~1"), "a.x[2]");
        assert_eq!(unit_of("on:exit~2"), "on:exit~2");
        assert_eq!(parent("a~1.x[2]"), "a~1");
        assert_eq!(parent("a"), ROOT);
        assert_eq!(&*join(ROOT, "a"), "a");
        assert_eq!(&*join("a~1", "b"), "a~1.b");
    }

    #[test]
    fn below_means_whole_segments() {
        assert!(is_under("x[1].y", "x"));
        assert!(is_under("x", ROOT));
        assert!(!is_under("xy", "x"));
        assert!(is_under("x~2.y", "x"));
        assert!(!is_under("compensate:x", "x"), "undo units lie below nothing");
        assert!(!is_under("on:exit.y", ROOT), "handlers do not lie below the root");
        assert!(is_under("on:exit.y", "on:exit"));
        assert!(!is_under("on:exit~2.y", "on:exit"), "another end's handler");
        assert!(is_under("on:exit.y~1", "on:exit.y"));
    }

    #[test]
    fn the_chain_goes_outwards() {
        let chain: Vec<_> = chain("x[1]#2~3.y").collect();
        assert_eq!(chain, ["x[1]#2~3.y", "x[1]#2~3", "x[1]#2", "x[1]", "x", ""]);
        let chain: Vec<_> = super::chain("on:exit~2.y").collect();
        assert_eq!(chain, ["on:exit~2.y", "on:exit~2"]);
    }

    #[test]
    fn children_are_named_after_their_unit() {
        assert_eq!(child_id("o", "ship[3]", 1, 1), "o.ship.3");
        assert_eq!(child_id("o", "on:event:bell@7.a~1", 2, 3), "o.on:event:bell.7.a.1:r2:a3");
    }

    #[test]
    fn jitter_is_in_its_interval_and_differs_by_attempt() {
        let all: Vec<_> = (1..200).map(|attempt| jitter("x", 1, "a", attempt)).collect();
        assert!(all.iter().all(|u| (-1.0..1.0).contains(u)));
        assert!(all.iter().any(|u| *u < -0.5) && all.iter().any(|u| *u > 0.5));
    }
}
