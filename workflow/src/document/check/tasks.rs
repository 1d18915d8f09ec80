//! Tasks and children that steps name are declared; names that begin with `orbit.` are built in.

use super::Report;
use crate::document::grammar::{BUILT_IN_TASKS, Form};
use crate::document::marked::{Marked, join};
use crate::document::outline::Outline;

pub(super) fn check(outline: &Outline<'_>, report: &mut Report) {
    let names =
        |field| outline.document.get(field).map_or(&[][..], Marked::entries).iter().map(|entry| entry.key.as_str());
    let tasks: Vec<&str> = names("tasks").collect();
    let workflows: Vec<&str> = names("workflows").collect();
    for entry in outline.document.get("tasks").into_iter().flat_map(Marked::entries) {
        if entry.key.starts_with("orbit.") {
            let message = "names that begin with `orbit.` are built in and need no contract";
            report.fault(entry.key_place, join("/tasks", &entry.key), message);
        }
    }
    for step in &outline.steps {
        task(step.node.get("task"), &join(&step.path, "task"), &tasks, report);
        language(step.node, &step.path, report);
        child(step.node.get("workflow"), &join(&step.path, "workflow"), &workflows, report);
        if let Some(undo) = step.node.get("compensate") {
            let path = join(&step.path, "compensate");
            task(undo.get("task"), &join(&path, "task"), &tasks, report);
            language(undo, &path, report);
            child(undo.get("workflow"), &join(&path, "workflow"), &workflows, report);
        }
    }
}

fn task(node: Option<&Marked>, path: &str, declared: &[&str], report: &mut Report) {
    let Some((node, name)) = fixed_name(node, Form::Task) else { return };
    if declared.contains(&name) || BUILT_IN_TASKS.contains(&name) {
        return;
    }
    if name.starts_with("orbit.") {
        let message = format!("there is no built-in task `{name}`");
        report.misnamed(node.place, path, message, name, BUILT_IN_TASKS);
    } else {
        let message = format!("the task `{name}` has no contract in `tasks`");
        report.misnamed(node.place, path, message, name, declared.iter().copied());
    }
}

/// Nobody who carries out a built-in announces a language: the task would wait for ever.
fn language(node: &Marked, path: &str, report: &mut Report) {
    let Some((_, name)) = fixed_name(node.get("task"), Form::Task) else { return };
    let Some(language) = node.get("language").filter(|_| BUILT_IN_TASKS.contains(&name)) else { return };
    let message = format!("{name} is carried out by Orbit itself; leave out `language`");
    report.fault(language.place, join(path, "language"), message);
}

fn child(node: Option<&Marked>, path: &str, declared: &[&str], report: &mut Report) {
    let Some(child) = node else { return };
    let Some((node, name)) = fixed_name(child.get("name"), Form::Workflow) else { return };
    if child.get("version").is_none() && !declared.contains(&name) {
        let message = format!("the child `{name}` needs a `version` here or in `workflows`");
        report.misnamed(node.place, &join(path, "name"), message, name, declared.iter().copied());
    }
}

/// The name of a text that is no `${…}` and has the form of a name.
fn fixed_name(node: Option<&Marked>, form: Form) -> Option<(&Marked, &str)> {
    let node = node?;
    let name = node.text().filter(|text| form.fits(text))?;
    Some((node, name))
}
