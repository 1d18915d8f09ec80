//! What is wrong with a document, and what is only doubtful.

use std::fmt;

use serde::Serialize;

use super::marked::Place;

/// Faults that are told; the rest is counted, so that a hostile document cannot make an endless answer.
pub const FAULTS_MAX: usize = 100;

/// Faults that are kept until they are sorted: rules do not find them in the order of the source.
const KEPT_MAX: usize = 10 * FAULTS_MAX;

/// Characters of one path or message.
const TEXT_MAX: usize = 1_000;

/// One thing that is wrong, as `details.faults` of the API shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// What is wrong, for people.
    pub message: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// JSON pointer (RFC 6901) inside the document, `""` for the document itself.
    pub path: String,
    /// The name that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

impl Fault {
    pub(super) fn new(place: Place, path: impl Into<String>, message: impl Into<String>) -> Fault {
        let (message, path) = (bounded(message.into()), bounded(path.into()));
        Fault { message, line: place.line, column: place.column, path, suggestion: None }
    }

    pub(crate) fn suggest(mut self, suggestion: Option<impl Into<String>>) -> Fault {
        self.suggestion = suggestion.map(Into::into);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.suggestion {
            Some(name) => write!(f, " (did you mean `{name}`?)"),
            None => Ok(()),
        }
    }
}

/// Faults as they are found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    list: Vec<Fault>,
    /// Further ones that are only counted.
    more: usize,
}

impl Found {
    pub(crate) fn push(&mut self, fault: Fault) {
        if self.is_full() {
            self.more += 1;
        } else {
            self.list.push(fault);
        }
    }

    pub(crate) fn append(&mut self, found: Found) {
        self.more += found.more;
        found.list.into_iter().for_each(|fault| self.push(fault));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are to mend.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether further ones are only counted: nothing need be known about them.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= KEPT_MAX
    }
}

impl From<Fault> for Found {
    fn from(fault: Fault) -> Found {
        Found { list: vec![fault], more: 0 }
    }
}

/// A text at most [`TEXT_MAX`] characters long.
pub(super) fn bounded(text: String) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Why a source was refused: every fault in the order of the source, at least one. Displays one line per fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Faults {
    list: Vec<Fault>,
}

impl Faults {
    /// `None` when there are no faults.
    pub(crate) fn of(Found { mut list, more }: Found) -> Option<Faults> {
        if list.is_empty() {
            return None;
        }
        list.sort_by_key(|fault| (fault.line, fault.column));
        list.dedup();
        if list.len() > FAULTS_MAX {
            let more = list.len() - FAULTS_MAX + more;
            let place = Place { line: list[FAULTS_MAX].line, column: list[FAULTS_MAX].column };
            list.truncate(FAULTS_MAX);
            list.push(Fault::new(place, "", format!("{more} more faults from here on")));
        }
        Some(Faults { list })
    }

    /// The faults in the order of the source.
    #[must_use]
    pub fn list(&self) -> &[Fault] {
        &self.list
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Faults {
        Faults { list: vec![fault] }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// Something that is allowed and probably not meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// What is doubtful, for people.
    pub message: String,
    /// From 1; 0 when only the definition is known, not its source.
    pub line: u32,
    /// From 1; 0 when only the definition is known, not its source.
    pub column: u32,
    /// JSON pointer (RFC 6901) inside the document.
    pub path: String,
}

impl Warning {
    pub(super) fn new(place: Place, path: impl Into<String>, message: impl Into<String>) -> Warning {
        let (message, path) = (bounded(message.into()), bounded(path.into()));
        Warning { message, line: place.line, column: place.column, path }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.line, self.column, self.path, self.message)
    }
}

/// The name among `known` that `written` is nearest to, when it is near enough to be a slip.
pub(crate) fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer ones than any name of the language: not worth a square of time.
    if written.len() > 128 {
        return None;
    }
    let allowed = (written.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .filter(|name| *name != written && name.len() <= 128)
        .map(|name| (distance(written, name), name))
        .filter(|(far, name)| *far <= allowed && *far < name.chars().count())
        .min()
        .map(|(_, name)| name)
}

/// Edits (insert, delete, replace, swap of neighbours) between two short texts, letter case ignored.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let known = ["compensate", "retry", "timeout", "id"];
        assert_eq!(nearest("compenstae", known), Some("compensate"));
        assert_eq!(nearest("Retry", known), Some("retry"));
        assert_eq!(nearest("time_out", known), Some("timeout"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("x", known), None);
    }
}
