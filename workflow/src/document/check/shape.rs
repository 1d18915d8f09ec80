//! Unknown and missing fields, wrong types, values out of range: everything that one place alone shows.

use super::Report;
use crate::document::fault::{FAULTS_MAX, Fault, nearest};
use crate::document::grammar::{DURATION_MS_MAX, Evaluated, FAILURE_RULE, Field, Form, ON_FAILURE, STEP, Shape};
use crate::document::marked::{Entry, Marked, Tree, join};
use crate::document::text;
use crate::document::yaml::shortened;
use crate::expression::is_spliced;

/// Reports where `node` has not the form of `shape`.
pub(in crate::document) fn check(node: &Marked, shape: &Shape, path: &str, report: &mut Report) {
    let fault = match shape {
        Shape::Object(fields) => return object(node, fields, path, report),
        Shape::Named(form, inner) => return named(node, *form, inner, path, report),
        Shape::List(inner) => return list(node, inner, path, report),
        Shape::OneOrList(inner) => return one_or_list(node, inner, path, report),
        Shape::Steps => return steps(node, path, report),
        Shape::FailureRules => return failure_rules(node, path, report),
        Shape::Choice(words) => return choice(node, words, path, report),
        Shape::Template | Shape::Beside => None,
        Shape::Schema => match node.tree {
            Tree::Map(_) | Tree::Boolean(_) => None,
            _ => Some(wanted("a JSON Schema (an object or a boolean)", node)),
        },
        Shape::Text(longest) => match node.text() {
            Some(text) if text.chars().count() > *longest => Some(format!("longer than {longest} characters")),
            Some(_) => None,
            None => Some(wanted("a text", node)),
        },
        Shape::Name(form) => match node.text() {
            Some(text) => name(*form, text),
            None => Some(wanted("a text", node)),
        },
        Shape::NameOrSplice(form) => match node.text() {
            Some(text) if is_spliced(text) => None,
            Some(text) => name(*form, text),
            None => Some(wanted("a text", node)),
        },
        Shape::Splice => node.text().is_none().then(|| wanted("a text", node)),
        Shape::Expression => match node.text() {
            Some(_) => None,
            None => Some(format!("{}; put the expression in quotes", wanted("an expression", node))),
        },
        Shape::Version => version(node),
        Shape::Boolean => (!matches!(node.tree, Tree::Boolean(_))).then(|| wanted("true or false", node)),
        Shape::Integer(least, most) => match node.tree {
            Tree::Integer(number) if (*least..=*most).contains(&number) => None,
            _ => Some(wanted(&format!("a whole number from {least} to {most}"), node)),
        },
        Shape::Real(least, most) => match real(node) {
            Some(number) if (*least..=*most).contains(&number) => None,
            _ => Some(wanted(&format!("a number from {least} to {most}"), node)),
        },
        Shape::Duration(evaluated) => {
            if !report.is_normal_form {
                super::literals::duration(node, path, report);
            }
            duration(node, *evaluated)
        }
        Shape::Moment => moment(node),
        Shape::Concurrency => concurrency(node),
        Shape::MaxFailures => max_failures(node),
    };
    if let Some(message) = fault {
        report.fault(node.place, path, message);
    }
}

fn wanted(what: &str, node: &Marked) -> String {
    match &node.tree {
        Tree::Integer(number) => format!("{what} expected, not {number}"),
        Tree::Number(_, written) => format!("{what} expected, not {}", shortened(written)),
        Tree::Boolean(flag) => format!("{what} expected, not {flag}"),
        Tree::Text(text) => format!("{what} expected, not `{}`", shortened(text)),
        _ => format!("{what} expected, not {}", node.what()),
    }
}

fn name(form: Form, text: &str) -> Option<String> {
    (!form.fits(text)).then(|| format!("`{}` is no name here: {}", shortened(text), form.pattern()))
}

