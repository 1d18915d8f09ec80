//! The tree that every source is read into, YAML or JSON: JSON's values, each with its place.

/// Where something stands in the source; line and column count from 1, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

impl Place {
    /// The place `characters` further on the same line.
    #[must_use]
    pub fn moved(self, characters: u32) -> Place {
        Place { line: self.line, column: self.column.saturating_add(characters) }
    }
}

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Marked {
    pub(super) tree: Tree,
    pub(super) place: Place,
    /// Where the first character of a text stands, when the source shows the text as it is on one line: then a place
    /// inside the text is a place in the source.
    pub(super) inside: Option<Place>,
}

/// JSON's values. Numbers are exact: integers up to 2^53 and doubles that are not whole; the readers refuse others.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Null,
    Boolean(bool),
    Integer(i64),
    /// The double, and the number as written (`1.10`).
    Number(f64, Box<str>),
    Text(String),
    List(Vec<Marked>),
    Map(Vec<Entry>),
}

/// One member of an object, in the order of the source; keys are unique.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_place: Place,
    pub(super) value: Marked,
}

/// The largest integer up to which all doubles that are whole are exact: what canonical JSON can carry.
pub(super) const INTEGER_MAX: i64 = 1 << 53;

/// Levels of lists and objects: everything that walks a tree may recurse.
pub(super) const NESTING_MAX: usize = 100;

impl Marked {
    pub(super) fn new(tree: Tree, place: Place) -> Marked {
        Marked { tree, place, inside: None }
    }

    /// The member called `key`, when this is an object that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Marked> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The members of an object; of anything else none.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.tree {
            Tree::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; of anything else none.
    pub(super) fn items(&self) -> &[Marked] {
        match &self.tree {
            Tree::List(items) => items,
            _ => &[],
        }
    }

    /// The text, when it is one.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.tree {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What it is, for messages.
    pub(super) fn what(&self) -> &'static str {
        match self.tree {
            Tree::Null => "null",
            Tree::Boolean(_) => "a boolean",
            Tree::Integer(_) | Tree::Number(..) => "a number",
            Tree::Text(_) => "a text",
            Tree::List(_) => "a list",
            Tree::Map(_) => "an object",
        }
    }

    /// The value without places.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.tree {
            Tree::Null => serde_json::Value::Null,
            Tree::Boolean(flag) => (*flag).into(),
            Tree::Integer(number) => (*number).into(),
            Tree::Number(number, _) => (*number).into(),
            Tree::Text(text) => text.as_str().into(),
            Tree::List(items) => items.iter().map(Marked::to_json).collect(),
            Tree::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.value.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }

    /// The place of the name under which `pointer` finds something; the nearest place around it when there is none.
    pub(super) fn key_place_of(&self, pointer: &str) -> Place {
        let Some((around, name)) = pointer.rsplit_once('/') else { return self.place };
        let name = name.replace("~1", "/").replace("~0", "~");
        let entry = self.at(around).entries().iter().find(|entry| entry.key == name);
        entry.map_or_else(|| self.place_of(pointer), |entry| entry.key_place)
    }

    /// The place of what a JSON pointer names below this value; the nearest one that exists.
    pub(super) fn place_of(&self, pointer: &str) -> Place {
        self.at(pointer).place
    }

    fn at(&self, pointer: &str) -> &Marked {
        let mut node = self;
        for segment in pointer.split('/').skip(1) {
            let key = segment.replace("~1", "/").replace("~0", "~");
            let next = match &node.tree {
                Tree::List(items) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
                _ => node.get(&key),
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }
}

/// Bytes of a path beyond which nothing more is added to it.
const PATH_BYTES_MAX: usize = 4_000;

/// `path` one member or item further, as a JSON pointer. Bounded, because every value of a source may have one: what
/// is beyond a hostile key has the path of the nearest thing around it.
pub(crate) fn join(path: &str, segment: impl std::fmt::Display) -> String {
    let segment = segment.to_string();
    if path.len() + segment.len() > PATH_BYTES_MAX {
        return path.to_owned();
    }
    format!("{path}/{}", segment.replace('~', "~0").replace('/', "~1"))
}

/// A number as a tree, or why it cannot be one. Whole doubles are integers, as in everything that leaves Orbit.
pub(super) fn number(value: f64, written: &str) -> Result<Tree, &'static str> {
    if !value.is_finite() {
        return Err("JSON has no such number");
    }
    if value.abs() > INTEGER_MAX as f64 {
        return Err("numbers beyond 2^53 lose digits on their way; write it as a text");
    }
    if value.fract() == 0.0 {
        return Ok(Tree::Integer(value as i64));
    }
    Ok(Tree::Number(value, written.into()))
}

/// An integer as a tree, or why it cannot be one.
pub(super) fn integer(value: Option<i64>) -> Result<Tree, &'static str> {
    match value {
        Some(value) if value.abs() <= INTEGER_MAX => Ok(Tree::Integer(value)),
        _ => Err("numbers beyond 2^53 lose digits on their way; write it as a text"),
    }
}
