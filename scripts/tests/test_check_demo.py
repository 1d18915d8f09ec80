"""check-demo finds the four stories in a record, and misses each of them where it was taken out."""

import copy
import importlib.machinery
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "check-demo"
_loader = importlib.machinery.SourceFileLoader("check_demo", str(SOURCE))
check_demo = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_demo", _loader))
_loader.exec_module(check_demo)

Event = dict[str, Any]
NODE, NODE_AGAIN, WORKER, STALLED, WORKER_AGAIN = 100, 101, 200, 201, 202


class Scene:
    """Writes histories and a ledger side by side, as a node, a worker and a shop would."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.histories: dict[str, list[Event]] = {}
        self.before: dict[str, list[Event]] = {}
        self.ledger: list[dict[str, Any]] = []
        self.processes: list[dict[str, Any]] = []
        self.shards: list[dict[str, Any]] = []
        self.worker = WORKER

    def process(self, who: str, event: str, pid: int, exit: int | None = None) -> None:
        self.now_ms += 10
        self.processes.append({"at_ms": self.now_ms, "who": who, "event": event, "pid": pid, "exit": exit})

    def led(self, moment: str, node: str) -> None:
        self.now_ms += 10
        self.shards.append({"at_ms": self.now_ms, "order": "restart", "moment": moment, "shard": 3, "node": node})

    def event(self, order: str, kind: str, **fields: Any) -> None:
        self.now_ms += 10
        events = self.histories.setdefault(order, [])
        events.append({"seq": len(events) + 1, "timestamp_ms": self.now_ms, "type": kind, **fields})

    def noted(self, order: str, event: str, step: str, **fields: Any) -> None:
        self.now_ms += 1
        line = {"at_ms": self.now_ms, "pid": self.worker, "event": event, "order": order, "step": step}
        self.ledger.append({**line, "key": f"{order}/{step}", **fields})

    def hand_over(self, order: str, step: str, redelivery: bool = False) -> None:
        again = {"redelivery": redelivery, "idempotency_key": f"{order}/{step}"}
        self.event(order, "StepScheduled", step=step, attempt=1, **again)
        token = f"{order}.{len(self.histories[order]) + 1}"
        self.event(order, "StepDispatched", step=step, attempt=1, token=token, worker_id="shop-1")
        self.noted(order, "began", step, attempt=1, redelivery=redelivery)

    def done(self, order: str, step: str, task: str) -> None:
        self.noted(order, "did", step, task=task, answer={})
        self.event(order, "StepSucceeded", step=step, attempt=1, output={})

    def unit(self, order: str, step: str, task: str = "some.task") -> None:
        self.hand_over(order, step)
        self.done(order, step, task)

    def opening(self, order: str) -> None:
        self.event(order, "WorkflowCreated")
        self.event(order, "StepFanOut", step="reserve", items=[{}, {}])
        self.event(order, "StepSucceeded", step="total", output=5)
        self.unit(order, "reserve[1]")
        self.unit(order, "reserve[0]")
        self.event(order, "StepSucceeded", step="reserve", output=None)

    def happy_end(self, order: str) -> None:
        self.unit(order, "ship")
        self.unit(order, "confirm")
        self.event(order, "WorkflowCompleted", output={})


def good() -> Scene:
    """A record with all four stories, of one node."""
    scene = three_stories()
    scene.opening("restart")
    scene.hand_over("restart", "charge")
    scene.before["restart"] = copy.deepcopy(scene.histories["restart"])
    scene.process("node", "ended", NODE, -9)
    scene.process("node", "started", NODE_AGAIN)
    scene.done("restart", "charge", "payments.charge")
    scene.happy_end("restart")
    return scene


def good_cluster() -> Scene:
    """A record with all four stories, of several nodes."""
    scene = three_stories()
    scene.opening("restart")
    scene.hand_over("restart", "charge")
    scene.before["restart"] = copy.deepcopy(scene.histories["restart"])
    scene.led("before", "orbit-2")
    scene.process("orbit-2", "ended", NODE, -9)
    scene.led("after", "orbit-3")
    scene.done("restart", "charge", "payments.charge")
    scene.happy_end("restart")
    scene.process("orbit-2", "started", NODE_AGAIN)
    return scene


def three_stories() -> Scene:
    """A record without the story of the node."""
    scene = Scene()
    scene.process("node", "started", NODE)
    scene.process("worker", "started", WORKER)

    scene.opening("fine")
    scene.unit("fine", "charge")
    scene.happy_end("fine")

    scene.opening("refused")
    scene.unit("refused", "charge")
    scene.hand_over("refused", "ship")
    scene.noted("refused", "refused", "ship")
    error = {"code": "DESTINATION_REFUSED", "message": "", "retryable": False}
    scene.event("refused", "StepFailed", step="ship", error=error, handled=False)
    undone = ["charge", "reserve[0]", "reserve[1]"]
    scene.event("refused", "CompensationStarted", step="", reason="failed", steps=undone)
    scene.unit("refused", "compensate:charge", "payments.refund")
    scene.unit("refused", "compensate:reserve[0]", "stock.release")
    scene.unit("refused", "compensate:reserve[1]", "stock.release")
    scene.event("refused", "CompensationCompleted", step="")
    scene.event("refused", "WorkflowFailed", error=error, compensation="completed")

    scene.process("worker", "ended", WORKER, 0)
    scene.process("worker", "started", STALLED)
    scene.worker = STALLED
    scene.opening("again")
    scene.hand_over("again", "charge")
    scene.noted("again", "stalled", "charge")
    scene.process("worker", "ended", STALLED, -9)
    scene.process("worker", "started", WORKER_AGAIN)
    scene.worker = WORKER_AGAIN
    scene.event("again", "StepAttemptUncertain", step="charge", attempt=1, reason="worker_lost")
    scene.hand_over("again", "charge", redelivery=True)
    scene.done("again", "charge", "payments.charge")
    scene.happy_end("again")
    return scene


def faults(scene: Scene, folder: Path, **stories: Any) -> list[str]:
    (folder / "histories").mkdir()
    for suffix, histories in (("", scene.histories), (".before", scene.before)):
        for order, events in histories.items():
            text = json.dumps({"execution_id": order, "run": 1, "events": events})
            (folder / "histories" / f"{order}{suffix}.json").write_text(text)
    for name, lines in (("ledger", scene.ledger), ("processes", scene.processes), ("shards", scene.shards)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = {"succeeded": ["fine"], "refused": "refused", "worker_killed": "again", "node_killed": "restart", **stories}
    (folder / "stories.json").write_text(json.dumps(told))
    return check_demo.check(folder)


def test_a_good_record_passes(tmp_path: Path):
    assert faults(good(), tmp_path) == []


def test_a_good_record_of_several_nodes_passes(tmp_path: Path):
    assert faults(good_cluster(), tmp_path, nodes=3) == []


# ---- ways to doctor a record


def first(scene: Scene, order: str, kind: str, step: str | None = None) -> Event:
    return next(e for e in scene.histories[order] if e["type"] == kind and step in (None, e.get("step")))


def last(scene: Scene, order: str, kind: str, step: str) -> Event:
    return [e for e in scene.histories[order] if e["type"] == kind and e.get("step") == step][-1]


def without(scene: Scene, order: str, *events: Event) -> None:
    """Leaves events out, and closes the gap as a forger would."""
    kept = [event for event in scene.histories[order] if event not in events]
    scene.histories[order] = [{**event, "seq": seq} for seq, event in enumerate(kept, 1)]


def swap(scene: Scene, order: str, a: Event, b: Event) -> None:
    """Two events change places; numbers and times stay."""
    events = scene.histories[order]
    at, other = events.index(a), events.index(b)
    for here, there in ((at, b), (other, a)):
        events[here] = {**there, "seq": events[here]["seq"], "timestamp_ms": events[here]["timestamp_ms"]}


def lines(scene: Scene, **about: Any) -> list[dict[str, Any]]:
    return [line for line in scene.ledger + scene.processes if about.items() <= line.items()]


def strike(scene: Scene, **about: Any) -> None:
    """Leaves lines of the ledger or of the processes out."""
    gone = lines(scene, **about)
    assert gone
    scene.ledger = [line for line in scene.ledger if line not in gone]
    scene.processes = [line for line in scene.processes if line not in gone]


def again(scene: Scene) -> list[Event]:
    return [e for e in scene.histories["again"] if e.get("step") == "charge"]


def never_over(scene: Scene) -> None:
    without(scene, "fine", scene.histories["fine"][-1])


def one_item_lost(scene: Scene) -> None:
    without(scene, "fine", first(scene, "fine", "StepSucceeded", "reserve[1]"))


def no_items(scene: Scene) -> None:
    first(scene, "fine", "StepFanOut")["items"] = []


def nothing_was_done(scene: Scene) -> None:
    strike(scene, order="fine", event="did", step="ship")


def charged_twice(scene: Scene) -> None:
    scene.ledger += lines(scene, order="fine", event="did", step="charge")


def a_gap(scene: Scene) -> None:
    scene.histories["fine"].pop(3)


def no_compensation(scene: Scene) -> None:
    kinds = ("CompensationStarted", "CompensationCompleted")
    events = scene.histories["refused"]
    undone = [e for e in events if e["type"] in kinds or e.get("step", "").startswith("compensate:")]
    without(scene, "refused", *undone)


def forward_order(scene: Scene) -> None:
    first(scene, "refused", "CompensationStarted")["steps"] = ["reserve[1]", "reserve[0]", "charge"]


def forward_order_all_the_way(scene: Scene) -> None:
    forward_order(scene)
    for kind in ("StepScheduled", "StepDispatched", "StepSucceeded"):
        swap(scene, "refused", *(first(scene, "refused", kind, f"compensate:{s}") for s in ("charge", "reserve[1]")))


def released_before_refunded(scene: Scene) -> None:
    events = [
        first(scene, "refused", kind, f"compensate:{step}")
        for kind, step in (("StepSucceeded", "charge"), ("StepScheduled", "reserve[1]"))
    ]
    swap(scene, "refused", *events)


def outside_in_another_order(scene: Scene) -> None:
    moved = lines(scene, order="refused", task="payments.refund")
    strike(scene, order="refused", task="payments.refund")
    scene.ledger += moved


def one_release_lost(scene: Scene) -> None:
    without(scene, "refused", first(scene, "refused", "StepSucceeded", "compensate:reserve[1]"))


def another_error(scene: Scene) -> None:
    scene.histories["refused"][-1]["error"] = {"code": "TIMEOUT", "message": ""}


def compensation_failed(scene: Scene) -> None:
    scene.histories["refused"][-1]["compensation"] = "failed"


def carrier_said_nothing(scene: Scene) -> None:
    strike(scene, order="refused", event="refused")


def worker_not_killed(scene: Scene) -> None:
    lines(scene, who="worker", pid=STALLED, event="ended")[0]["exit"] = 0


def no_other_worker(scene: Scene) -> None:
    strike(scene, who="worker", pid=WORKER_AGAIN)


def nothing_under_way(scene: Scene) -> None:
    strike(scene, order="again", event="stalled")


def not_handed_over_again(scene: Scene) -> None:
    handed = again(scene)
    without(scene, "again", handed[2], handed[3], handed[4])
    strike(scene, order="again", event="began", step="charge", redelivery=True)


def another_key_in_the_history(scene: Scene) -> None:
    again(scene)[3]["idempotency_key"] = "other"


def another_key_at_the_worker(scene: Scene) -> None:
    lines(scene, order="again", event="began", step="charge", redelivery=True)[0]["key"] = "other"


def another_attempt(scene: Scene) -> None:
    again(scene)[4]["attempt"] = 2


def not_a_redelivery(scene: Scene) -> None:
    again(scene)[3]["redelivery"] = False


def redelivery_not_said(scene: Scene) -> None:
    lines(scene, order="again", event="began", step="charge", redelivery=True)[0]["redelivery"] = False


def one_token_for_both(scene: Scene) -> None:
    again(scene)[4]["token"] = again(scene)[1]["token"]


def never_uncertain(scene: Scene) -> None:
    without(scene, "again", first(scene, "again", "StepAttemptUncertain"))


def handed_over_before_the_kill(scene: Scene) -> None:
    lines(scene, who="worker", pid=STALLED, event="ended")[0]["at_ms"] = again(scene)[4]["timestamp_ms"] + 1


def done_by_both(scene: Scene) -> None:
    scene.ledger += lines(scene, order="again", event="did", step="charge")


def node_not_killed(scene: Scene) -> None:
    lines(scene, who="node", pid=NODE, event="ended")[0]["exit"] = 0


def node_not_started_again(scene: Scene) -> None:
    strike(scene, who="node", pid=NODE_AGAIN)


def history_rewritten(scene: Scene) -> None:
    scene.before["restart"][2]["output"] = 6


def over_before_the_kill(scene: Scene) -> None:
    scene.before["restart"] = copy.deepcopy(scene.histories["restart"])


def nothing_before_the_kill(scene: Scene) -> None:
    scene.before["restart"] = []


def nothing_after_the_restart(scene: Scene) -> None:
    lines(scene, who="node", pid=NODE_AGAIN)[0]["at_ms"] = scene.histories["restart"][-1]["timestamp_ms"] + 1


def not_completed_after_the_restart(scene: Scene) -> None:
    without(scene, "restart", scene.histories["restart"][-1])


FORGERIES: list[tuple[str, Callable[[Scene], None]]] = [
    ("an order that succeeds", never_over),
    ("an order that succeeds", one_item_lost),
    ("an order that succeeds", no_items),
    ("an order that succeeds", nothing_was_done),
    ("an order that succeeds", charged_twice),
    ("an order that succeeds", a_gap),
    ("a refused order", no_compensation),
    ("a refused order", forward_order),
    ("a refused order", forward_order_all_the_way),
    ("a refused order", released_before_refunded),
    ("a refused order", outside_in_another_order),
    ("a refused order", one_release_lost),
    ("a refused order", another_error),
    ("a refused order", compensation_failed),
    ("a refused order", carrier_said_nothing),
    ("a killed worker", worker_not_killed),
    ("a killed worker", no_other_worker),
    ("a killed worker", nothing_under_way),
    ("a killed worker", not_handed_over_again),
    ("a killed worker", another_key_in_the_history),
    ("a killed worker", another_key_at_the_worker),
    ("a killed worker", another_attempt),
    ("a killed worker", not_a_redelivery),
    ("a killed worker", redelivery_not_said),
    ("a killed worker", one_token_for_both),
    ("a killed worker", never_uncertain),
    ("a killed worker", handed_over_before_the_kill),
    ("a killed worker", done_by_both),
    ("a killed node", node_not_killed),
    ("a killed node", node_not_started_again),
    ("a killed node", history_rewritten),
    ("a killed node", over_before_the_kill),
    ("a killed node", nothing_before_the_kill),
    ("a killed node", nothing_after_the_restart),
    ("a killed node", not_completed_after_the_restart),
]


@pytest.mark.parametrize(("story", "forge"), FORGERIES, ids=[forge.__name__ for _, forge in FORGERIES])
def test_what_is_missing_or_forged_is_found(story: str, forge: Callable[[Scene], None], tmp_path: Path):
    scene = good()
    forge(scene)
    found = faults(scene, tmp_path)
    assert found and {fault.partition(":")[0] for fault in found} == {story}, found


def leader_not_killed(scene: Scene) -> None:
    lines(scene, who="orbit-2", event="ended")[0]["exit"] = 0


def another_node_killed(scene: Scene) -> None:
    lines(scene, who="orbit-2", event="ended")[0]["who"] = "orbit-1"


def the_same_leads_on(scene: Scene) -> None:
    scene.shards[1]["node"] = "orbit-2"


def another_shard(scene: Scene) -> None:
    scene.shards[1]["shard"] = 4


def nobody_looked_who_leads(scene: Scene) -> None:
    scene.shards.pop()


def looked_too_late(scene: Scene) -> None:
    scene.shards[0]["at_ms"] = scene.shards[1]["at_ms"]


def leader_not_started_again(scene: Scene) -> None:
    strike(scene, who="orbit-2", pid=NODE_AGAIN)


def waited_for_the_leader(scene: Scene) -> None:
    last = scene.histories["restart"][-1]["timestamp_ms"]
    lines(scene, who="orbit-2", pid=NODE_AGAIN)[0]["at_ms"] = last


LEADER_FORGERIES: list[Callable[[Scene], None]] = [
    leader_not_killed,
    another_node_killed,
    the_same_leads_on,
    another_shard,
    nobody_looked_who_leads,
    looked_too_late,
    leader_not_started_again,
    waited_for_the_leader,
    history_rewritten,
    over_before_the_kill,
    nothing_before_the_kill,
    not_completed_after_the_restart,
]


@pytest.mark.parametrize("forge", LEADER_FORGERIES)
def test_a_leader_that_was_not_replaced_is_found(forge: Callable[[Scene], None], tmp_path: Path):
    scene = good_cluster()
    forge(scene)
    found = faults(scene, tmp_path, nodes=3)
    assert found and {fault.partition(":")[0] for fault in found} == {"a killed leader"}, found


@pytest.mark.parametrize(
    ("story", "told"),
    [
        ("an order that succeeds", {"succeeded": []}),
        ("an order that succeeds", {"succeeded": ["refused"]}),
        ("a refused order", {"refused": "fine"}),
        ("a killed worker", {"worker_killed": "fine"}),
        ("a killed node", {"node_killed": "again"}),
        ("a killed node", {"node_killed": "never-started"}),
    ],
)
def test_another_order_cannot_stand_in(story: str, told: dict[str, Any], tmp_path: Path):
    found = faults(good(), tmp_path, **told)
    assert found and {fault.partition(":")[0] for fault in found} == {story}, found


def test_no_record_is_a_fault(tmp_path: Path):
    assert len(check_demo.check(tmp_path)) == 1
