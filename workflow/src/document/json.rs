//! JSON (RFC 8259) to a marked tree.
//!
//! A reader of its own, because places, repeated keys and exact numbers are wanted of every value. It recurses, so
//! depth is bounded first.

use std::collections::HashSet;

use super::fault::Fault;
use super::marked::{Entry, Marked, NESTING_MAX, Place, Tree, integer, join, number};
use super::yaml::shortened;

/// Reads the one value that `source` holds.
pub(super) fn read(source: &str) -> Result<Marked, Fault> {
    let mut reader = Reader { rest: source, place: Place { line: 1, column: 1 }, path: Vec::new() };
    reader.space();
    let value = reader.value()?;
    reader.space();
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.fault("this is no JSON: something stands behind the end of the document")),
    }
}

struct Reader<'a> {
    rest: &'a str,
    place: Place,
    /// Keys and indexes that lead to what is being read.
    path: Vec<String>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next()?;
        self.rest = characters.as_str();
        if next == '\n' {
            self.place = Place { line: self.place.line.saturating_add(1), column: 1 };
        } else {
            self.place = self.place.moved(1);
        }
        Some(next)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.next();
        }
    }

    fn fault(&self, message: impl Into<String>) -> Fault {
        self.fault_at(self.place, message)
    }

    fn fault_at(&self, place: Place, message: impl Into<String>) -> Fault {
        let path = self.path.iter().fold(String::new(), |path, segment| join(&path, segment));
        Fault::new(place, path, message)
    }

    fn unexpected(&self, wanted: &str) -> Fault {
        match self.peek() {
            Some(found) => self.fault(format!("this is no JSON: {wanted} expected, not `{}`", found.escape_default())),
            None => self.fault(format!("this is no JSON: it ends where {wanted} is expected")),
        }
    }

    fn value(&mut self) -> Result<Marked, Fault> {
        let place = self.place;
        match self.peek() {
            Some('{') => self.map(place),
            Some('[') => self.list(place),
            Some('"') => {
                let (text, shown) = self.string()?;
                Ok(Marked { tree: Tree::Text(text), place, inside: shown.then(|| place.moved(1)) })
            }
            Some('-' | '0'..='9') => self.number(place),
            Some('a'..='z') => self.word(place),
            _ => Err(self.unexpected("a value")),
        }
    }

    fn enter(&mut self, place: Place) -> Result<(), Fault> {
        self.next();
        if self.path.len() >= NESTING_MAX {
            self.path.clear();
            return Err(self.fault_at(place, format!("nested deeper than {NESTING_MAX} levels")));
        }
        self.space();
        Ok(())
    }

    fn list(&mut self, place: Place) -> Result<Marked, Fault> {
        self.enter(place)?;
        let mut items = Vec::new();
        if self.peek() == Some(']') {
            self.next();
            return Ok(Marked::new(Tree::List(items), place));
        }
        loop {
            self.path.push(items.len().to_string());
            items.push(self.value()?);
            self.path.pop();
            self.space();
            match self.peek() {
                Some(',') => self.next(),
                Some(']') => break,
                _ => return Err(self.unexpected("`,` or `]`")),
            };
            self.space();
        }
        self.next();
        Ok(Marked::new(Tree::List(items), place))
    }

    fn map(&mut self, place: Place) -> Result<Marked, Fault> {
        self.enter(place)?;
        let mut entries: Vec<Entry> = Vec::new();
        let mut keys = HashSet::new();
        if self.peek() == Some('}') {
            self.next();
            return Ok(Marked::new(Tree::Map(entries), place));
        }
        loop {
            let key_place = self.place;
            if self.peek() != Some('"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let (key, _) = self.string()?;
            self.path.push(key.clone());
            if !keys.insert(key.clone()) {
                let first = entries.iter().find(|entry| entry.key == key).map_or(key_place, |entry| entry.key_place);
                let message = format!("`{}` is written twice here; first in line {}", shortened(&key), first.line);
                return Err(self.fault_at(key_place, message));
            }
            self.space();
            if self.peek() != Some(':') {
                return Err(self.unexpected("`:`"));
            }
            self.next();
            self.space();
            let value = self.value()?;
            self.path.pop();
            entries.push(Entry { key, key_place, value });
            self.space();
            match self.peek() {
                Some(',') => self.next(),
                Some('}') => break,
                _ => return Err(self.unexpected("`,` or `}`")),
            };
            self.space();
        }
        self.next();
        Ok(Marked::new(Tree::Map(entries), place))
    }

    /// The text, and whether the source shows it letter by letter (no escapes).
    fn string(&mut self) -> Result<(String, bool), Fault> {
        self.next();
        let (mut text, mut shown) = (String::new(), true);
        loop {
            match self.peek() {
                Some('"') => {
                    self.next();
                    return Ok((text, shown));
                }
                Some('\\') => {
                    shown = false;
                    text.push(self.escape()?);
                }
                Some(control) if (control as u32) < 0x20 => {
                    return Err(
                        self.fault("this is no JSON: a control character inside a string; write it as an escape")
                    );
                }
                Some(character) => {
                    text.push(character);
                    self.next();
                }
                None => return Err(self.unexpected("the end of a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let place = self.place;
        self.next();
        let plain = match self.next() {
            Some(same @ ('"' | '\\' | '/')) => same,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => return self.unicode(place),
            _ => return Err(self.fault_at(place, "this is no JSON: an unknown escape")),
        };
        Ok(plain)
    }

    /// What follows `\u`: four hex digits, or two such escapes for one character beyond U+FFFF.
    fn unicode(&mut self, place: Place) -> Result<char, Fault> {
        let first = self.hex(place)?;
        let code = if (0xd800..0xdc00).contains(&first) && self.rest.starts_with("\\u") {
            self.next();
            self.next();
            let second = self.hex(place)?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(self.fault_at(place, "this is no JSON: half a character"));
            }
            0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        char::from_u32(code).ok_or_else(|| self.fault_at(place, "this is no JSON: half a character"))
    }

    fn hex(&mut self, place: Place) -> Result<u32, Fault> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.next().and_then(|digit| digit.to_digit(16));
            code =
                code * 16 + digit.ok_or_else(|| self.fault_at(place, "this is no JSON: four hex digits expected"))?;
        }
        Ok(code)
    }

    fn number(&mut self, place: Place) -> Result<Marked, Fault> {
        let end =
            self.rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(self.rest.len());
        let written = &self.rest[..end];
        let Some(whole) = grammatical(written) else {
            return Err(self.fault(format!("this is no JSON: `{}` is no number", shortened(written))));
        };
        let tree = if whole {
            integer(written.parse().ok())
        } else {
            written.parse().map_or(Err("JSON has no such number"), |value| number(value, written))
        };
        let tree = tree.map_err(|message| self.fault(message))?;
        self.place = self.place.moved(u32::try_from(end).unwrap_or(u32::MAX));
        self.rest = &self.rest[end..];
        Ok(Marked::new(tree, place))
    }

    fn word(&mut self, place: Place) -> Result<Marked, Fault> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let tree = match &self.rest[..end] {
            "null" => Tree::Null,
            "true" => Tree::Boolean(true),
            "false" => Tree::Boolean(false),
            _ => return Err(self.unexpected("a value")),
        };
        self.place = self.place.moved(u32::try_from(end).unwrap_or(u32::MAX));
        self.rest = &self.rest[end..];
        Ok(Marked::new(tree, place))
    }
}

/// Whether a number of JSON's grammar is whole; `None`: it is none.
fn grammatical(written: &str) -> Option<bool> {
    let digits = written.strip_prefix('-').unwrap_or(written);
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        Some(at) => (&digits[..at], Some(&digits[at + 1..])),
        None => (digits, None),
    };
    let (integer, fraction) = match mantissa.find('.') {
        Some(at) => (&mantissa[..at], Some(&mantissa[at + 1..])),
        None => (mantissa, None),
    };
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent_digits = exponent.map(|text| text.strip_prefix(['+', '-']).unwrap_or(text));
    let well_formed = all_digits(integer)
        && !(integer.len() > 1 && integer.starts_with('0'))
        && fraction.is_none_or(all_digits)
        && exponent_digits.is_none_or(all_digits);
    well_formed.then_some(fraction.is_none() && exponent.is_none())
}
