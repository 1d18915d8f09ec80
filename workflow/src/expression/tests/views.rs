//! A scope over borrowed state, with views inside views, as an execution is one.

use super::*;
use crate::expression::{Operand, Scope, View};

/// An execution's state, much simplified.
struct State {
    steps: BTreeMap<String, Step>,
    input: Value,
}

struct Step {
    status: &'static str,
    output: Value,
    units: Vec<Step>,
}

/// `steps`: its members are views of steps; it is no value.
struct Steps<'a>(&'a State);

impl<'a> View<'a> for Steps<'a> {
    fn member(&self, name: &str) -> Result<Operand<'a>, EvalError> {
        Ok(self.0.steps.get(name).map_or_else(Operand::null, |step| Operand::view(StepView(step))))
    }

    fn has(&self, name: &str) -> bool {
        self.0.steps.contains_key(name)
    }

    fn to_value(&self) -> Result<Value, EvalError> {
        Err(EvalError::new("steps is no value"))
    }
}

struct StepView<'a>(&'a Step);

impl<'a> View<'a> for StepView<'a> {
    fn member(&self, name: &str) -> Result<Operand<'a>, EvalError> {
        let step = self.0;
        Ok(match name {
            "status" => Operand::value(step.status),
            "output" => Operand::value(step.output.clone()),
            "units" => Operand::list(step.units.iter().map(|unit| Operand::view(StepView(unit))).collect()),
            _ => Operand::null(),
        })
    }

    fn has(&self, name: &str) -> bool {
        ["status", "output", "units"].contains(&name)
    }

    fn to_value(&self) -> Result<Value, EvalError> {
        Ok(Value::map([("status", Value::from(self.0.status)), ("output", self.0.output.clone())]))
    }
}

struct Run<'a> {
    state: &'a State,
}

impl Scope for Run<'_> {
    fn variable(&self, name: &str) -> Option<Operand<'_>> {
        match name {
            "steps" => Some(Operand::view(Steps(self.state))),
            "input" => Some(Operand::value(self.state.input.clone())),
            _ => None,
        }
    }
}

fn state() -> State {
    let unit = |status, output: i64| Step { status, output: Value::Int(output), units: Vec::new() };
    let units = vec![unit("succeeded", 1), unit("failed", 2), unit("succeeded", 3)];
    let ship = Step { status: "succeeded", output: Value::from_json(r#"{"a": [1, null]}"#).unwrap(), units };
    let empty = Step { status: "skipped", output: Value::Null, units: Vec::new() };
    State { steps: [("ship".to_owned(), ship), ("none".to_owned(), empty)].into(), input: Value::Int(7) }
}

#[test]
fn views_are_read_lazily_and_become_values_where_needed() {
    let state = state();
    let run = Run { state: &state };
    for (text, expected) in [
        ("steps.ship.status", r#""succeeded""#),
        ("steps['ship'].output.a[0] + input", "8"),
        ("steps.ship.output.a[1]", "null"),
        ("steps.nosuch.output", "null"),
        ("steps.ship.nosuch", "null"),
        ("[has(steps.ship.output), has(steps.ship.nosuch), has(steps.nosuch)]", "[true,false,false]"),
        ("steps.ship.units.size() + size(steps.ship.units)", "6"),
        ("steps.ship.units[1].output", "2"),
        ("steps.ship.units[9]", "null"),
        ("steps.ship.units.filter(u, u.status == 'succeeded').map(u, u.output)", "[1,3]"),
        ("steps.ship.units.map(u, u.output).sum()", "6"),
        ("steps.ship.units.slice(0, 1)", r#"[{"output":1,"status":"succeeded"}]"#),
        ("steps.none", r#"{"output":null,"status":"skipped"}"#),
        ("[steps.none]", r#"[{"output":null,"status":"skipped"}]"#),
        ("{'s': steps.none}.s.status", r#""skipped""#),
        ("steps.none == {'status': 'skipped', 'output': null}", "true"),
        ("coalesce(steps.nosuch, steps.none).status", r#""skipped""#),
        ("steps.none.map(k, k)", r#"["output","status"]"#),
        ("steps.none.keys()", r#"["output","status"]"#),
        ("toJson(steps.none)", r#""{\"output\":null,\"status\":\"skipped\"}""#),
        ("steps.none['status']", r#""skipped""#),
        ("steps.none[1]", "null"),
        ("steps.none + 1", "error"),
    ] {
        let found = compile(text).evaluate(&run).map_or_else(|_| "error".to_owned(), |value| value.to_json());
        assert_eq!(found, expected, "{text}");
    }
}
