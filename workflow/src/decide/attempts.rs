//! Tasks, children and signals: scheduled, tried again, handed over again (L3, L5, L8).

use super::block::violation;
use super::scope::StepScope;
use super::{Facts, Walk, Walked, next};
use crate::definition::{Compensate, DurationSpec, Kind, Retry, SignalSpec, Step, Task, UndoAction};
use crate::document::BUILT_IN_TASKS;
use crate::event::{Child, Queue, SignalTarget, StepAttemptFailed, StepScheduled, TaskError};
use crate::expression::Template;
use crate::key::{self, Key};
use crate::state::{Status, Unit, Work};
use crate::value::{Payload, Value};

/// Hand-overs of one attempt that may come to nothing.
const HAND_OVERS_MAX: u32 = 10;

/// Most characters of a derived id (L8).
const CHILD_ID_CHARS_MAX: usize = 1_000;

/// Characters that an attempt may add to a derived id: `:a` and a number.
const ATTEMPT_CHARS: usize = 12;

/// What is carried out outside, by a step or by an undo.
#[derive(Clone, Copy)]
pub(super) enum Action<'a> {
    Task(&'a Task),
    Workflow { name: &'a Template, version: Option<&'a semver::Version>, input: &'a Template },
    Signal(&'a SignalSpec),
}

impl<'a> Action<'a> {
    pub(super) fn of_step(step: &'a Step) -> Option<Self> {
        match &step.kind {
            Kind::Task(task) => Some(Self::Task(task)),
            Kind::Workflow { name, version, input } => Some(Self::Workflow { name, version: version.as_ref(), input }),
            Kind::Signal(signal) => Some(Self::Signal(signal)),
            _ => None,
        }
    }

    pub(super) fn of_undo(undo: &'a Compensate) -> Self {
        match &undo.action {
            UndoAction::Task(task) => Self::Task(task),
            UndoAction::Workflow { name, version, input } => Self::Workflow { name, version: version.as_ref(), input },
            UndoAction::Signal(signal) => Self::Signal(signal),
        }
    }

    fn is_task(self) -> bool {
        matches!(self, Self::Task(_))
    }
}

/// What became of the attempts of a unit.
pub(super) enum Attempts {
    /// Something is under way, or nothing is due.
    UnderWay,
    /// They are used up.
    Failed(TaskError),
}

impl Walk<'_> {
    /// A task, child or signal as a step.
    pub(super) fn acting(&mut self, key: &Key, step: &Step) -> Walked {
        let Some(action) = Action::of_step(step) else { return Ok(()) };
        match self.unit(key).filter(|unit| unit.idempotency_key.is_some()) {
            None => match self.first_schedule(key, action, &self.scope(key)) {
                Ok(event) => next(event),
                Err(fault) => self.unit_fails(key, &fault),
            },
            Some(unit) => match self.attempts(key, unit, action, step.retry.as_ref())? {
                Attempts::UnderWay => Ok(()),
                Attempts::Failed(error) => self.unit_fails(key, &error),
            },
        }
    }

    /// What follows from the state of a unit that has been scheduled.
    pub(super) fn attempts(
        &mut self,
        key: &Key,
        unit: &Unit,
        action: Action<'_>,
        retry: Option<&Retry>,
    ) -> Walked<Attempts> {
        match unit.status {
            // The same attempt again; but enough is enough (L5).
            Status::Uncertain if unit.lost >= HAND_OVERS_MAX => next(StepAttemptFailed {
                step: key.clone(),
                attempt: unit.attempt,
                error: TaskError::transient(
                    "WORKER_LOST",
                    format!("handed over {HAND_OVERS_MAX} times without a result"),
                ),
                unknown: true,
            }),
            Status::Uncertain => next(self.schedule_again(key, unit, unit.attempt, true)),
            Status::Redriven => next(self.schedule_again(key, unit, unit.attempt + 1, false)),
            Status::RetryWait if self.state.timer_fired(key) => {
                next(self.schedule_again(key, unit, unit.attempt + 1, false))
            }
            Status::AttemptFailed => {
                let error = unit.error.clone().unwrap_or_else(|| TaskError::permanent("INTERNAL", "no error"));
                let tried = self.as_retried(&error, unit, retry);
                self.retry(key, &tried, retry, action.is_task())?;
                Ok(Attempts::Failed(error))
            }
            _ => Ok(Attempts::UnderWay),
        }
    }
}

impl Facts<'_> {
    /// A child is tried again only where `retry` is written, and then whatever it ended in (L8).
    fn as_retried(&self, error: &TaskError, unit: &Unit, retry: Option<&Retry>) -> TaskError {
        let is_child = matches!(unit.work, Some(Work::Child(_)));
        let again = is_child && retry.is_some() && error.code != "INPUT_CONTRACT_VIOLATION";
        TaskError { retryable: error.retryable || again, ..error.clone() }
    }

    /// The first StepScheduled of a unit, or why it fails before anything of it was scheduled.
    pub(super) fn first_schedule(
        &self,
        key: &Key,
        action: Action<'_>,
        scope: &StepScope<'_>,
    ) -> Result<StepScheduled, TaskError> {
        let mut event = StepScheduled {
            step: key.clone(),
            attempt: 1,
            input: None,
            idempotency_key: key::idempotency_key(
                self.execution_id,
                self.state.head.first_created_at_ms,
                self.state.head.run,
                key,
            ),
            redelivery: false,
            queue: None,
            child: None,
            signal: None,
            timeout_ms: None,
            queue_timeout_ms: None,
            heartbeat_timeout_ms: None,
        };
        let input = match action {
            Action::Task(task) => self.schedule_task(&mut event, task, scope)?,
            Action::Workflow { name, version, input } => {
                let input = self.payload(input, scope)?;
                event.child = Some(self.child(key, name, version, scope)?);
                input
            }
            Action::Signal(signal) => {
                let target = |template| self.value(template, scope).and_then(|value| text_of(&value));
                let (execution, name) = (target(&signal.execution)?, target(&signal.name)?);
                event.signal = Some(SignalTarget { execution, name });
                self.payload(&signal.payload, scope)?
            }
        };
        event.input = Some(input);
        Ok(event)
    }

    fn schedule_task(
        &self,
        event: &mut StepScheduled,
        task: &Task,
        scope: &StepScope<'_>,
    ) -> Result<Payload, TaskError> {
        let input = self.payload(&task.input, scope)?;
        let name = text_of(&self.value(&task.name, scope)?)?;
        let contract = self.definition.tasks.get(&name);
        // A chosen name must be declared (L16), which a built-in one cannot be: so no input chooses one.
        let is_built_in = task.name.constant().is_some() && BUILT_IN_TASKS.contains(&name.as_str());
        if contract.is_none() && !is_built_in {
            return Err(TaskError::permanent("UNKNOWN_TASK", format!("{name} is not declared in tasks")));
        }
        if let Some(contract) = contract.and_then(|contract| contract.input.as_ref()) {
            let what = || format!("the input of {name} for {}", event.step);
            contract.check(&input).map_err(|faults| violation("INPUT_CONTRACT_VIOLATION", &what(), &faults))?;
        }
        let ms = |spec: &Option<DurationSpec>| spec.as_ref().map(|spec| self.duration(spec, scope)).transpose();
        event.timeout_ms = ms(&task.timeout)?;
        event.queue_timeout_ms = ms(&task.queue_timeout)?;
        event.heartbeat_timeout_ms = ms(&task.heartbeat_timeout)?;
        event.queue = Some(Queue {
            task: name,
            version: contract.map(|contract| contract.version.to_string()),
            language: task.language.clone(),
        });
        Ok(input)
    }

    fn child(
        &self,
        key: &str,
        name: &Template,
        version: Option<&semver::Version>,
        scope: &StepScope<'_>,
    ) -> Result<Child, TaskError> {
        let workflow = text_of(&self.value(name, scope)?)?;
        let declared = self.definition.workflows.get(&workflow);
        // A version beside the step counts for the name that is written there, not for a chosen one.
        let beside = version.filter(|_| name.constant().is_some());
        let Some(version) = declared.or(beside) else {
            return Err(TaskError::permanent("UNKNOWN_WORKFLOW", format!("{workflow} is not declared in workflows")));
        };
        let id = key::child_id(self.execution_id, key, self.state.head.run, 1);
        // Attempts add a few characters; a chain of children that call themselves ends here at the latest (L8).
        let length = id.chars().count() + ATTEMPT_CHARS;
        if length > CHILD_ID_CHARS_MAX {
            let message = format!("the child's id would have {length} characters, {CHILD_ID_CHARS_MAX} is the most");
            return Err(TaskError::permanent("PAYLOAD_TOO_LARGE", message));
        }
        Ok(Child { id, workflow, version: version.to_string(), hash: None })
    }

    /// A further StepScheduled: the input is left out, the key is the recorded one (L11, L12).
    fn schedule_again(&self, key: &Key, unit: &Unit, attempt: u32, redelivery: bool) -> StepScheduled {
        let (mut queue, mut child, mut signal) = (None, None, None);
        match &unit.work {
            Some(Work::Task(work)) => queue = Some(work.clone()),
            Some(Work::Child(work)) => {
                let id = key::child_id(self.execution_id, key, self.state.head.run, attempt);
                child = Some(Child { id, ..work.clone() });
            }
            Some(Work::Signal(work)) => signal = Some(work.clone()),
            None => {}
        }
        StepScheduled {
            step: key.clone(),
            attempt,
            input: None,
            idempotency_key: unit.idempotency_key.clone().unwrap_or_default(),
            redelivery,
            queue,
            child,
            signal,
            timeout_ms: unit.timeout_ms,
            queue_timeout_ms: unit.queue_timeout_ms,
            heartbeat_timeout_ms: unit.heartbeat_timeout_ms,
        }
    }
}

/// A name that an expression gave.
fn text_of(value: &Value) -> Result<String, TaskError> {
    let no_text = || TaskError::expression(format!("a name is needed, not {}", value.to_json()));
    value.as_str().map(str::to_owned).ok_or_else(no_text)
}
