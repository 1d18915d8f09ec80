//! Random documents of every kind and attribute.

use serde_json::{Map, Value as Json, json};

use super::tape::Tape;

/// Deepest nesting where it is not meant to be deep.
const DEPTH: usize = 4;

/// A document of its own for every tape.
pub fn random(tape: &mut Tape) -> Json {
    let depth = if tape.chance(8) { 7 } else { DEPTH };
    let mut generator = Generator { tape, ids: 0, depth };
    let count = generator.tape.within(1, 4);
    let steps = generator.steps(0, count);
    let mut document = frame(generator.tape, steps);
    generator.rest(&mut document);
    document
}

/// Contracts, signals and input that every document here has.
pub fn frame(tape: &mut Tape, steps: Vec<Json>) -> Json {
    json!({
        "name": "case",
        "version": "1.0.0",
        "input": {"type": "object", "properties": {
            "bad": {"type": "boolean", "default": tape.chance(40)},
            "n": {"type": "integer", "default": 0},
            "nothing": {},
        }},
        "tasks": {
            "work": {
                "version": "1.0.0",
                "output": {"type": "object", "properties": {"n": {"type": "integer"}}},
            },
            "undo": {"version": "1.0.0"},
            "strict": {"version": "1.0.0", "input": {"type": "object", "properties": {"v": {"type": "integer"}}}},
        },
        "workflows": {"small": {"version": "1.0.0"}},
        "signals": {
            "go": {"type": "object", "properties": {"n": {"type": "integer"}}},
            "stop": {},
            "bell": {},
        },
        "steps": steps,
        "result": "end",
    })
}

struct Generator<'t> {
    tape: &'t mut Tape,
    ids: usize,
    depth: usize,
}

fn id_of(step: &Json) -> String {
    step["id"].as_str().unwrap_or_default().to_owned()
}

