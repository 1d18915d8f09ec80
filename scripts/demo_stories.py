"""Four stories of orders, for people to read; `scripts/demo` builds orbit and calls this.

    demo_stories.py --orbit BINARY --record DIR --seed N

What is shown is taken from histories (`orbit history`) and from the ledger of the outside world. All of it stays in the
record, where `scripts/check-demo` looks for the stories without believing a word that was printed here.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "order-fulfilment"
PATIENCE_S = 90
PACE_S = 0.4
CATALOGUE = {"lamp": 4500, "bulb": 200, "chair": 12900, "table": 34900, "vase": 1900, "clock": 5600, "rug": 9900}
SERVED, NOT_SERVED = ["DE", "FR", "NO", "SE"], ["AQ", "BV", "HM"]


@dataclass(frozen=True)
class Order:
    """An order as it is started."""

    id: str
    input: dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """All that chance decides, drawn from the seed before anything happens."""

    first: list[Order]  # started together
    refused: str  # the one among them that the carrier does not take
    worker_killed: Order
    worker_kill_place: str  # "STEP before" or "STEP after" its effect: there work stands still until the kill
    worker_kill_after_s: float
    node_killed: Order
    node_kill_place: str
    node_kill_after_s: float
    node_away_s: float


def plan(seed: int) -> Plan:
    """The same for the same seed."""
    chance = random.Random(seed)
    numbers = chance.sample(range(1000, 10000), 5)

    def order(number: int, countries: list[str]) -> Order:
        skus = chance.sample(sorted(CATALOGUE), chance.randint(2, 4))
        items = [{"sku": sku, "quantity": chance.randint(1, 5), "cents": CATALOGUE[sku]} for sku in skus]
        name = f"order-{number}"
        mail = f"customer-{chance.randint(10, 99)}@example.com"
        return Order(name, {"order_id": name, "email": mail, "country": chance.choice(countries), "items": items})

    refused = chance.randrange(3)
    first = [order(number, NOT_SERVED if at == refused else SERVED) for at, number in enumerate(numbers[:3])]
    worker_killed, node_killed = order(numbers[3], SERVED), order(numbers[4], SERVED)

    def place(order: Order, steps: list[str]) -> str:
        reserve = f"reserve[{chance.randrange(len(order.input['items']))}]"
        return f"{chance.choice([reserve, *steps])} {chance.choice(['before', 'after'])}"

    return Plan(
        first=first,
        refused=first[refused].id,
        worker_killed=worker_killed,
        worker_kill_place=place(worker_killed, ["charge", "ship", "confirm"]),
        worker_kill_after_s=chance.uniform(0, 0.5),
        node_killed=node_killed,
        node_kill_place=place(node_killed, ["charge", "ship", "confirm"]),
        node_kill_after_s=chance.uniform(0, 0.5),
        node_away_s=chance.uniform(0.2, 1.5),
    )


class Failed(Exception):
    """The demo could not go on."""


def wait_for(what: str, look: Callable[[], Any]) -> Any:
    """The first answer of `look` that is not nothing."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if (found := look()) is not None:
            return found
        time.sleep(0.01)
    raise Failed(f"waited {PATIENCE_S} s in vain for {what}")


