//! An operator moves units: closings are taken back, deadlines and the time-out start over, attempts count on with a
//! fresh budget (L10). The event names everything that moves, so that no definition is needed.

use super::evolve::At;
use super::{Execution, Progress, RunStatus, Status};
use crate::event::{RedriveAction, WorkflowRedriven};
use crate::key::{DEADLINE, GRACE, Key, ROOT};

impl Execution {
    pub(super) fn redriven(&mut self, e: &WorkflowRedriven, at: At) {
        if matches!(self.head.status, RunStatus::Failed | RunStatus::TimedOut) {
            self.take_back_the_end(at);
        }
        for key in &e.steps {
            match e.action {
                RedriveAction::Resolve => {
                    // Also one that failed before it began, which `reopen` has taken away.
                    self.make_unit(key, at);
                    self.set_status(key, Status::Resolving);
                    self.with_unit(key, |unit| unit.output.clone_from(&e.output));
                }
                RedriveAction::Fail => self.set_status(key, Status::Failing),
                RedriveAction::Retry => self.reopen(key),
            }
        }
        self.recount();
    }

    fn take_back_the_end(&mut self, at: At) {
        let head = &mut self.head;
        if let Some(timeout_at) = head.timeout_at_ms {
            head.timeout_at_ms = Some(at.now_ms + timeout_at.saturating_sub(head.created_at_ms));
        }
        head.status = RunStatus::Running;
        head.cancel = None;
        head.timed_out = false;
        head.error = None;
        head.ends += 1;
        self.closings.remove(ROOT);
        self.stop_timer(GRACE);
        self.forget_fired(GRACE);
    }

    fn reopen(&mut self, key: &Key) {
        let Some(unit) = self.units.get(&**key) else { return };
        let instance = format!("{}~{}", &**key, unit.attempt);
        let attempt_failed = self.closings.contains(&*instance);
        let (status, never_begun, opened) = (unit.status, unit.attempt == 0 && !unit.opened, unit.opened);
        if status == Status::Failed {
            self.count_element(key, |fan_out, _| fan_out.failed -= 1);
        }
        if never_begun {
            // Never came as far as being scheduled: starts as new.
            self.units.remove(&**key);
            self.count_element(key, |fan_out, element| {
                fan_out.holes.insert(element);
            });
            return;
        }
        let status = if opened && !attempt_failed { Status::Open } else { Status::Redriven };
        self.set_status(key, status);
        self.with_unit(key, |unit| {
            unit.base = unit.attempt;
            unit.done = None;
            unit.finished_at_ms = None;
            unit.error = None;
            unit.handled = false;
        });
        for name in [key.to_string(), format!("{DEADLINE}{}", &**key), format!("{GRACE}{}", &**key)] {
            self.closings.remove(&*name);
            self.stop_timer(&name);
            self.forget_fired(&name);
        }
        self.closings.remove(&*instance);
    }

    /// Counts anew what blocks know of their steps, and what waits for an operator.
    fn recount(&mut self) {
        let mut counted = self.counted();
        self.head.root = counted.remove(ROOT).unwrap_or_default();
        // Only what is counted otherwise now is touched, and so written: a long execution has many that are done.
        let mut count = |path: &str, before: &Progress| {
            let now = counted.remove(path).unwrap_or_default();
            (now != *before).then_some(now)
        };
        let units: Vec<_> =
            self.units.iter().filter_map(|(key, unit)| Some((key.clone(), count(key, &unit.progress)?))).collect();
        let handlers: Vec<_> = self
            .handlers
            .iter()
            .filter_map(|(name, handler)| Some((name.clone(), count(name, &handler.progress)?)))
            .collect();
        for (key, progress) in units {
            self.with_unit(&key, |unit| unit.progress = progress);
        }
        for (name, progress) in handlers {
            if let Some(handler) = self.handlers.get_mut(&*name) {
                handler.progress = progress;
            }
        }
        self.head.attention = self.units.iter().filter(|(_, unit)| unit.status == Status::Suspended).count() as u64;
    }
}
