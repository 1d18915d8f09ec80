//! What was expected, beside what came.

use super::file::{Case, Expect};
use super::live::Live;
use super::report::{Difference, Moment, Report, duration};
use super::script::MAIN;
use super::waiting::waiting_for;
use super::world::World;
use crate::event::{Event, Recorded};
use crate::state::RunStatus;
use crate::value::{Payload, Value};

/// Lines that are shown beside one that is missing.
const NEAREST_MAX: usize = 5;
/// Characters of a value in a message.
const SHOWN_MAX: usize = 2_000;

/// What came of `case` in its world.
pub(super) fn compare(case: &Case, mut world: World<'_>) -> Report {
    let expect = &case.expect;
    let id = expect.of.as_deref().unwrap_or(MAIN);
    let mut differences = std::mem::take(&mut world.differences);
    let (mut events, mut simulated_ms) = (0, world.now_ms);
    let notes = world.mocks.notes();
    match world.newest(id) {
        Some(at) => {
            let live = &world.lives[at.0];
            events = live.history.len();
            simulated_ms = ended_at_ms(live).unwrap_or(simulated_ms);
            compare_end(expect, live, world.cut, &mut differences);
            compare_history(expect, live, &mut differences);
            if let (Some(expected), Some(runs)) = (expect.runs, world.runs.get(id))
                && runs.len() != expected
            {
                differences.push(Difference::new("runs", expected.to_string(), runs.len().to_string()));
            }
        }
        // All the rest would merely follow from it.
        None if world.start_refused => {
            let World { timeline, .. } = world;
            return Report { name: case.name.clone(), differences, notes, timeline, events, simulated_ms };
        }
        // Every start was refused, as it should be.
        None if !expect.is_about_an_execution() => {}
        None => differences.push(Difference::new("the end", format!("an execution {id}"), "none")),
    }
    compare_lines(expect, &world.timeline, &mut differences);
    compare_calls(expect, &world, &mut differences);
    let World { timeline, .. } = world;
    Report { name: case.name.clone(), differences, notes, timeline, events, simulated_ms }
}

/// When the run ended: results of what was given up may still come in after that.
fn ended_at_ms(live: &Live) -> Option<u64> {
    let is_end = |event: &Event| {
        matches!(
            event,
            Event::WorkflowCompleted(_)
                | Event::WorkflowFailed(_)
                | Event::WorkflowCancelled(_)
                | Event::WorkflowTimedOut(_)
                | Event::WorkflowContinuedAsNew(_)
        )
    };
    let end = live.history.iter().rfind(|recorded| is_end(&recorded.event));
    end.filter(|_| live.run.state().is_over()).map(|recorded| recorded.timestamp_ms)
}

fn compare_end(expect: &Expect, live: &Live, cut: bool, differences: &mut Vec<Difference>) {
    let head = &live.run.state().head;
    let error = head.error.as_ref();
    let said = error.map(|error| match error.message.as_str() {
        "" => error.code.clone(),
        message => format!("{}: {message}", error.code),
    });
    let status = head.status.as_str();
    if let Some(expected) = expect.status.as_ref().filter(|expected| !status.eq_ignore_ascii_case(expected)) {
        let mut came = said.as_ref().map_or(status.to_owned(), |said| format!("{status} ({said})"));
        let waiting = if head.status == RunStatus::Running { waiting_for(live, cut) } else { String::new() };
        if !waiting.is_empty() {
            came = format!("{came}, waiting for {waiting}");
        }
        differences.push(Difference::new("status", expected.to_lowercase(), came));
    }
    if let Some(expected) = &expect.output {
        let output = head.output.as_ref().map_or(Value::Null, Payload::value);
        if output != *expected {
            differences.push(Difference::new("output", shown(expected), shown(&output)));
        }
    }
    if let Some(expected) = &expect.error
        && error.is_none_or(|error| error.code != *expected)
    {
        differences.push(Difference::new("error", expected.clone(), said.unwrap_or_else(|| "none".to_owned())));
    }
}

fn compare_history(expect: &Expect, live: &Live, differences: &mut Vec<Difference>) {
    let last_ms = live.history.last().map_or(0, |recorded| recorded.timestamp_ms);
    if let Some(by) = expect.ends_by.filter(|by| last_ms > by.0) {
        differences.push(Difference::new("ends_by", format!("{} or earlier", duration(by.0)), duration(last_ms)));
    }
    if let Some(from) = expect.not_before.filter(|from| last_ms < from.0) {
        differences.push(Difference::new("not_before", format!("{} or later", duration(from.0)), duration(last_ms)));
    }
    if let Some(expected) = expect.events.filter(|expected| live.history.len() != *expected) {
        differences.push(Difference::new("events", expected.to_string(), live.history.len().to_string()));
    }
    if let Some(expected) = &expect.first_batches
        && live.first_batches.as_ref() != Some(expected)
    {
        let came = format!("{:?}", live.first_batches.as_deref().unwrap_or_default());
        differences.push(Difference::new("first_batches", format!("{expected:?}"), came));
    }
    compare_events(expect, &live.history, differences);
}

