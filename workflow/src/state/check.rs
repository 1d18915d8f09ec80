//! What must hold of a state, counted a second time from its units.

use std::collections::BTreeMap;

use super::{Execution, Progress, Status};
use crate::key::{self, Key};

impl Execution {
    /// Progress of every open block instance, counted from its units.
    pub(super) fn counted(&self) -> BTreeMap<Key, Progress> {
        let mut failed_at: BTreeMap<Key, u64> = BTreeMap::new();
        let mut counted: BTreeMap<Key, Progress> = BTreeMap::new();
        for (key, unit) in self.units.iter() {
            let path = key::parent(key);
            if key::is_undo(key) || key::step_of(key).len() != key.len() || !self.is_open_instance(path) {
                continue;
            }
            let owner = Key::from(key::unit_of(path));
            let progress = counted.entry(owner.clone()).or_default();
            progress.started += 1;
            progress.resolved += u32::from(unit.is_resolved());
            let earlier = unit.done < failed_at.get(&owner).copied().or(Some(u64::MAX));
            if unit.status == Status::Failed && !unit.handled && earlier {
                failed_at.insert(owner, unit.done.unwrap_or_default());
                progress.failed = Some(key.clone());
            }
        }
        counted
    }

    /// `x~1` is no more once `x~2` is open.
    pub(super) fn is_open_instance(&self, path: &str) -> bool {
        if path.is_empty() || key::is_handler_path(path) {
            return true;
        }
        let attempt = key::last_segment(path).attempt;
        self.unit(key::unit_of(path)).is_some_and(|unit| attempt.is_none_or(|attempt| attempt == unit.attempt))
    }

    /// What is wrong with this state; nothing, if the engine is right.
    #[must_use]
    pub fn check(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let counted = self.counted();
        for (path, progress) in &counted {
            if self.progress(path) != Some(progress) {
                faults.push(format!("{path}: progress {:?}, counted {progress:?}", self.progress(path)));
            }
        }
        for (key, unit) in self.units.iter() {
            if unit.is_resolved() != unit.done.is_some() && !key::is_undo(key) {
                faults.push(format!("{key}: {:?} and done {:?}", unit.status, unit.done));
            }
            if unit.token.is_some() != (unit.status == Status::Dispatched) {
                faults.push(format!("{key}: {:?} with token {:?}", unit.status, unit.token));
            }
            if let Some(fan_out) = &unit.fan_out {
                let elements = (0..fan_out.started).map(|i| self.unit(&format!("{}[{i}]", &**key)));
                let (succeeded, failed) = elements.fold((0, 0), |(s, f), unit| match unit.map(|unit| unit.status) {
                    Some(Status::Succeeded) => (s + 1, f),
                    Some(Status::Failed) => (s, f + 1),
                    _ => (s, f),
                });
                if (succeeded, failed) != (fan_out.succeeded, fan_out.failed) {
                    faults.push(format!("{key}: {succeeded} succeeded, {failed} failed, says {fan_out:?}"));
                }
            }
        }
        let attention = self.units.iter().filter(|(_, unit)| unit.status == Status::Suspended).count() as u64;
        if attention != self.head.attention {
            faults.push(format!("{attention} suspended, says {}", self.head.attention));
        }
        faults.extend(self.check_timers());
        faults
    }

    /// Timers that run for nothing, and units that wait for a timer that does not run.
    fn check_timers(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.is_over() {
            return faults;
        }
        for (name, timer) in self.timers.iter() {
            if timer.fire_at_ms.is_some() && !self.has_use_for(name) {
                faults.push(format!("timer {name:?} runs, and nothing waits for it"));
            }
        }
        for (key, unit) in self.units.iter() {
            // While it is paused, or something around it closes, it may have to wait for that to go on.
            let waits = matches!(unit.status, Status::Waiting | Status::RetryWait)
                && !self.head.paused
                && self.outermost_closing(key).is_none();
            if waits && !self.timer_runs(key) && !self.timer_fired(key) {
                faults.push(format!("{key}: {:?} and its timer does not run", unit.status));
            }
        }
        faults
    }

    fn has_use_for(&self, timer: &str) -> bool {
        if let Some(closing) = timer.strip_prefix(key::GRACE) {
            return self.closings.contains(closing);
        }
        let key = timer.strip_prefix(key::DEADLINE).unwrap_or(timer);
        if let Some(unit) = self.unit(key) {
            return !unit.is_resolved();
        }
        // The delay before an iteration is named after the iteration, which has no unit yet. It is not cancelled when
        // what is around it ends early: then it fires for nothing.
        self.unit(key::element_of(key)).is_some()
    }
}
