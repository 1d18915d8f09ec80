//! `compensate`: exactly one action, with the fields of that action (L9).

use super::Report;
use crate::document::marked::join;
use crate::document::outline::Outline;

const ACTIONS: [&str; 3] = ["task", "workflow", "signal"];
const ONLY_TASK: [&str; 4] = ["language", "timeout", "queue_timeout", "heartbeat_timeout"];

pub(super) fn check(outline: &Outline<'_>, report: &mut Report) {
    for step in &outline.steps {
        let Some(undo) = step.node.get("compensate") else { continue };
        let path = join(&step.path, "compensate");
        let actions: Vec<&str> = ACTIONS.into_iter().filter(|action| undo.get(action).is_some()).collect();
        let [action] = actions[..] else {
            if !undo.entries().is_empty() || actions.is_empty() {
                report.fault(undo.place, path, "an undo needs exactly one of task, workflow, signal");
            }
            continue;
        };
        for entry in undo.entries() {
            if action != "task" && ONLY_TASK.contains(&entry.key.as_str()) {
                let message = format!("`{}` is not allowed in an undo by {action}", entry.key);
                report.fault(entry.key_place, join(&path, &entry.key), message);
            } else if action == "signal" && entry.key == "input" {
                let message = "an undo by a signal carries `signal.payload`; this `input` goes nowhere";
                report.warn(entry.key_place, &join(&path, &entry.key), message.to_owned());
            }
        }
    }
}