fn object(node: &Marked, fields: &[Field], path: &str, report: &mut Report) {
    if !matches!(node.tree, Tree::Map(_)) {
        let known: Vec<&str> = fields.iter().map(|field| field.name).take(8).collect();
        return report.fault(node.place, path, wanted(&format!("an object with {}", known.join(", ")), node));
    }
    for entry in node.entries() {
        let at = join(path, &entry.key);
        match fields.iter().find(|field| field.name == entry.key) {
            Some(field) => check(&entry.value, &field.shape, &at, report),
            None if entry.key.starts_with("x-") => {}
            None => {
                unknown_field(entry, fields, &at, report);
            }
        }
    }
    for field in fields.iter().filter(|field| field.required && node.get(field.name).is_none()) {
        report.fault(node.place, path, format!("`{}` is missing", field.name));
    }
}

/// Other languages' words for fields, and what they are called here. What stands before a `:` is the field.
const SYNONYMS: [(&str, &str); 10] = [
    ("needs", "after"),
    ("depends_on", "after"),
    ("if", "when"),
    ("undo", "compensate"),
    ("retries", "retry: {max_attempts}"),
    ("deadline", "timeout"),
    ("on", "handlers"),
    ("foreach", "for"),
    ("for_each", "for"),
    ("with", "input"),
];

fn unknown_field(entry: &Entry, fields: &[Field], path: &str, report: &mut Report) {
    let names = || fields.iter().map(|field| field.name);
    let is_field = |synonym: &str| names().any(|name| synonym.split(':').next() == Some(name));
    let synonym = SYNONYMS.iter().find(|(written, synonym)| *written == entry.key && is_field(synonym));
    let suggestion = match synonym {
        Some((_, synonym)) => Some(*synonym),
        None if report.faults.len() < FAULTS_MAX => nearest(&entry.key, names()),
        None => None,
    };
    let mut message = format!("unknown field `{}`", shortened(&entry.key));
    if suggestion.is_none() {
        let beside = |field: &&Field| !matches!(field.shape, Shape::Beside) && field.name != "depends_on";
        let known: Vec<&str> = fields.iter().filter(beside).map(|field| field.name).collect();
        message = format!("{message}; there are {}", known.join(", "));
    }
    report.faults.push(Fault::new(entry.key_place, path, message).suggest(suggestion));
}

fn named(node: &Marked, form: Form, inner: &Shape, path: &str, report: &mut Report) {
    if !matches!(node.tree, Tree::Map(_)) {
        return report.fault(node.place, path, wanted("an object", node));
    }
    for entry in node.entries() {
        let at = join(path, &entry.key);
        // Names that begin with `x-` fit some of the forms: what fits is a name (L1 ignores fields, not names).
        if entry.key.starts_with("x-") && !form.fits(&entry.key) {
            continue;
        }
        if let Some(message) = name(form, &entry.key) {
            report.fault(entry.key_place, &at, message);
        }
        check(&entry.value, inner, &at, report);
    }
}

fn list(node: &Marked, inner: &Shape, path: &str, report: &mut Report) {
    if !matches!(node.tree, Tree::List(_)) {
        let message = match node.text() {
            Some(text) => format!("{}; write [{}]", wanted("a list", node), shortened(text)),
            None => wanted("a list", node),
        };
        return report.fault(node.place, path, message);
    }
    let mut seen = std::collections::HashSet::new();
    for (index, item) in node.items().iter().enumerate() {
        let at = join(path, index);
        check(item, inner, &at, report);
        if let Some(text) = item.text()
            && !seen.insert(text)
        {
            report.fault(item.place, at, format!("`{}` stands in this list twice", shortened(text)));
        }
    }
}

fn one_or_list(node: &Marked, inner: &Shape, path: &str, report: &mut Report) {
    match &node.tree {
        Tree::List(items) if items.is_empty() => report.fault(node.place, path, "this list is empty"),
        Tree::List(_) => list(node, inner, path, report),
        _ => check(node, inner, path, report),
    }
}

fn steps(node: &Marked, path: &str, report: &mut Report) {
    match &node.tree {
        Tree::List(items) if items.is_empty() => report.fault(node.place, path, "a block has at least one step"),
        Tree::List(items) => {
            for (index, item) in items.iter().enumerate() {
                object(item, STEP, &join(path, index), report);
            }
        }
        _ => report.fault(node.place, path, wanted("a list of steps", node)),
    }
}

