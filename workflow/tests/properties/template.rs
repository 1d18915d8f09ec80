//! Documents that are aimed at the coverage table: something closes for a chosen reason while everything that can be
//! open is open below it, four blocks deep.
//!
//! The first two letters of a step's id say what is to become of it before the closing:
//!
//! ```text
//! sc  stays scheduled             di  is handed over          rw  waits for its retry
//! su  is suspended                ok  succeeds                fa  fails for good
//! uk  fails, perhaps after all: it undoes itself              go  is what the closing waits for
//! ```

use serde_json::{Value as Json, json};
use workflow::event::CloseReason;
use workflow::state::Status;

use super::document::frame;
use super::orders::error;
use super::tape::Tape;
use super::world::{Order, World, payload};

/// Blocks from what closes to the innermost.
const LEVELS: usize = 4;

/// What closes, and why.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    pub reason: CloseReason,
    /// Not the root but a step.
    pub inside: bool,
}

impl Aim {
    /// By turns, so that every reason occurs as often.
    pub fn of(turn: u64) -> Self {
        let reasons = [
            CloseReason::Done,
            CloseReason::Deadline,
            CloseReason::Failed,
            CloseReason::DeadlineFailed,
            CloseReason::Cancelled,
            CloseReason::Timeout,
        ];
        let reason = reasons[(turn % 6) as usize];
        let inside = match reason {
            CloseReason::Deadline | CloseReason::DeadlineFailed => true,
            CloseReason::Done | CloseReason::Failed => !(turn / 6).is_multiple_of(5),
            _ => false,
        };
        Self { reason, inside }
    }
}

/// A document for `aim`.
pub fn document(tape: &mut Tape, aim: Aim) -> Json {
    let mut maker = Maker { tape, ids: 0 };
    let mut inner = maker.level(1, if aim.inside { 4 } else { 6 });
    let go = maker.id("go");
    inner.insert(0, json!({"id": go, "task": "work", "retry": {"max_attempts": 1}}));
    let done_when = (aim.reason == CloseReason::Done).then(|| format!("steps.{go}.status == 'succeeded'"));
    let mut document = if aim.inside {
        let mut closer = json!({"id": "closer", "steps": inner, "on_failure": "continue"});
        if let Some(done_when) = done_when {
            closer["done_when"] = json!(done_when);
        }
        maker.around(&mut closer, aim);
        frame(maker.tape, vec![closer])
    } else {
        let mut document = frame(maker.tape, inner);
        if let Some(done_when) = done_when {
            document["done_when"] = json!(done_when);
        }
        document
    };
    if aim.reason == CloseReason::Timeout {
        document["timeout"] = json!("10d");
    }
    if maker.tape.chance(30) {
        document["cancel_grace"] = json!("3s");
    }
    document
}

struct Maker<'t> {
    tape: &'t mut Tape,
    ids: usize,
}

