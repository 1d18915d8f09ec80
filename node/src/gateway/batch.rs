//! One action on many executions: from the fields that callers write to what the engine does.

use orbit_actors::api::{BatchAction, BatchStarted, BatchState, StartBatch};
use orbit_actors::error::{Error, Result};
use orbit_raft::Environment;
use workflow::value::Payload;

use super::audit::{self, Deed};
use super::caller::{Action, Caller, authorize};
use super::service::Service;
use super::validate;

/// What is to be done, field by field. Absent is what was not said.
#[derive(Debug, Default)]
#[allow(missing_docs)] // as in docs/api.md
pub struct Fields {
    pub action: String,
    pub reason: Option<String>,
    pub force: Option<bool>,
    pub steps: Option<Vec<String>>,
    pub redrive_action: Option<String>,
    pub output: Option<Payload>,
    pub signal: Option<String>,
    pub payload: Option<Payload>,
}

/// The actions there are.
const ACTIONS: [&str; 6] = ["cancel", "pause", "resume", "redrive", "signal", "delete"];

impl Fields {
    /// The action with what belongs to it.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for an unknown action, a field of another one, or one that is missing.
    pub fn action(self) -> Result<BatchAction> {
        let said = [
            ("reason", "cancel", self.reason.is_some()),
            ("force", "cancel", self.force.is_some()),
            ("steps", "redrive", self.steps.is_some()),
            ("redrive_action", "redrive", self.redrive_action.is_some()),
            ("output", "redrive", self.output.is_some()),
            ("signal", "signal", self.signal.is_some()),
            ("payload", "signal", self.payload.is_some()),
        ];
        let action = self.action.as_str();
        if !ACTIONS.contains(&action) {
            return validate::refused(format!("`action` is {action:?}; it is one of {}", ACTIONS.join(", ")));
        }
        if let Some((field, of, _)) = said.into_iter().find(|(_, of, is_said)| *is_said && *of != action) {
            return validate::refused(format!("`{field}` belongs to the action {of}, not to {action}; leave it out"));
        }
        Ok(match action {
            "cancel" => {
                BatchAction::Cancel { reason: self.reason.unwrap_or_default(), force: self.force.unwrap_or_default() }
            }
            "pause" => BatchAction::Pause,
            "resume" => BatchAction::Resume,
            "redrive" => BatchAction::Redrive { steps: self.steps, action: self.redrive_action, output: self.output },
            "signal" => match self.signal {
                Some(name) => {
                    BatchAction::Signal { name, payload: self.payload.unwrap_or_else(|| Payload::stored("{}")) }
                }
                None => return validate::refused("`signal` is missing; name the signal"),
            },
            _ => BatchAction::Delete,
        })
    }
}

/// What a caller needs for one of them he needs for many.
fn authority(action: &BatchAction) -> Action {
    match action {
        BatchAction::Cancel { .. } => Action::Cancel,
        BatchAction::Pause | BatchAction::Resume => Action::Pause,
        BatchAction::Redrive { .. } => Action::Redrive,
        BatchAction::Signal { .. } => Action::Signal,
        BatchAction::Delete => Action::Delete,
    }
}

#[allow(missing_docs)] // each is the operation of the engine with the same name
impl<E: Environment> Service<E> {
    /// Listing must be allowed as well, for the answer tells how many there are.
    pub async fn start_batch(&self, caller: Caller, request: StartBatch) -> Result<BatchStarted> {
        authorize(caller, Action::List)?;
        authorize(caller, authority(&request.action))?;
        let filter = validate::filter(request.filter)?;
        match &request.action {
            BatchAction::Cancel { reason, .. } => validate::text("reason", reason)?,
            BatchAction::Redrive { steps, output, .. } => self.is_redrive(steps.as_deref(), output.as_ref())?,
            BatchAction::Signal { name, payload } => {
                validate::signal("signal", name)?;
                self.payload("payload", payload)?;
            }
            BatchAction::Pause | BatchAction::Resume | BatchAction::Delete => {}
        }
        let (what, dry_run) = (audit::verb(&request.action), request.dry_run);
        let started = self.engine().start_batch(StartBatch { filter, ..request }).await;
        if !dry_run {
            let id = started.as_ref().ok().and_then(|started| started.batch_id.as_deref()).unwrap_or_default();
            audit::record(caller, Deed::StartBatch(what), id, &started);
        }
        started
    }

    pub async fn batch(&self, caller: Caller, id: &str) -> Result<BatchState> {
        authorize(caller, Action::List)?;
        validate::batch_id(id)?;
        self.engine().batch(id).await
    }

    /// Whoever may cancel may stop.
    pub async fn stop_batch(&self, caller: Caller, id: &str) -> Result<BatchState> {
        authorize(caller, Action::Cancel)?;
        validate::batch_id(id)?;
        let stopped: Result<BatchState, Error> = self.engine().stop_batch(id).await;
        audit::record(caller, Deed::StopBatch, id, &stopped);
        stopped
    }
}

#[cfg(test)]
mod tests {
    use orbit_actors::error::Code;

    use super::*;

    fn refused(fields: Fields) -> String {
        let error = fields.action().unwrap_err();
        assert_eq!(error.code, Code::InvalidRequest);
        error.message
    }

    fn of(action: &str) -> Fields {
        Fields { action: action.to_owned(), ..Fields::default() }
    }

    #[test]
    fn each_action_has_its_own_fields() {
        let reason = || Some("enough".to_owned());
        let cancel = Fields { reason: reason(), force: Some(true), ..of("cancel") }.action();
        assert!(matches!(cancel, Ok(BatchAction::Cancel { reason, force: true }) if reason == "enough"));
        let signal = Fields { signal: Some("tell".to_owned()), ..of("signal") }.action();
        let whole = matches!(signal, Ok(BatchAction::Signal { name, payload })
            if name == "tell" && payload.as_str() == "{}");
        assert!(whole);
        for action in ["pause", "resume", "redrive", "delete"] {
            assert!(of(action).action().is_ok(), "{action}");
            assert!(refused(Fields { reason: reason(), ..of(action) }).starts_with("`reason` belongs to the action"));
        }
        assert!(refused(Fields { steps: Some(Vec::new()), ..of("cancel") }).contains("`steps`"));
        assert!(refused(Fields { payload: Some(Payload::default()), ..of("redrive") }).contains("`payload`"));
        assert!(refused(of("signal")).contains("`signal` is missing"));
        assert!(refused(of("Cancel")).contains("one of cancel, pause"), "one spelling each");
    }
}
