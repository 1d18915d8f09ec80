//! YAML 1.2 (core schema) to marked trees.
//!
//! Read event by event, so that depth, the size of expanded aliases and repeated keys are judged before anything is
//! built: no input can make this recurse or grow without bound. Plain scalars mean what the core schema says: `yes` and
//! `on` are texts.

use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};

use super::fault::Fault;
use super::marked::{Entry, Marked, NESTING_MAX, Place, Tree, integer, number};

/// What aliases may add to a source in all, counted as bytes of text and 64 for each value.
const ALIAS_BYTES_MAX: usize = 1 << 20;

/// Reads every document of `source`; empty ones are left out. A fault of the text itself ends the reading.
pub(super) fn read(source: &str) -> Result<Vec<Marked>, Fault> {
    let mut reader = Reader {
        rest: (0, source),
        parser: Parser::new_from_str(source),
        open: Vec::new(),
        anchors: HashMap::new(),
        alias_bytes_left: ALIAS_BYTES_MAX,
        documents: Vec::new(),
    };
    while let Some(next) = reader.parser.next_event() {
        let (event, span) = next.map_err(|error| scan_fault(source, &error))?;
        if matches!(event, Event::StreamEnd) {
            break;
        }
        reader.take(event, span)?;
    }
    Ok(reader.documents)
}

struct Reader<'a> {
    /// What of the source has not been passed yet, and how many characters have: spans count characters.
    rest: (usize, &'a str),
    parser: Parser<'a, StrInput<'a>>,
    open: Vec<Container>,
    anchors: HashMap<usize, (Marked, usize)>,
    alias_bytes_left: usize,
    documents: Vec<Marked>,
}

/// A list or an object that is being read.
struct Container {
    place: Place,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Marked>),
    Map { entries: Vec<Entry>, keys: HashSet<String>, key: Option<(String, Place)> },
}