impl Generator<'_> {
    fn steps(&mut self, depth: usize, count: usize) -> Vec<Json> {
        let mut steps = Vec::new();
        for _ in 0..count {
            let step = self.step(depth, &steps);
            steps.push(step);
        }
        steps
    }

    fn step(&mut self, depth: usize, before: &[Json]) -> Json {
        self.ids += 1;
        let id = format!("s{}", self.ids);
        let before: Vec<String> = before.iter().map(id_of).collect();
        let mut step = Map::from_iter([("id".to_owned(), json!(id))]);
        if !before.is_empty() && self.tape.chance(40) {
            step.insert("after".into(), json!([self.tape.pick(&before)]));
        }
        if !before.is_empty() && self.tape.chance(20) {
            let status = self.tape.pick(&["succeeded", "failed", "skipped"]);
            step.insert("when".into(), json!(format!("steps.{}.status == '{status}'", self.tape.pick(&before))));
        } else if self.tape.chance(3) {
            step.insert("when".into(), json!("input.nothing"));
        }
        self.body(&id, &mut step, depth, &before);
        self.around(&id, &mut step);
        Json::Object(step)
    }

    fn body(&mut self, id: &str, step: &mut Map<String, Json>, depth: usize, before: &[String]) {
        let kind = self.tape.below(100);
        match kind {
            0..34 => self.task(id, step, before),
            34..66 if depth < self.depth => self.block(id, step, depth),
            34..66 => self.task(id, step, before),
            66..72 => {
                let name = self.tape.pick(&["small", "small", "${input.bad ? 'small' : 'none'}"]);
                step.insert("workflow".into(), json!({"name": name}));
                let bad = self.tape.pick(&[json!(false), json!(true), json!("${input.bad}"), json!(7)]);
                step.insert("input".into(), json!({"bad": bad}));
                self.compensate(50, id, step);
            }
            72..78 => {
                let for_long = self.tape.within(1, 20);
                step.insert("sleep".into(), json!(format!("{for_long}s")));
            }
            78..80 => {
                let until = self.tape.pick(&[json!(0), json!("${10000 + input.n}"), json!("2001-01-01T00:00:00Z")]);
                step.insert("sleep_until".into(), until);
            }
            80..84 => {
                let value = ["1 + 1", "[1, 2].map(x, x * 2)", "input.bad", "1 / 0", "'a' + 1"];
                step.insert("compute".into(), json!(self.tape.pick(&value)));
            }
            84..88 => {
                let execution = self.tape.pick(&["${execution.id}", "peer"]);
                step.insert("signal".into(), json!({"execution": execution, "name": "go", "payload": {"n": 1}}));
                self.compensate(50, id, step);
                self.retry(30, step);
            }
            88..96 => self.wait(step),
            _ => {
                step.insert("fail".into(), json!({"code": "SAID_SO"}));
                step.entry("when").or_insert(json!("input.bad"));
            }
        }
    }

    fn task(&mut self, id: &str, step: &mut Map<String, Json>, before: &[String]) {
        let name = if self.tape.chance(12) {
            self.tape.pick(&["strict", "${input.bad ? 'work' : 'nowhere'}", "orbit.http.request"])
        } else {
            "work"
        };
        step.insert("task".into(), json!(name));
        let value = if !before.is_empty() && self.tape.chance(40) {
            json!(format!("${{steps.{}.output}}", self.tape.pick(before)))
        } else {
            json!(self.tape.below(10))
        };
        step.insert("input".into(), json!({"id": id, "v": value}));
        self.retry(60, step);
        self.compensate(50, id, step);
        if self.tape.chance(30) {
            let seconds = self.tape.within(1, 20);
            step.insert("timeout".into(), json!(format!("{seconds}s")));
        }
        if self.tape.chance(15) {
            step.insert("queue_timeout".into(), json!("3s"));
        }
        if self.tape.chance(20) {
            step.insert("heartbeat_timeout".into(), json!("2s"));
        }
    }

    fn block(&mut self, id: &str, step: &mut Map<String, Json>, depth: usize) {
        let count = self.tape.within(1, 3);
        let inner = self.steps(depth + 1, count);
        if self.tape.chance(80) {
            let first = id_of(&inner[0]);
            step.insert("result".into(), json!({"of": id, "in": format!("${{steps.{first}.output}}")}));
        }
        if self.tape.chance(30) {
            step.insert("done_when".into(), json!(any_succeeded(&inner)));
        }
        step.insert("steps".into(), Json::Array(inner));
        self.compensate(30, id, step);
        self.retry(30, step);
        if self.tape.chance(20) {
            step.insert("cancel_grace".into(), json!(self.tape.pick(&["1s", "5s", "60s"])));
        }
    }

    fn wait(&mut self, step: &mut Map<String, Json>) {
        let signal = self.tape.pick(&[json!("go"), json!("go"), json!(["go", "stop"])]);
        let mut wait = Map::from_iter([("signal".to_owned(), signal)]);
        if self.tape.chance(80) {
            wait.insert("timeout".into(), json!("15s"));
            wait.insert("on_timeout".into(), json!(self.tape.pick(&["fail", "continue"])));
        }
        if self.tape.chance(30) {
            wait.insert("where".into(), json!(self.tape.pick(&["payload.n > 1", "payload.no.such > 1"])));
        }
        if self.tape.chance(30) {
            wait.insert("until".into(), json!(self.tape.pick(&["count == 2", "last.payload.n > 1"])));
        }
        step.insert("await".into(), Json::Object(wait));
    }

    fn retry(&mut self, percent: usize, step: &mut Map<String, Json>) {
        if self.tape.chance(percent) {
            let attempts = self.tape.within(1, 3);
            step.insert("retry".into(), json!({"max_attempts": attempts, "initial_delay": "1s"}));
        }
    }

    fn compensate(&mut self, percent: usize, id: &str, step: &mut Map<String, Json>) {
        if self.tape.chance(percent) {
            step.insert("compensate".into(), compensate(self.tape, id));
        }
    }

    fn around(&mut self, id: &str, step: &mut Map<String, Json>) {
        let wraps = ["task", "workflow", "steps", "await", "signal"].iter().any(|kind| step.contains_key(*kind));
        if wraps && self.tape.chance(25) {
            step.insert("for".into(), self.for_each(id));
        }
        if wraps && self.tape.chance(15) {
            let until =
                self.tape.pick(&["iteration >= 2", "iteration >= 1", "iteration >= 3", "output.n > 1", "false"]);
            let mut repeat = json!({"until": until, "max": 4});
            if self.tape.chance(50) {
                repeat["delay"] = json!("2s");
                repeat["multiplier"] = json!(2);
                repeat["max_delay"] = json!("3s");
            }
            step.insert("repeat".into(), repeat);
        }
        if wraps && self.tape.chance(25) {
            let seconds = self.tape.within(1, 40);
            step.insert("deadline".into(), json!(format!("{seconds}s")));
            step.insert("on_deadline".into(), json!(self.tape.pick(&["fail", "continue"])));
        }
        if !step.contains_key("fail") && self.tape.chance(35) {
            step.insert("on_failure".into(), self.on_failure());
        }
    }

    fn for_each(&mut self, id: &str) -> Json {
        let each =
            self.tape.pick(&["[1, 2, 3]", "range(4)", "range(4)", "[1, 2, 3]", "range(4)", "[]", "input.nothing"]);
        let mut for_each = json!({"each": each, "as": format!("v_{id}")});
        if self.tape.chance(60) {
            for_each["concurrency"] = self.tape.pick(&[json!(1), json!(2), json!(3), json!("${1 + 1}")]);
        }
        if self.tape.chance(60) {
            for_each["max_failures"] = self.tape.pick(&[json!(0), json!(1), json!("all"), json!("50%"), json!("${1}")]);
        }
        if self.tape.chance(30) {
            let early = ["succeeded >= 2", "last.status == 'failed'", "last.output.n > 2"];
            for_each["done_when"] = json!(self.tape.pick(&early));
        }
        for_each
    }

    fn on_failure(&mut self) -> Json {
        match self.tape.below(20) {
            0..10 => json!("continue"),
            10..14 => json!("suspend"),
            14 => json!("fail"),
            _ => {
                let last = self.tape.pick(&["fail", "continue"]);
                json!([
                    {"when": "error.code == 'E'", "then": "continue"},
                    {"when": "error.details.x.y > 1", "then": "suspend"},
                    {"then": last},
                ])
            }
        }
    }

    /// What the document says beside its steps.
    fn rest(&mut self, document: &mut Json) {
        let steps = document["steps"].as_array().cloned().unwrap_or_default();
        if self.tape.chance(10) {
            document["done_when"] = json!(any_succeeded(&steps));
        }
        if self.tape.chance(10) {
            let seconds = self.tape.within(5, 60);
            document["timeout"] = json!(format!("{seconds}s"));
        }
        if self.tape.chance(20) {
            document["cancel_grace"] = json!("3s");
        }
        if self.tape.chance(10) {
            document["output"] = json!({"type": "object"});
        }
        if self.tape.chance(10) {
            document["result"] = json!(format!("${{steps.{}.output.a + 1}}", id_of(&steps[0])));
        }
        let mut handlers = Map::new();
        for name in ["failure", "cancel", "timeout", "exit"] {
            if self.tape.chance(12) {
                handlers.insert(name.into(), self.handler());
            }
        }
        if self.tape.chance(25) {
            handlers.insert("event".into(), json!({"bell": self.handler()}));
        }
        if !handlers.is_empty() {
            document["handlers"] = Json::Object(handlers);
        }
        if self.tape.chance(10) {
            let again =
                json!({"id": "again", "when": "input.n < 2", "continue_as_new": {"input": {"n": "${input.n + 1}"}}});
            document["steps"].as_array_mut().expect("steps are a list").push(again);
        }
    }

    fn handler(&mut self) -> Json {
        let count = self.tape.within(1, 2);
        Json::Array(self.steps(self.depth.saturating_sub(1), count))
    }
}

/// An undo of every form.
pub fn compensate(tape: &mut Tape, id: &str) -> Json {
    let mut undo = match tape.below(10) {
        0..8 => json!({"task": "undo", "input": {"u": id, "out": "${output}", "key": "${idempotency_key}"}}),
        8 => json!({"signal": {"execution": "${execution.id}", "name": "bell", "payload": {"n": 1}}}),
        _ => json!({"workflow": {"name": "small"}, "input": {"bad": false}}),
    };
    if tape.chance(25) {
        undo["always"] = json!(true);
    }
    if tape.chance(15) {
        undo["on_failure"] = json!("suspend");
    }
    if tape.chance(8) && undo.get("task").is_some() {
        undo["input"] = json!({"u": "${output.n + 1}"});
    }
    if tape.chance(30) && undo.get("task").is_some() {
        undo["retry"] = json!({"max_attempts": 2, "initial_delay": "1s"});
    }
    undo
}

/// A condition that ends a block with its first success.
fn any_succeeded(steps: &[Json]) -> String {
    let all: Vec<_> = steps.iter().map(|step| format!("steps.{}.status == 'succeeded'", id_of(step))).collect();
    all.join(" || ")
}