fn failure_rules(node: &Marked, path: &str, report: &mut Report) {
    match &node.tree {
        Tree::List(items) => {
            for (index, item) in items.iter().enumerate() {
                object(item, FAILURE_RULE, &join(path, index), report);
            }
        }
        Tree::Text(_) => choice(node, ON_FAILURE, path, report),
        _ => report.fault(node.place, path, wanted("fail, continue, suspend or a list of rules", node)),
    }
}

fn choice(node: &Marked, words: &'static [&'static str], path: &str, report: &mut Report) {
    let words = words.iter().copied().filter(|word| !word.is_empty());
    match node.text() {
        Some(text) if words.clone().any(|word| word == text) => {}
        written => {
            let message = wanted(&words.clone().collect::<Vec<_>>().join(" or "), node);
            report.misnamed(node.place, path, message, written.unwrap_or_default(), words);
        }
    }
}

fn real(node: &Marked) -> Option<f64> {
    match node.tree {
        Tree::Integer(number) => Some(number as f64),
        Tree::Number(number, _) => Some(number),
        _ => None,
    }
}

fn version(node: &Marked) -> Option<String> {
    let Some(text) = node.text() else {
        let three = match &node.tree {
            Tree::Integer(number) if *number >= 0 => format!("{number}.0.0"),
            // `1.10` is written so, and read as 1.1.
            Tree::Number(_, written) if semver::Version::parse(&format!("{written}.0")).is_ok() => {
                format!("{written}.0")
            }
            _ => "1.0.0".to_owned(),
        };
        return Some(format!("{}; write three numbers: {three}", wanted("a version such as 1.2.0", node)));
    };
    match semver::Version::parse(text) {
        Ok(version) if !version.build.is_empty() => {
            Some(format!("`{}` has build metadata (`+…`), which versions here may not have", shortened(text)))
        }
        Ok(_) if text.len() > 100 => Some("longer than 100 characters".to_owned()),
        Ok(_) => None,
        Err(_) if semver::Version::parse(&format!("{text}.0")).is_ok() => {
            Some(format!("`{text}` is no semantic version; write three numbers: {text}.0"))
        }
        Err(_) if semver::Version::parse(&format!("{text}.0.0")).is_ok() => {
            Some(format!("`{text}` is no semantic version; write three numbers: {text}.0.0"))
        }
        Err(error) => Some(format!("`{}` is no semantic version such as 1.2.0: {error}", shortened(text))),
    }
}

fn duration(node: &Marked, evaluated: Evaluated) -> Option<String> {
    if node.text().is_some_and(is_spliced) {
        return (evaluated == Evaluated::No).then(|| "a fixed duration is needed here, no `${…}`".to_owned());
    }
    match text::duration_ms(node) {
        Some(ms) if ms <= DURATION_MS_MAX => None,
        Some(_) => Some("longer than a hundred years".to_owned()),
        None => Some(wanted("a duration such as 250ms, 30s, 1h30m, 7d, or a number of ms,", node)),
    }
}

fn moment(node: &Marked) -> Option<String> {
    let fits = match &node.tree {
        Tree::Integer(_) => true,
        Tree::Text(text) => is_spliced(text) || text::is_moment(text),
        _ => false,
    };
    (!fits).then(|| wanted("a moment such as 2027-01-31T08:00:00Z, ms since 1970, or `${…}`", node))
}

fn concurrency(node: &Marked) -> Option<String> {
    let fits = match &node.tree {
        Tree::Integer(number) => (1..=10_000).contains(number),
        Tree::Text(text) => is_spliced(text),
        _ => false,
    };
    (!fits).then(|| wanted("a whole number from 1 to 10000 or `${…}`", node))
}

fn max_failures(node: &Marked) -> Option<String> {
    let fits = match &node.tree {
        Tree::Integer(number) => *number >= 0,
        Tree::Text(text) if is_spliced(text) || text == "all" => true,
        Tree::Text(text) => text
            .strip_suffix('%')
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
            .and_then(|digits| digits.parse::<f64>().ok())
            .is_some_and(|percent| (0.0..=100.0).contains(&percent)),
        _ => false,
    };
    (!fits).then(|| wanted("a whole number, a percentage such as \"10%\", all, or `${…}`", node))
}
