//! What a request must look like before the engine sees it. Numbers above a maximum are cut to it; everything else that
//! does not fit is refused.

use orbit_actors::api::{ListExecutions, Register, SIGNAL_NAME_BYTES_MAX, StartExecution};
use orbit_actors::error::{Code, Error, Result};
use workflow::event::is_own_code;
use workflow::value::Payload;

/// Longest execution id a caller may give.
pub(super) const ID_CHARS_MAX: usize = 200;
/// Longest id of an execution that Orbit made for a child.
const DERIVED_ID_CHARS_MAX: usize = 1_000;
/// Longest name, code, key or version.
const NAME_BYTES_MAX: usize = 256;
/// Longest token, cursor or session.
const OPAQUE_BYTES_MAX: usize = 2_048;
/// Longest text for people.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// How many task versions a worker may name.
const CONTRACTS_MAX: usize = 1_000;
/// How many units one call may name: a `for` has no more elements.
const STEPS_MAX: usize = 10_000;
/// How many attributes a filter may name.
const ATTRIBUTES_MAX: usize = 16;
/// Longest name of an attribute (language L2).
const ATTRIBUTE_BYTES_MAX: usize = 64;
/// How many tokens a worker may list.
const TOKENS_MAX: usize = 20_000;

pub(super) fn refused<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code::InvalidRequest, message))
}

fn is_id(id: &str, chars_max: usize) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    !id.is_empty() && id.len() <= chars_max && id.bytes().all(fits) && !id.bytes().all(|byte| byte == b'.')
}

/// The id of a new execution.
pub(super) fn new_id(id: &str) -> Result<()> {
    if is_id(id, ID_CHARS_MAX) {
        return Ok(());
    }
    let message =
        format!("an execution id has 1 to {ID_CHARS_MAX} characters of A-Z a-z 0-9 - _ . : and not only dots");
    Err(Error::new(Code::InvalidExecutionId, message))
}

/// The id of an execution that may be there: those of children are longer.
pub(super) fn known_id(id: &str) -> Result<()> {
    if is_id(id, DERIVED_ID_CHARS_MAX) { Ok(()) } else { new_id("") }
}

/// The id of a batch that may be there. It is a UUID; what cannot be one is not there either.
pub(super) fn batch_id(id: &str) -> Result<()> {
    if is_id(id, ID_CHARS_MAX) {
        return Ok(());
    }
    Err(Error::new(Code::NotFound, format!("there is no batch {id:?}; check the id")))
}

/// A name, code, key or version: something, and not too long.
pub(super) fn name(field: &str, text: &str) -> Result<()> {
    name_of(field, text, NAME_BYTES_MAX)
}

/// The name of a signal or query, or a sender's name for a signal: they are keys of rows.
pub(super) fn signal(field: &str, text: &str) -> Result<()> {
    name_of(field, text, SIGNAL_NAME_BYTES_MAX)
}

fn name_of(field: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.trim().is_empty() {
        return refused(format!("`{field}` is empty; name it"));
    }
    if text.len() > bytes_max || text.contains(char::is_control) {
        return refused(format!("`{field}` is longer than {bytes_max} bytes or holds control characters"));
    }
    Ok(())
}

/// A token, cursor or session, which the node once made.
pub(super) fn opaque(field: &str, text: &str) -> Result<()> {
    if text.is_empty() {
        return refused(format!("`{field}` is empty; send it as the node gave it"));
    }
    if text.len() > OPAQUE_BYTES_MAX {
        return refused(format!("`{field}` is longer than any that a node gives; send it as it was given"));
    }
    Ok(())
}

/// A text for people.
pub(super) fn text(field: &str, text: &str) -> Result<()> {
    if text.len() > TEXT_BYTES_MAX {
        return refused(format!("`{field}` is longer than {TEXT_BYTES_MAX} bytes; shorten it"));
    }
    Ok(())
}

/// A payload of at most `bytes_max`.
pub(super) fn payload(field: &str, payload: &Payload, bytes_max: usize) -> Result<()> {
    if payload.len() > bytes_max {
        let message = format!(
            "`{field}` has {} bytes, at most {bytes_max} are kept; store it elsewhere and pass a link",
            payload.len()
        );
        return Err(Error::new(Code::PayloadTooLarge, message));
    }
    Ok(())
}

/// What is to be started, but for its input.
pub(super) fn start(request: &StartExecution) -> Result<()> {
    name("workflow", &request.workflow)?;
    for (field, text) in [("version", &request.version), ("fairness_key", &request.fairness_key)] {
        if let Some(text) = text {
            name(field, text)?;
        }
    }
    if let Some(id) = &request.execution_id {
        new_id(id)?;
    }
    if request.priority.is_some_and(|priority| !(1..=5).contains(&priority)) {
        return refused("`priority` is a number from 1 to 5, 1 first");
    }
    Ok(())
}

/// Units by their keys. None at all is refused: a program whose list came out empty does not mean every unit.
pub(super) fn steps(keys: &[String]) -> Result<()> {
    if keys.is_empty() {
        return refused("`steps` is empty; name units by their keys, or leave it out for all of them");
    }
    if keys.len() > STEPS_MAX {
        return refused(format!("`steps` names more than {STEPS_MAX} units; redrive them in several calls"));
    }
    keys.iter().try_for_each(|key| text("steps", key))
}

