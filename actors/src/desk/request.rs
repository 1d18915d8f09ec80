//! What a worker must say about itself, read into what cannot be wrong.

use workflow::command::Token;
use workflow::document::BUILT_IN_TASKS;

use super::{CONTRACTS_MAX, Listed, TOKENS_MAX};
use crate::api::{Register, TaskVersion};
use crate::error::{Code, Error, Result};

/// Bytes of an id, a name, a version.
const NAME_BYTES_MAX: usize = 200;

/// The worker that carries out built-in tasks (L12): the node itself. Nobody else may take the name.
pub(super) const BUILT_IN_WORKER: &str = "orbit";

/// A registration that may be carried out.
#[derive(Debug)]
pub(super) struct Valid {
    pub(super) worker_id: String,
    pub(super) runtime: String,
    pub(super) sdk: Option<String>,
    /// In order, each once. A built-in task has no contract, and an empty version here.
    pub(super) contracts: Vec<TaskVersion>,
    pub(super) tokens: Vec<Listed>,
    pub(super) session: Option<String>,
}

impl TryFrom<Register> for Valid {
    type Error = Error;

    fn try_from(request: Register) -> Result<Self> {
        let Register { worker_id, runtime, sdk, mut contracts, slots: _, tokens, worker_session_id } = request;
        named("worker_id", &worker_id)?;
        if worker_id == BUILT_IN_WORKER {
            return Err(invalid(format!("worker_id: `{BUILT_IN_WORKER}` is the node itself; take another name")));
        }
        short("runtime", &runtime)?;
        short("sdk", sdk.as_deref().unwrap_or_default())?;
        if contracts.is_empty() || contracts.len() > CONTRACTS_MAX {
            let found = contracts.len();
            return Err(invalid(format!("contracts: 1 to {CONTRACTS_MAX} of them are needed, found {found}")));
        }
        for contract in &contracts {
            named("task_name", &contract.task_name)?;
            named("contract_version", &contract.contract_version)?;
            if contract.task_name.starts_with("orbit.") {
                let task = &contract.task_name;
                return Err(Error::new(Code::ReservedTask, format!("{task} is built in: Orbit carries it out itself")));
            }
        }
        contracts.sort();
        contracts.dedup();
        // An empty one is none: that is how some formats leave a field out.
        let session = worker_session_id.filter(|session| !session.is_empty());
        if let Some(session) = &session {
            named("worker_session_id", session)?;
        }
        Ok(Self { worker_id, runtime, sdk, contracts, tokens: listed(&tokens)?, session })
    }
}

impl Valid {
    /// The node itself, which needs no permission: with all built-in tasks, and the tokens it holds.
    pub(super) fn built_in(session: String, tokens: &[String]) -> Result<Self> {
        let contract = |task: &&str| TaskVersion { task_name: (*task).to_owned(), contract_version: String::new() };
        Ok(Self {
            worker_id: BUILT_IN_WORKER.to_owned(),
            runtime: BUILT_IN_WORKER.to_owned(),
            sdk: None,
            contracts: BUILT_IN_TASKS.iter().map(contract).collect(),
            tokens: listed(tokens)?,
            session: Some(session),
        })
    }
}

/// Reads a list of tokens.
pub(super) fn listed(tokens: &[String]) -> Result<Vec<Listed>> {
    if tokens.len() > TOKENS_MAX {
        let found = tokens.len();
        return Err(invalid(format!("tokens: a session holds at most {TOKENS_MAX}, found {found}")));
    }
    Ok(tokens.iter().map(|text| Listed { text: text.clone(), token: text.parse::<Token>().ok() }).collect())
}

fn named(field: &str, text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Err(invalid(format!("{field}: must not be blank")));
    }
    short(field, text)
}

fn short(field: &str, text: &str) -> Result<()> {
    if text.len() > NAME_BYTES_MAX {
        let found = text.len();
        return Err(invalid(format!("{field}: at most {NAME_BYTES_MAX} bytes, found {found}")));
    }
    Ok(())
}

fn invalid(message: String) -> Error {
    Error::new(Code::InvalidRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(change: impl FnOnce(&mut Register)) -> Result<Valid, Code> {
        let contract = TaskVersion { task_name: "pay".into(), contract_version: "1.0.0".into() };
        let mut request = Register { worker_id: "w".into(), contracts: vec![contract], ..Register::default() };
        change(&mut request);
        Valid::try_from(request).map_err(|error| error.code)
    }

    #[test]
    fn what_is_needed_is_a_name_and_a_contract() {
        assert!(register(|_| {}).is_ok());
        for blank in ["", "  ", "\t"] {
            assert_eq!(register(|r| r.worker_id = blank.into()).unwrap_err(), Code::InvalidRequest);
            assert_eq!(register(|r| r.contracts[0].task_name = blank.into()).unwrap_err(), Code::InvalidRequest);
        }
        assert_eq!(register(|r| r.contracts.clear()).unwrap_err(), Code::InvalidRequest);
    }

    #[test]
    fn built_in_tasks_are_not_for_workers() {
        let code = register(|r| r.contracts[0].task_name = "orbit.http.request".into()).unwrap_err();
        assert_eq!(code, Code::ReservedTask);
        assert!(register(|r| r.contracts[0].task_name = "orbital.decay".into()).is_ok());
        let code = register(|r| r.worker_id = "orbit".into()).unwrap_err();
        assert_eq!(code, Code::InvalidRequest, "the worker that carries them out is the node");
    }

    #[test]
    fn nothing_is_boundless() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(register(|r| r.worker_id = long.clone()).unwrap_err(), Code::InvalidRequest);
        assert_eq!(register(|r| r.sdk = Some(long.clone())).unwrap_err(), Code::InvalidRequest);
        assert_eq!(register(|r| r.worker_session_id = Some(long.clone())).unwrap_err(), Code::InvalidRequest);
        let many = |n: usize| move |r: &mut Register| r.contracts = vec![r.contracts[0].clone(); n];
        assert_eq!(register(many(CONTRACTS_MAX)).unwrap().contracts.len(), 1, "each counts once");
        assert_eq!(register(many(CONTRACTS_MAX + 1)).unwrap_err(), Code::InvalidRequest);
        assert!(register(|r| r.tokens = vec![String::new(); TOKENS_MAX]).is_ok());
        assert_eq!(register(|r| r.tokens = vec![String::new(); TOKENS_MAX + 1]).unwrap_err(), Code::InvalidRequest);
    }
}
