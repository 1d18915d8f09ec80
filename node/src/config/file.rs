//! The configuration file: TOML, whose tables are the first parts of the keys.

use std::path::Path;

use toml::{Table, Value};

use super::{Config, Error, Kind, find, nearest};

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Puts what a file says into the configuration.
pub(super) fn read(path: &Path, config: &mut Config) -> Result<(), Error> {
    let shown = path.display().to_string();
    let failed = |source| Error::Read { path: shown.clone(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(failed(std::io::Error::other(format!("it is longer than {FILE_BYTES_MAX} bytes"))));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        Error::NotToml { path: shown.clone(), reason: format!("{line}{}", error.message()) }
    })?;
    set_all(&table, "", &shown, config)
}

fn set_all(table: &Table, prefix: &str, place: &str, config: &mut Config) -> Result<(), Error> {
    for (name, value) in table {
        let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match (find(&name), value) {
            (Some(key), value) => {
                let wrong = |reason| Error::Value { place: format!("{place}: {name}"), reason };
                let text = text(value, key.kind).map_err(wrong)?;
                (key.set)(config, &text).map_err(wrong)?;
            }
            (None, Value::Table(inner)) if is_table(&name) => set_all(inner, &name, place, config)?,
            (None, _) => {
                let suggestion = nearest(&name);
                return Err(Error::UnknownKey { place: place.to_owned(), name, suggestion });
            }
        }
    }
    Ok(())
}

/// Whether keys begin with this.
fn is_table(name: &str) -> bool {
    super::KEYS.iter().any(|key| key.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// The value as it would stand in the environment.
fn text(value: &Value, kind: Kind) -> Result<String, String> {
    let expected = match kind {
        Kind::Text => "a string",
        Kind::Number => "a whole number",
        Kind::List => "a list of strings",
        Kind::Switch => "true or false",
    };
    let wrong = || format!("{expected} is expected, not a {}", value.type_str());
    match (kind, value) {
        (Kind::Text, Value::String(text)) => Ok(text.clone()),
        (Kind::Number, Value::Integer(number)) => Ok(number.to_string()),
        (Kind::Switch, Value::Boolean(on)) => Ok(on.to_string()),
        (Kind::List, Value::Array(items)) => {
            let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            items.map(|items| items.join(",")).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}