impl Maker<'_> {
    fn id(&mut self, what: &str) -> String {
        self.ids += 1;
        format!("{what}{}", self.ids)
    }

    /// So many things that are open in one way or another, and the next level.
    fn level(&mut self, level: usize, count: usize) -> Vec<Json> {
        let mut steps = Vec::new();
        for _ in 0..count {
            let step = self.open();
            steps.push(step);
        }
        if level < LEVELS {
            let inner = self.level(level + 1, 3);
            let id = self.id("bl");
            let block = json!({"id": id, "steps": inner});
            let block = self.varied(block, 78);
            steps.push(block);
        }
        steps
    }

    fn open(&mut self) -> Json {
        let kinds = [
            "sl", "sc", "rw", "di", "su", "bl", "sl", "sc", "rw", "di", "su", "bl", "sl", "sc", "rw", "di", "su", "un",
            "uk", "fo", "dc", "dc", "su",
        ];
        let kind = self.tape.pick(&kinds);
        let id = self.id(if kind == "dc" || kind == "fo" { "di" } else { kind });
        match kind {
            "bl" => {
                let nap = self.id("sl");
                self.varied(json!({"id": id, "steps": [{"id": nap, "sleep": "1000h"}]}), 20)
            }
            "sl" => json!({"id": id, "sleep": "1000h"}),
            "di" => {
                let mut step = json!({"id": id, "task": "work"});
                self.in_for(&mut step, 40);
                step
            }
            "dc" => {
                let mut step = json!({"id": id, "task": "work", "compensate": self.undo()});
                self.in_for(&mut step, 30);
                step
            }
            "rw" => self.varied(
                json!({
                    "id": id, "task": "work",
                    "retry": {"max_attempts": 3, "initial_delay": "500h", "max_delay": "500h"},
                }),
                0,
            ),
            "su" => self.varied(json!({"id": id, "task": "work", "on_failure": "suspend"}), 0),
            "uk" => {
                let mut step = json!({"id": id, "task": "work", "on_failure": "continue", "compensate": self.undo()});
                self.in_for(&mut step, 50);
                if step.get("for").is_some() {
                    step["for"]["max_failures"] = json!("all");
                }
                step
            }
            "un" => self.undoing(&id),
            "fo" => {
                let mut step = json!({"id": id, "task": "work"});
                self.in_for(&mut step, 100);
                self.with_undo(&mut step);
                step
            }
            _ => self.varied(json!({"id": id, "task": "work"}), 0),
        }
    }

    /// A block that has failed and undoes what succeeded in it.
    fn undoing(&mut self, id: &str) -> Json {
        let (ok, fails) = (self.id("ok"), self.id("fa"));
        let steps = json!([
            {"id": ok, "task": "work", "compensate": self.undo()},
            {"id": fails, "task": "work", "after": [ok]},
        ]);
        let mut block = json!({"id": id, "steps": steps, "on_failure": "continue"});
        self.in_for(&mut block, 35);
        if block.get("for").is_some() {
            block["for"]["max_failures"] = json!("all");
        }
        if self.tape.chance(35) {
            block["retry"] = json!({"max_attempts": 2});
        }
        block
    }

    fn undo(&mut self) -> Json {
        let mut undo = json!({"task": "undo", "input": {"key": "${idempotency_key}"}});
        if self.tape.chance(75) {
            undo["always"] = json!(true);
        }
        undo
    }

    fn with_undo(&mut self, step: &mut Json) {
        if self.tape.chance(80) {
            step["compensate"] = self.undo();
        }
    }

    fn in_for(&mut self, step: &mut Json, percent: usize) {
        if self.tape.chance(percent) {
            step["for"] = json!({"each": "[1, 2]", "as": format!("v_{}", step["id"].as_str().unwrap_or_default())});
        }
    }

    /// With or without `for`, `retry`, `compensate`.
    fn varied(&mut self, mut step: Json, retry: usize) -> Json {
        self.in_for(&mut step, 30);
        if self.tape.chance(retry) {
            step["retry"] = json!({"max_attempts": 2});
        }
        self.with_undo(&mut step);
        step
    }

    /// What stands around the step that closes.
    fn around(&mut self, closer: &mut Json, aim: Aim) {
        self.with_undo(closer);
        if self.tape.chance(70) {
            closer["retry"] = json!({"max_attempts": 2});
        }
        if let CloseReason::Deadline | CloseReason::DeadlineFailed = aim.reason {
            let fails = aim.reason == CloseReason::DeadlineFailed;
            closer["deadline"] = json!("1000s");
            closer["on_deadline"] = json!(if fails { "fail" } else { "continue" });
            // A deadline is that of the step as a whole, so an element around it is one of a block around it.
            if self.tape.chance(50) {
                let inner = std::mem::take(closer);
                *closer = json!({"id": "outer", "steps": [inner], "on_failure": "continue"});
                self.in_for(closer, 100);
            }
        } else {
            self.in_for(closer, 50);
            if closer.get("for").is_some() {
                closer["for"]["max_failures"] = json!("all");
            }
        }
    }
}

impl World {
    /// Brings everything to where its id says, then lets the closing happen.
    pub fn act(&mut self, tape: &mut Tape, aim: Aim) -> Result<(), String> {
        while let Some(order) = self.aimed(tape) {
            self.perform(tape, &order)?;
        }
        let is_go = |key: &str| Self::id_of(key).starts_with("go");
        let trigger = self.ready().into_iter().find(|key| is_go(key) && !workflow::key::is_undo(key));
        match aim.reason {
            CloseReason::Done | CloseReason::Failed => {
                let Some(unit) = trigger else { return Ok(()) };
                self.perform(tape, &Order::HandOver(unit))?;
                let Some((_, token)) = self.tokens.last().cloned() else { return Ok(()) };
                let order = match aim.reason {
                    CloseReason::Done => Order::Complete(token, payload("{\"n\": 1}")),
                    _ => Order::Fail(token, error("E", false), false),
                };
                self.perform(tape, &order)?;
            }
            CloseReason::Deadline | CloseReason::DeadlineFailed => {
                let deadline = self.timers().into_iter().find(|(_, name)| name.starts_with("deadline:"));
                let Some((at, name)) = deadline else { return Ok(()) };
                self.now_ms = self.now_ms.max(at);
                self.perform(tape, &Order::Timer(name))?;
            }
            CloseReason::Timeout => {
                self.now_ms += 864_000_000;
                self.perform(tape, &Order::Timeout)?;
            }
            _ => drop(self.perform(tape, &Order::Cancel(false))?),
        }
        Ok(())
    }

    /// The next command that brings something to where its id says.
    fn aimed(&self, tape: &mut Tape) -> Option<Order> {
        let state = self.run.state();
        for unit in self.ready() {
            let is_undo = workflow::key::is_undo(&unit);
            if !is_undo && !matches!(&Self::id_of(&unit)[..2], "sc" | "go") {
                return Some(Order::HandOver(unit));
            }
        }
        for (key, token) in self.live() {
            let order = match &Self::id_of(&key)[..2] {
                _ if workflow::key::is_undo(&key) => continue,
                "ok" => Order::Complete(token, payload("{\"n\": 1}")),
                "fa" | "su" => Order::Fail(token, error("E", false), tape.chance(20)),
                "uk" => Order::Fail(token, error("MAYBE", false), true),
                "rw" if state.unit(&key).is_some_and(|unit| unit.status == Status::Dispatched) => {
                    Order::Fail(token, error("E", true), tape.chance(30))
                }
                _ => continue,
            };
            return Some(order);
        }
        None
    }
}