class Stage:
    """The node, the worker, and the record of what they did."""

    def __init__(self, orbit: Path, record: Path, data: Path) -> None:
        self.orbit, self.record, self.data = orbit, record, data
        self.ledger = record / "ledger.jsonl"
        self._stall_file = record / "stall"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        (record / "histories").mkdir(parents=True)  # of a folder with something else in it nothing is replaced
        self.ledger.touch()

    # ---- processes

    def start_node(self) -> None:
        """On free ports; everything else finds them in addresses.json."""
        free = [f"--{part}-listen=127.0.0.1:0" for part in ("http", "grpc", "peer", "health")]
        node = self._start("node", [self.orbit, "dev", "--data-dir", self.data, *free])

        def healthy() -> bool | None:
            if node.poll() is not None:
                raise Failed(f"the node ended with {node.returncode}")
            return self.ask("/v1/health") and True

        wait_for("the node", healthy)

    def start_worker(self) -> None:
        """The same worker whenever it starts: same name, same file for its session, same ledger."""
        options = ["--addresses-file", self.data / "addresses.json", "--ledger", self.ledger, "--id", "shop-1"]
        options += ["--session-file", self.record / "session", "--pace", str(PACE_S), "--stall-file", self._stall_file]
        self._start("worker", [sys.executable, EXAMPLE / "worker.py", *options])

    def _start(self, who: str, command: list[Any]) -> "subprocess.Popen[bytes]":
        with open(self.record / f"{who}.log", "ab") as log:
            process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)
        self._processes[who] = process
        self._note(who, "started", process)
        return process

    def kill(self, who: str) -> int:
        """kill -9."""
        return self._end(who, signal.SIGKILL)

    def stop(self, who: str) -> int:
        """SIGTERM: it finishes what it is at."""
        return self._end(who, signal.SIGTERM)

    def _end(self, who: str, number: signal.Signals) -> int:
        process = self._processes.pop(who)
        process.send_signal(number)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._processes[who] = process
            raise Failed(f"the {who} does not end") from None
        self._note(who, "ended", process)
        if number == signal.SIGTERM and process.returncode != 0:
            raise Failed(f"the {who} ended with {process.returncode} when asked to stop")
        return process.pid

    def _note(self, who: str, event: str, process: "subprocess.Popen[bytes]") -> None:
        line = {"at_ms": now_ms(), "who": who, "event": event, "pid": process.pid, "exit": process.returncode}
        with open(self.record / "processes.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Leaves nothing running, whatever happened."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    def stall(self, place: str) -> None:
        """From now on work stands still there."""
        new = self._stall_file.with_suffix(".new")
        new.write_text(place)
        new.replace(self._stall_file)

    def wait_until_stalled(self, order: Order, step: str) -> None:
        """Until the work on the order has come to that place."""
        wait_for(f"{step} of {order.id}", lambda: self.noted("stalled", order, step) or None)

    def go_on(self) -> None:
        """Work stands still nowhere any more."""
        self._stall_file.unlink()

    # ---- questions

    def ask(self, path: str) -> Any:
        """A GET; None when there is no node, or no address of it yet."""
        try:
            address = json.loads((self.data / "addresses.json").read_text())["http"]
            with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE_S) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None

    def run(self, *arguments: Any, show: bool = True) -> str:
        """An `orbit` command and what it prints."""
        words = [str(part) for part in arguments]
        if show:
            say(f"$ orbit {' '.join(word.replace(f'{ROOT}/', '') for word in words)}")
        address = json.loads((self.data / "addresses.json").read_text())["http"]
        done = subprocess.run(
            [str(self.orbit), *words],
            env={**os.environ, "ORBIT_ADDRESS": f"http://{address}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        if done.returncode != 0:
            raise Failed(f"orbit {words[0]} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def begin(self, order: Order) -> None:
        """Starts an order."""
        parts = [f"{item['quantity']} × {item['sku']}" for item in order.input["items"]]
        self.run("start", "order-fulfilment", "--id", order.id, "--input", json.dumps(order.input), show=False)
        meaning = f"{', '.join(parts)}, to {order.input['country']}"
        say(f"$ orbit start order-fulfilment --id {order.id} --input …   # {meaning}")

    def end_of(self, order: Order) -> list[dict[str, Any]]:
        """Waits until it is over; its events, which go into the record."""
        path = f"/v1/executions/{order.id}/wait?timeout_ms=5000"
        over = ("COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT")
        wait_for(f"the end of {order.id}", lambda: ((self.ask(path) or {}).get("status") in over) or None)
        text = self.run("history", order.id, "--output", "json", show=False)
        (self.record / "histories" / f"{order.id}.json").write_text(text)
        return json.loads(text)["events"]

    def keep_history_so_far(self, order: Order) -> None:
        """As it is just before a kill."""
        history = wait_for(f"the history of {order.id}", lambda: self.ask(f"/v1/executions/{order.id}/history"))
        (self.record / "histories" / f"{order.id}.before.json").write_text(json.dumps(history))

    def noted(self, event: str, order: Order, step: str) -> list[dict[str, Any]]:
        """What the ledger says of a step."""
        about = {"event": event, "order": order.id, "step": step}
        whole = [line for line in self.ledger.read_text().splitlines(keepends=True) if line.endswith("\n")]
        lines = [json.loads(line) for line in whole]
        return [line for line in lines if about.items() <= line.items()]


# ---- what is printed


def now_ms() -> int:
    """Milliseconds since 1970, as in a history."""
    return time.time_ns() // 1_000_000


def say(text: str = "") -> None:
    """A line, at once."""
    print(text, flush=True)


def title(number: int, text: str) -> None:
    """The head of a story."""
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    say(f"\n{bold}{number}. {text}{plain}")


def details(event: dict[str, Any]) -> Iterator[str]:
    """What is worth knowing of an event, in words."""
    kind = event["type"]
    if kind == "StepFanOut":
        yield f"{len(event['items'])} items"
    if kind == "StepScheduled":
        yield f"attempt {event['attempt']}, key {event['idempotency_key'][:8]}…"
        if event["redelivery"]:
            yield "redelivery"
    if kind == "StepDispatched":
        yield f"attempt {event['attempt']}, to {event['worker_id']}"
    if kind == "CompensationStarted":
        yield ", ".join(event["steps"])
    if kind in ("StepAttemptUncertain", "StepClosing"):
        yield event["reason"]
    if "error" in event:
        yield f"{event['error']['code']}: {event['error']['message']}"
    if kind == "WorkflowFailed":
        yield f"compensation {event['compensation']}"
    if kind == "WorkflowCompleted":
        yield json.dumps(event["output"])


Event = dict[str, Any]


def show(events: list[Event], wanted: Callable[[Event], bool], marks: dict[int, str] | None = None) -> None:
    """Lines of a history: number, seconds since the start, event, step, details; `marks` between them by time."""
    began, marks = events[0]["timestamp_ms"], dict(sorted((marks or {}).items()))
    for event in filter(wanted, events):
        for at_ms in [at_ms for at_ms in marks if at_ms <= event["timestamp_ms"]]:
            say(f"  {'':4} {(at_ms - began) / 1000:7.3f} s  ——— {marks.pop(at_ms)} ———")
        seconds = (event["timestamp_ms"] - began) / 1000
        words = "; ".join(details(event))
        say(f"  {event['seq']:4} {seconds:7.3f} s  {event['type']:21} {event.get('step') or '':22} {words}".rstrip())


def by_type(*kinds: str) -> Callable[[Event], bool]:
    """Events of these types."""
    return lambda event: event["type"] in kinds


# ---- the stories


def orders_succeed_and_one_is_refused(stage: Stage, drawn: Plan) -> None:
    """Stories 1 and 2 happen at the same time."""
    title(1, "Orders that succeed")
    for order in drawn.first:
        stage.begin(order)
    ended = {order.id: stage.end_of(order) for order in drawn.first}
    fine = [order for order in drawn.first if order.id != drawn.refused]
    say(f"{len(fine)} of {len(drawn.first)} are completed.\n$ orbit history {fine[0].id}   # the main lines")
    show(ended[fine[0].id], by_type("StepFanOut", "StepSucceeded", "WorkflowCompleted"))

    title(2, f"The carrier refuses {drawn.refused}, so everything is undone in reverse")
    say(f"$ orbit history {drawn.refused}   # the main lines")
    kinds = ("StepSucceeded", "StepFailed", "CompensationStarted", "CompensationCompleted", "WorkflowFailed")
    show(ended[drawn.refused], by_type(*kinds))


def the_worker_is_killed(stage: Stage, drawn: Plan) -> None:
    """Story 3: its task comes again, with the same key."""
    step, half = drawn.worker_kill_place.split()
    order = drawn.worker_killed
    title(3, f"The worker is killed in the middle of {step}")
    stage.stall(drawn.worker_kill_place)
    stage.begin(order)
    stage.wait_until_stalled(order, step)
    time.sleep(drawn.worker_kill_after_s)
    pid = stage.kill("worker")
    killed_ms = now_ms()
    effect = "has not happened yet" if half == "before" else "has happened, but nobody has been told"
    say(f"$ kill -9 {pid}   # the worker; it was at {step}, whose effect {effect}")
    stage.go_on()
    stage.start_worker()
    say("Another process resumes the session and says that it holds nothing. So the task is handed over again:")
    events = stage.end_of(order)
    say(f"$ orbit history {order.id}   # the lines of {step}")
    show(
        events,
        lambda event: event.get("step") == step or event["type"] == "WorkflowCompleted",
        {killed_ms: "the worker is killed"},
    )
    say("What the worker noted, and what the outside world made of it:")
    for kind in ("began", "did", "repeated"):
        for line in stage.noted(kind, order, step):
            again = ", redelivery" if line.get("redelivery") else ""
            meaning = {"did": "done", "repeated": "known by its key, so not done again"}.get(kind, "begun")
            say(f"  process {line['pid']}: {step} {meaning}, key {line['key'][:8]}…{again}")


def the_node_is_killed(stage: Stage, drawn: Plan) -> None:
    """Story 4: after the restart all goes on."""
    order, step = drawn.node_killed, drawn.node_kill_place.split()[0]
    title(4, f"The node is killed while {step} is under way")
    stage.stall(drawn.node_kill_place)
    stage.begin(order)
    stage.wait_until_stalled(order, step)
    stage.keep_history_so_far(order)
    time.sleep(drawn.node_kill_after_s)
    pid = stage.kill("node")
    killed_ms = now_ms()
    say(f"$ kill -9 {pid}   # the node; the worker goes on with what it has, and looks for a node again and again")
    stage.go_on()
    time.sleep(drawn.node_away_s)
    back_ms = now_ms()
    stage.start_node()
    say("$ orbit dev --data-dir … &   # the same data")
    events = stage.end_of(order)
    say(f"$ orbit history {order.id}   # the main lines")
    wanted = by_type("StepFanOut", "StepDispatched", "StepAttemptUncertain", "StepSucceeded", "WorkflowCompleted")
    show(events, wanted, {killed_ms: "the node is killed", back_ms: "the node is started again"})


def play(stage: Stage, drawn: Plan) -> None:
    """All of it."""
    say("$ orbit dev --data-dir … &")
    stage.start_node()
    say("$ python3 examples/order-fulfilment/worker.py … &")
    stage.start_worker()
    stage.run("deploy", EXAMPLE / "order-fulfilment.yaml")
    orders_succeed_and_one_is_refused(stage, drawn)
    the_worker_is_killed(stage, drawn)
    the_node_is_killed(stage, drawn)
    stage.stop("worker")
    stage.stop("node")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="four stories of orders")
    parser.add_argument("--orbit", type=Path, required=True)
    parser.add_argument("--record", type=Path, required=True, help="folder for the record; an older record is replaced")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    drawn = plan(options.seed)
    if (options.record / "stories.json").exists():
        shutil.rmtree(options.record)
    os.environ["no_proxy"] = "127.0.0.1"
    data = Path(tempfile.mkdtemp(prefix="orbit-demo-"))
    stage = Stage(options.orbit, options.record, data)
    stories = {
        "seed": options.seed,
        "succeeded": [order.id for order in drawn.first if order.id != drawn.refused],
        "refused": drawn.refused,
        "worker_killed": drawn.worker_killed.id,
        "node_killed": drawn.node_killed.id,
    }
    (options.record / "stories.json").write_text(json.dumps(stories, indent=2))
    try:
        play(stage, drawn)
    except (Failed, subprocess.TimeoutExpired) as failure:
        give_up(str(failure), options.record, data)
    finally:
        stage.close()
    shutil.rmtree(data)


def give_up(why: str, record: Path, data: Path) -> NoReturn:
    """Says what went wrong and where to look."""
    for who in ("node", "worker"):
        log = record / f"{who}.log"
        if log.exists():
            lines = log.read_text(errors="replace").splitlines()[-15:]
            print(f"\n{log}:", *lines, sep="\n  ", file=sys.stderr)
    print(f"\ndemo: {why}; the record is in {record}, the node's data in {data}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
