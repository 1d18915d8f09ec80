//! A unit has definitely failed: retries used up, or none would help (L5).

use super::events::closing_failed;
use super::{Facts, Role, Walk, Walked, next};
use crate::definition::{OnFailure, Step};
use crate::event::{StepFailed, StepSuspended, TaskError};
use crate::key::{self, Key};

impl Walk<'_> {
    /// What `on_failure` says of it.
    pub(super) fn unit_fails<T>(&mut self, key: &str, error: &TaskError) -> Walked<T> {
        let then = self.step(key).map_or(OnFailure::Fail, |step| self.rule(key, step, error));
        self.unit_ends_badly(key, error, then)
    }

    /// An operator gave it up: `on_failure` is not asked again (L16).
    pub(super) fn unit_fails_by_hand<T>(&mut self, key: &str, error: &TaskError) -> Walked<T> {
        self.unit_ends_badly(key, error, OnFailure::Fail)
    }

    fn unit_ends_badly<T>(&mut self, key: &str, error: &TaskError, then: OnFailure) -> Walked<T> {
        let (step, error) = (Key::from(key), error.clone());
        if then == OnFailure::Suspend {
            return next(StepSuspended { step, error });
        }
        let handled = if self.is_element(key) {
            self.is_tolerated(key)
        } else {
            then == OnFailure::Continue && key::step_of(key).len() == key.len()
        };
        if handled && self.must_be_undone_first(key) {
            return next(closing_failed(key, error));
        }
        next(StepFailed { step, error, handled })
    }
}

impl Facts<'_> {
    fn rule(&self, key: &str, step: &Step, error: &TaskError) -> OnFailure {
        let scope = || self.scope(key).with_error(error);
        let rule = step.on_failure.iter().find(|rule| rule.when.as_ref().is_none_or(|w| self.matches(w, &scope())));
        rule.map_or(OnFailure::Fail, |rule| rule.then)
    }

    fn is_element(&self, key: &str) -> bool {
        let segment = key::last_segment(key);
        segment.element.is_some() && segment.iteration.is_none()
    }

    /// `max_failures` decides about elements (L16).
    fn is_tolerated(&self, key: &str) -> bool {
        let fan_out = self.unit(key::step_of(key)).and_then(|unit| unit.fan_out.as_ref());
        fan_out.is_some_and(|fan_out| fan_out.failed < fan_out.max_failures)
    }

    /// A handled failure that may have happened all the same is undone, by itself, before anything goes on (L5).
    fn must_be_undone_first(&self, key: &str) -> bool {
        self.unit(key).is_some_and(|unit| unit.unknown)
            && self.role(key) == Role::Acts
            && self.compensation(key).is_some()
            && self.state.undos.get(key).is_none_or(|undo| undo.outcome.is_none())
            && self.state.closing(key).is_none()
    }
}