fn compare_events(expect: &Expect, history: &[Recorded], differences: &mut Vec<Difference>) {
    if expect.events_like.is_empty() {
        return;
    }
    let mut values =
        history.iter().map(|recorded| (recorded, Value::from_json(&recorded.to_json()).unwrap_or_default()));
    for wanted in &expect.events_like {
        let fits = |event: &Value| {
            wanted.iter().all(|(name, value)| event.get(name).map_or(value.is_null(), |field| field == value))
        };
        if values.any(|(_, event)| fits(&event)) {
            continue;
        }
        let kind = wanted.get("type").and_then(Value::as_str).unwrap_or_default();
        let step = wanted.get("step").and_then(Value::as_str);
        let near = history.iter().filter(|recorded| {
            let event = &recorded.event;
            event.name() == kind && (step.is_none() || event.step().map(|key| &**key) == step)
        });
        let came = near.take(NEAREST_MAX).map(Recorded::to_json).collect::<Vec<_>>().join(" · ");
        let expected = wanted.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", ");
        let came = if came.is_empty() {
            "none, in this order".to_owned()
        } else {
            format!("none, in this order; there is {came}")
        };
        differences.push(Difference::new("events_like", format!("{{{expected}}}"), came));
        return;
    }
}

fn compare_lines(expect: &Expect, timeline: &[Moment], differences: &mut Vec<Difference>) {
    let ours = |moment: &&Moment| expect.of_lines.as_ref().is_none_or(|id| *id == moment.execution_id);
    let lines: Vec<&Moment> = timeline.iter().filter(ours).collect();
    let mut from = 0;
    for wanted in &expect.includes {
        match lines[from..].iter().position(|moment| fits(&moment.line, wanted)) {
            Some(at) => from += at + 1,
            None => {
                let earlier = lines[..from].iter().any(|moment| fits(&moment.line, wanted));
                let came = if earlier { "only earlier than what stands before it in the list" } else { "no such line" };
                let difference = Difference::new("includes", format!("{wanted:?}, in this order"), came);
                differences.push(difference.near(nearest(&lines, from, wanted)));
                break;
            }
        }
    }
    for unwanted in &expect.excludes {
        let found: Vec<_> = lines.iter().filter(|moment| fits(&moment.line, unwanted)).collect();
        if !found.is_empty() {
            let near = found.iter().take(NEAREST_MAX).map(|moment| (**moment).clone()).collect();
            let came = format!("{} times", found.len());
            differences.push(Difference::new("excludes", format!("never {unwanted:?}"), came).near(near));
        }
    }
    for (wanted, expected) in &expect.count {
        let came = lines.iter().filter(|moment| fits(&moment.line, wanted)).count();
        if came != *expected {
            let near = nearest(&lines, 0, wanted);
            let what = format!("count of {wanted:?}");
            differences.push(Difference::new(what, expected.to_string(), came.to_string()).near(near));
        }
    }
}

/// A line as a whole, or as far as a space.
fn fits(line: &str, wanted: &str) -> bool {
    line.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Lines about the same step and of the same type, those after `from` first; else those of either.
fn nearest(lines: &[&Moment], from: usize, wanted: &str) -> Vec<Moment> {
    let mut words = wanted.split(' ');
    let (kind, step) = (words.next().unwrap_or_default(), words.next());
    let likeness = |line: &str| {
        let mut words = line.split(' ');
        let same_kind = words.next() == Some(kind);
        let same_step = step.is_some() && words.next() == step;
        usize::from(same_kind) + usize::from(same_step)
    };
    let best = lines.iter().map(|moment| likeness(&moment.line)).max().unwrap_or_default();
    if best == 0 {
        return lines.iter().rev().take(NEAREST_MAX).rev().map(|moment| (*moment).clone()).collect();
    }
    let (before, after) = lines.split_at(from.min(lines.len()));
    let alike = after.iter().chain(before).filter(|moment| likeness(&moment.line) == best);
    alike.take(NEAREST_MAX).map(|moment| (*moment).clone()).collect()
}

fn compare_calls(expect: &Expect, world: &World<'_>, differences: &mut Vec<Difference>) {
    let calls = |task: &str| world.calls.get(task).map_or(&[][..], Vec::as_slice);
    for (task, expected) in &expect.calls {
        let came = calls(task).len();
        if came != *expected {
            differences.push(Difference::new(format!("calls of {task}"), expected.to_string(), came.to_string()));
        }
    }
    for (task, expected) in &expect.inputs {
        let came = calls(task);
        if came != expected.as_slice() {
            let (expected, came) = (Value::from(expected.clone()), Value::list(came.iter().cloned()));
            differences.push(Difference::new(format!("inputs of {task}"), shown(&expected), shown(&came)));
        }
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
