//! The configuration file of a node.

use std::fmt;

use toml::{Table, Value};

/// Keys as `docs/command-line.md` lists them, `http.listen`, with their values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config(Table);

impl Config {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key. A dot in it leads into a table; what is no table there is replaced by one.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.set(key, value);
        self
    }

    /// Sets a key in place.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        let mut table = &mut self.0;
        let (folders, last) = key.rsplit_once('.').map_or((None, key), |(folders, last)| (Some(folders), last));
        for name in folders.into_iter().flat_map(|folders| folders.split('.')) {
            let entry = table.entry(name).or_insert_with(|| Value::Table(Table::new()));
            if !entry.is_table() {
                *entry = Value::Table(Table::new());
            }
            let Value::Table(inner) = entry else { return };
            table = inner;
        }
        table.insert(last.to_owned(), value.into());
    }

    /// Reads a text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        let (table, last) = match key.rsplit_once('.') {
            Some((folders, last)) => {
                let inner = folders.split('.').try_fold(&self.0, |table, name| table.get(name)?.as_table());
                (inner?, last)
            }
            None => (&self.0, key),
        };
        table.get(last)?.as_str()
    }

    /// Takes a key of the first level away, with all that is below it.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.0.remove(key);
        self
    }

    /// Adds everything that `other` says; what both say, it says.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        merge(&mut self.0, &other.0);
        self
    }
}

fn merge(into: &mut Table, from: &Table) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Table(inner)), Value::Table(more)) => merge(inner, more),
            _ => _ = into.insert(key.clone(), value.clone()),
        }
    }
}

/// TOML.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_keys_become_tables_and_the_later_counts() {
        let seeds = vec!["10.77.0.11:7402", "10.77.0.12:7402"];
        let base = Config::new().with("node.name", "n1").with("cluster.seeds", seeds).with("cluster.shards", 4);
        let config = base.and(&Config::new().with("cluster.shards", 8).with("retention", "1d"));
        assert_eq!(config.text("node.name"), Some("n1"));
        assert_eq!(config.text("node.missing"), None);
        let text = config.to_string();
        let read: Table = text.parse().unwrap();
        assert_eq!(read["cluster"]["seeds"][1].as_str(), Some("10.77.0.12:7402"), "{text}");
        assert_eq!(read["cluster"]["shards"].as_integer(), Some(8), "{text}");
        assert_eq!(read["retention"].as_str(), Some("1d"), "{text}");
    }
}
