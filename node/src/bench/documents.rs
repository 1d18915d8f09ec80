//! The workflows that are run.

use std::fmt::Write as _;

use super::Shape;

/// The task of all of them.
pub(super) const TASK: &str = "bench.answer";
/// The version of its contract.
pub(super) const TASK_VERSION: &str = "1.0.0";

/// A workflow, and what executions of it get.
pub(super) struct Document {
    pub(super) name: String,
    pub(super) source: String,
}

/// A workflow of tasks.
pub(super) fn of_tasks(shape: Shape) -> Document {
    let (name, mut steps) = match shape {
        Shape::Chain(tasks) => (format!("bench-chain-{tasks}"), String::new()),
        Shape::FanOut(tasks) => {
            let each = format!("for: {{each: \"range({tasks})\", concurrency: {tasks}}}");
            (format!("bench-fan-out-{tasks}"), format!("  - {{id: all, {each}, task: {TASK}}}\n"))
        }
    };
    if let Shape::Chain(tasks) = shape {
        for step in 1..=tasks {
            let after = if step == 1 { String::new() } else { format!(", after: [s{}]", step - 1) };
            // Writing to a string does not fail.
            let _ = writeln!(steps, "  - {{id: s{step}, task: {TASK}{after}}}");
        }
    }
    let tasks = format!("tasks:\n  {TASK}: {{version: {TASK_VERSION}}}\n");
    Document { source: format!("name: {name}\nversion: 1.0.0\n{tasks}steps:\n{steps}"), name }
}

/// A workflow that sleeps for an hour.
pub(super) fn sleeper() -> Document {
    let name = "bench-sleeper".to_owned();
    Document { source: format!("name: {name}\nversion: 1.0.0\nsteps:\n  - {{id: nap, sleep: 1h}}\n"), name }
}

/// A workflow that sleeps until `input.at`.
pub(super) fn timer() -> Document {
    let name = "bench-timer".to_owned();
    let input = "input: {type: object, required: [at], properties: {at: {type: integer}}}\n";
    let steps = "steps:\n  - {id: nap, sleep_until: \"${input.at}\"}\n";
    Document { source: format!("name: {name}\nversion: 1.0.0\n{input}{steps}"), name }
}

#[cfg(test)]
mod tests {
    use workflow::document::{Format, compile};

    use super::{Shape, of_tasks, sleeper, timer};

    #[test]
    fn each_is_a_document_without_a_doubt() {
        for document in [of_tasks(Shape::Chain(5)), of_tasks(Shape::FanOut(100)), sleeper(), timer()] {
            let compiled = compile(&document.source, Format::Yaml).expect("no fault");
            assert_eq!(compiled[0].definition.name, document.name);
            assert_eq!(compiled[0].warnings, [], "{}", document.name);
        }
    }
}