/// Which executions are wanted.
pub(super) fn filter(request: ListExecutions) -> Result<ListExecutions> {
    for (field, text) in [("workflow", &request.workflow), ("version", &request.version)] {
        if let Some(text) = text {
            name(field, text)?;
        }
    }
    if request.attributes.len() > ATTRIBUTES_MAX {
        return refused(format!("a filter names at most {ATTRIBUTES_MAX} attributes; leave some out"));
    }
    for (name, value) in &request.attributes {
        if !is_attribute(name) {
            let form = format!("[a-z_][a-z0-9_]{{0,{}}}", ATTRIBUTE_BYTES_MAX - 1);
            return refused(format!("no attribute is called {name:?}; write attr.NAME with a name of the form {form}"));
        }
        if value.len() > OPAQUE_BYTES_MAX {
            return refused(format!("`attr.{name}` is longer than {OPAQUE_BYTES_MAX} bytes; shorten it"));
        }
    }
    if let Some(cursor) = &request.cursor {
        opaque("cursor", cursor)?;
    }
    Ok(request)
}

/// The form of step ids, which attributes have as well.
fn is_attribute(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let starts = name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    starts && name.len() <= ATTRIBUTE_BYTES_MAX && name.bytes().all(fits)
}

/// All tokens that a worker says it holds.
pub(super) fn tokens(tokens: &[String]) -> Result<()> {
    if tokens.len() > TOKENS_MAX {
        return refused(format!("a worker lists at most {TOKENS_MAX} tokens"));
    }
    tokens.iter().try_for_each(|token| opaque("tokens", token))
}

/// A worker's registration.
pub(super) fn register(request: &Register) -> Result<()> {
    name("worker_id", &request.worker_id)?;
    name("runtime", &request.runtime)?;
    if let Some(sdk) = &request.sdk {
        text("sdk", sdk)?;
    }
    if request.contracts.is_empty() {
        return refused("`contracts` is empty; name at least one task that the worker carries out");
    }
    if request.contracts.len() > CONTRACTS_MAX {
        return refused(format!("`contracts` has more than {CONTRACTS_MAX} entries; share them among several workers"));
    }
    for contract in &request.contracts {
        name("task_name", &contract.task_name)?;
        name("contract_version", &contract.contract_version)?;
        if contract.task_name.starts_with("orbit.") {
            let message = format!("`{}` is carried out by the node itself; take another name", contract.task_name);
            return Err(Error::new(Code::ReservedTask, message));
        }
    }
    if let Some(session) = &request.worker_session_id {
        opaque("worker_session_id", session)?;
    }
    tokens(&request.tokens)
}

/// The code of a worker's failure: `[A-Z][A-Z0-9_]*`, the form in which documents name codes, so that one in another
/// form is a mistake of the worker and not a failure that no document can tell apart.
pub(super) fn error_code(code: &str) -> Result<()> {
    name("error_code", code)?;
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    if !code.starts_with(|first: char| first.is_ascii_uppercase()) || !code.bytes().all(fits) {
        return refused(format!("`error_code` is {code:?}; a code has the form [A-Z][A-Z0-9_]*, such as CARD_REFUSED"));
    }
    if is_own_code(code) {
        return refused(format!("`{code}` is a code of Orbit's own; give the failure another one"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_short_plain_and_not_only_dots() {
        for id in ["a", "A-Z_0.9:x", "a..b", &"x".repeat(200)] {
            assert_eq!(new_id(id), Ok(()), "{id}");
        }
        for id in ["", ".", "..", "...", "a/b", "a b", "ä", "a\0", &"x".repeat(201)] {
            assert_eq!(new_id(id).unwrap_err().code, Code::InvalidExecutionId, "{id}");
        }
        assert_eq!(known_id(&"x".repeat(1_000)), Ok(()), "a child's");
        assert!(known_id(&"x".repeat(1_001)).is_err());
        assert!(known_id("..").is_err());
    }

    #[test]
    fn an_attribute_is_called_as_steps_are() {
        let named = |name: &str, value: &str| {
            let attributes = [(name.to_owned(), value.to_owned())].into();
            filter(ListExecutions { attributes, ..ListExecutions::default() }).map(drop)
        };
        for name in ["a", "_", "customer_id", "a1", &"x".repeat(64)] {
            assert_eq!(named(name, ""), Ok(()), "{name}");
        }
        for name in ["", "A", "1a", "a-b", "a.b", "ä", &"x".repeat(65)] {
            assert_eq!(named(name, "v").unwrap_err().code, Code::InvalidRequest, "{name}");
        }
        assert_eq!(named("a", &"x".repeat(2_049)).unwrap_err().code, Code::InvalidRequest);
        let attributes = (0..17).map(|n| (format!("a{n}"), String::new())).collect();
        assert!(filter(ListExecutions { attributes, ..ListExecutions::default() }).is_err());
    }

    #[test]
    fn a_code_is_upper_case_and_none_of_orbits_own() {
        for code in ["E", "EXIT_1", "A__", "CARD_REFUSED"] {
            assert_eq!(error_code(code), Ok(()), "{code}");
        }
        for code in ["", " ", "e", "Card_Refused", "1A", "_A", "A-B", "A B", "ÄRGER", "A\n", "TIMEOUT"] {
            let error = error_code(code).unwrap_err();
            assert!(error.code == Code::InvalidRequest && error.message.contains("code"), "{code}: {error}");
        }
    }
}