impl<'a> Reader<'a> {
    fn take(&mut self, event: Event<'a>, span: Span) -> Result<(), Fault> {
        let place = place(&span);
        match event {
            Event::SequenceStart(anchor, tag) => {
                collection_tag(tag.as_deref(), "seq", place)?;
                self.begin(place, anchor, Content::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                collection_tag(tag.as_deref(), "map", place)?;
                self.begin(place, anchor, Content::Map { entries: Vec::new(), keys: HashSet::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Scalar(text, style, anchor, tag) => {
                if self.wants_key() {
                    return self.anchored_key(&text, style, (anchor, tag.as_deref()), &span);
                }
                let value = self.scalar(&text, style, tag.as_deref(), &span)?;
                self.put(value, anchor)
            }
            Event::Alias(anchor) => self.alias(anchor, place),
            Event::DocumentStart(_) => {
                self.anchors.clear();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some(Container { content: Content::Map { key: None, .. }, .. }))
    }

    fn begin(&mut self, place: Place, anchor: usize, content: Content) -> Result<(), Fault> {
        if self.wants_key() {
            return Err(Fault::new(place, self.path(), "a key must be a text, not a list or an object"));
        }
        if self.open.len() >= NESTING_MAX {
            return Err(Fault::new(place, "", format!("nested deeper than {NESTING_MAX} levels")));
        }
        self.open.push(Container { place, anchor, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        let Some(container) = self.open.pop() else { return Ok(()) };
        let tree = match container.content {
            Content::List(items) => Tree::List(items),
            Content::Map { entries, .. } => Tree::Map(entries),
        };
        self.put(Marked::new(tree, container.place), container.anchor)
    }

    /// A key, which may have a tag (it is a text, whatever it looks like) and an anchor like any other text.
    fn anchored_key(
        &mut self,
        text: &str,
        style: ScalarStyle,
        (anchor, tag): (usize, Option<&Tag>),
        span: &Span,
    ) -> Result<(), Fault> {
        let place = place(span);
        if !matches!(scalar_tag(tag, place)?, None | Some("str")) {
            return Err(Fault::new(place, self.path(), "a key must be a text, not what this tag says"));
        }
        if anchor > 0 {
            let value = self.scalar(text, style, tag, span)?;
            self.remember(anchor, &value)?;
        }
        self.key(text, style, place)
    }

    fn key(&mut self, text: &str, style: ScalarStyle, place: Place) -> Result<(), Fault> {
        if style == ScalarStyle::Plain && text == "<<" {
            let message =
                "merge keys (`<<`) are no part of YAML 1.2; repeat the fields or use an alias for a whole value";
            return Err(Fault::new(place, self.path(), message));
        }
        let Some(Container { content: Content::Map { entries, keys, key }, .. }) = self.open.last_mut() else {
            return Ok(());
        };
        if !keys.insert(text.to_owned()) {
            let first = entries.iter().find(|entry| entry.key == text).map_or(place, |entry| entry.key_place);
            let message = format!("`{}` is written twice here; first in line {}", shortened(text), first.line);
            return Err(Fault::new(place, super::marked::join(&self.path(), text), message));
        }
        *key = Some((text.to_owned(), place));
        Ok(())
    }

    fn put(&mut self, value: Marked, anchor: usize) -> Result<(), Fault> {
        if anchor > 0 {
            self.remember(anchor, &value)?;
        }
        match self.open.last_mut().map(|container| &mut container.content) {
            None if value.tree == Tree::Null => {}
            None => self.documents.push(value),
            Some(Content::List(items)) => items.push(value),
            Some(Content::Map { entries, key, .. }) => {
                if let Some((key, key_place)) = key.take() {
                    entries.push(Entry { key, key_place, value });
                }
            }
        }
        Ok(())
    }

    /// What aliases of this anchor stand for.
    fn remember(&mut self, anchor: usize, value: &Marked) -> Result<(), Fault> {
        let bytes = bytes_of(value);
        self.charge(bytes, value.place)?;
        self.anchors.insert(anchor, (value.clone(), bytes));
        Ok(())
    }

    fn alias(&mut self, anchor: usize, place: Place) -> Result<(), Fault> {
        let Some((value, bytes)) = self.anchors.get(&anchor) else {
            return Err(Fault::new(place, self.path(), "this alias refers to something that it is itself a part of"));
        };
        let (value, bytes) = (value.clone(), *bytes);
        self.charge(bytes, place)?;
        if self.wants_key() {
            return match value.text() {
                Some(text) => self.key(text, ScalarStyle::DoubleQuoted, place),
                None => Err(Fault::new(place, self.path(), "a key must be a text")),
            };
        }
        if self.open.len() + depth_of(&value) > NESTING_MAX {
            return Err(Fault::new(place, self.path(), format!("nested deeper than {NESTING_MAX} levels")));
        }
        self.put(Marked { place, inside: None, ..value }, 0)
    }

    fn charge(&mut self, bytes: usize, place: Place) -> Result<(), Fault> {
        match self.alias_bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.alias_bytes_left = left;
                Ok(())
            }
            None => Err(Fault::new(place, self.path(), "anchors and aliases make the document grow over 1 MiB")),
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: &Span) -> Result<Marked, Fault> {
        let place = place(span);
        let kind = scalar_tag(tag, place)?;
        let tree = if kind == Some("str") || (kind.is_none() && style != ScalarStyle::Plain) {
            Tree::Text(text.to_owned())
        } else {
            core(text).map_err(|message| Fault::new(place, self.path(), message))?
        };
        let fits = match (kind, &tree) {
            (None | Some("str"), _) => true,
            (Some("null"), tree) => *tree == Tree::Null,
            (Some("bool"), tree) => matches!(tree, Tree::Boolean(_)),
            (Some("int"), tree) => matches!(tree, Tree::Integer(_)),
            (Some(_), tree) => matches!(tree, Tree::Integer(_) | Tree::Number(..)),
        };
        if !fits {
            return Err(Fault::new(place, self.path(), format!("`{}` is not what its tag says", shortened(text))));
        }
        let inside = self.inside(text, style, span);
        Ok(Marked { tree, place, inside })
    }

    /// Where the text itself begins, when the source shows it letter by letter.
    fn inside(&mut self, text: &str, style: ScalarStyle, span: &Span) -> Option<Place> {
        let quotes = match style {
            ScalarStyle::Plain => 0,
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => 1,
            _ => return None,
        };
        let characters = text.chars().count();
        if span.start.line() != span.end.line() || span.len() != characters + 2 * quotes {
            return None;
        }
        let (passed, rest) = self.rest;
        let skipped = (span.start.index() + quotes).checked_sub(passed)?;
        let (start, _) = rest.char_indices().nth(skipped)?;
        self.rest = (passed + skipped, &rest[start..]);
        rest[start..].starts_with(text).then(|| place(span).moved(to_u32(quotes)))
    }

    /// The JSON pointer of what is being read.
    fn path(&self) -> String {
        let mut path = String::new();
        for container in &self.open {
            path = match &container.content {
                Content::List(items) => super::marked::join(&path, items.len()),
                Content::Map { key: Some((key, _)), .. } => super::marked::join(&path, key),
                Content::Map { .. } => path,
            };
        }
        path
    }
}

/// A plain scalar by the core schema.
fn core(text: &str) -> Result<Tree, &'static str> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Tree::Null),
        "true" | "True" | "TRUE" => return Ok(Tree::Boolean(true)),
        "false" | "False" | "FALSE" => return Ok(Tree::Boolean(false)),
        _ => {}
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Ok(Tree::Text(text.to_owned()));
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return integer(text.parse().ok());
    }
    if let Some(hex) = text.strip_prefix("0x").filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        return if hex.is_empty() {
            Ok(Tree::Text(text.to_owned()))
        } else {
            integer(i64::from_str_radix(hex, 16).ok())
        };
    }
    if let Some(octal) = text.strip_prefix("0o").filter(|octal| octal.bytes().all(|byte| (b'0'..b'8').contains(&byte)))
    {
        return if octal.is_empty() {
            Ok(Tree::Text(text.to_owned()))
        } else {
            integer(i64::from_str_radix(octal, 8).ok())
        };
    }
    if matches!(digits, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err("JSON has no such number");
    }
    match text.parse::<f64>() {
        Ok(value) if digits.contains(|c: char| c.is_ascii_digit()) => number(value, text),
        _ => Ok(Tree::Text(text.to_owned())),
    }
}

fn collection_tag(tag: Option<&Tag>, wanted: &str, place: Place) -> Result<(), Fault> {
    match tag {
        Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == wanted) => {
            Err(Fault::new(place, "", format!("the tag {tag} is not known here")))
        }
        _ => Ok(()),
    }
}

/// The type that a tag of the core schema names.
fn scalar_tag(tag: Option<&Tag>, place: Place) -> Result<Option<&'static str>, Fault> {
    let Some(tag) = tag else { return Ok(None) };
    // The tag `!` alone says "a text".
    if tag.handle.is_empty() && tag.suffix == "!" {
        return Ok(Some("str"));
    }
    let known = ["str", "null", "bool", "int", "float"];
    match known.into_iter().find(|name| tag.is_yaml_core_schema() && tag.suffix == *name) {
        Some(name) => Ok(Some(name)),
        None => {
            let hint = "an expression goes in quotes as a whole";
            Err(Fault::new(place, "", format!("the tag {tag} is not known here; {hint}: \"{tag}\"")))
        }
    }
}

fn bytes_of(value: &Marked) -> usize {
    64 + match &value.tree {
        Tree::Text(text) => text.len(),
        Tree::List(items) => items.iter().map(bytes_of).sum(),
        Tree::Map(entries) => entries.iter().map(|entry| 64 + entry.key.len() + bytes_of(&entry.value)).sum(),
        _ => 0,
    }
}

fn depth_of(value: &Marked) -> usize {
    match &value.tree {
        Tree::List(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Tree::Map(entries) => 1 + entries.iter().map(|entry| depth_of(&entry.value)).max().unwrap_or(0),
        _ => 0,
    }
}

fn place(span: &Span) -> Place {
    Place { line: to_u32(span.start.line()), column: to_u32(span.start.col()).saturating_add(1) }
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A scanner's error, in words that help.
fn scan_fault(source: &str, error: &saphyr_parser::ScanError) -> Fault {
    let mark = error.marker();
    let place = Place { line: to_u32(mark.line()), column: to_u32(mark.col()).saturating_add(1) };
    // The scanner notices a tab only when it stumbles over what follows: look at its line and the ones just before.
    let lines: Vec<&str> = source.lines().take(mark.line()).collect();
    for index in mark.line().saturating_sub(2)..lines.len() {
        let line = lines[index];
        let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        if let Some(column) = indent.find('\t')
            && !is_in_block_scalar(&lines[..index], column)
        {
            let place = Place { line: to_u32(index + 1), column: to_u32(column + 1) };
            return Fault::new(place, "", "a tab indents this line; YAML is indented with spaces");
        }
    }
    if error.info().contains("recursion limit") {
        return Fault::new(place, "", format!("nested deeper than {NESTING_MAX} levels"));
    }
    let line = source.lines().nth(mark.line().saturating_sub(1)).unwrap_or_default();
    Fault::new(place, "", format!("this is no YAML: {}{}", error.info(), eaten(line)))
}

/// Whether what follows `lines`, with so many spaces in front, belongs to a text that one of them opens with `|` or
/// `>`: a tab there is a letter like any other.
fn is_in_block_scalar(lines: &[&str], spaces: usize) -> bool {
    let mut indent = spaces;
    for line in lines.iter().rev().filter(|line| !line.trim().is_empty()) {
        let own = line.len() - line.trim_start_matches(' ').len();
        if own >= indent {
            continue;
        }
        let header = line.split(" #").next().unwrap_or_default().trim_end();
        let header = header.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
        if header.ends_with(['|', '>']) {
            return true;
        }
        indent = own;
    }
    false
}

/// What helps when the line holds an expression of which the scanner has taken a part for its own.
fn eaten(line: &str) -> &'static str {
    const EXPRESSIONS: [&str; 7] = ["when:", "compute:", "each:", "until:", "done_when:", "where:", "value:"];
    let spliced = line.contains("\"${");
    if spliced && line.matches('"').count() > 2 {
        "; inside \"…\" use single quotes"
    } else if line.contains("${") {
        "; put the whole text in quotes: \"${…}\""
    } else if EXPRESSIONS.iter().any(|field| line.contains(field)) {
        "; put the whole expression in quotes, and use single quotes inside"
    } else {
        ""
    }
}

/// A text short enough for a message.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
