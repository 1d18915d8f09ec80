"""Four stories of orders, for people to read; `scripts/demo` builds orbit and calls this.

    demo_stories.py --orbit BINARY --record DIR --seed N [--nodes 3]

With one node it is killed and started again on its data. With three, the one that leads the order is killed, and stays
away until the others have completed the order.

What is shown is taken from histories (`orbit history`) and from the ledger of the outside world. All of it stays in the
record, where `scripts/check-demo` looks for the stories without believing a word that was printed here.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
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
    """The nodes, the worker, and the record of what they did."""

    def __init__(self, orbit: Path, record: Path, data: Path, nodes: int, pace_s: float) -> None:
        self.orbit, self.record, self.data, self._pace_s = orbit, record, data, pace_s
        self.nodes = ["node"] if nodes == 1 else [f"orbit-{number}" for number in range(1, nodes + 1)]
        self.ledger = record / "ledger.jsonl"
        self._peers = {name: f"127.0.0.1:{port}" for name, port in zip(self.nodes, free_ports(nodes), strict=True)}
        self._stall_file = record / "stall"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        (record / "histories").mkdir(parents=True)  # of a folder with something else in it nothing is replaced
        self.ledger.touch()

    # ---- processes

    def start_nodes(self) -> None:
        """All of them, as one cluster, each leading its share."""
        if len(self.nodes) == 1:
            return self.start_node("node")
        for name in self.nodes:
            self._start_member(name)
        wait_for("the first node", lambda: self._address_of(self.nodes[0]))
        self.run("init")

        def settled() -> bool | None:
            members = (self.ask("/v1/cluster") or {"nodes": []})["nodes"]
            return (len(members) == len(self.nodes) and all(member["leads"] for member in members)) or None

        wait_for("a cluster in which every node leads", settled)

    def start_node(self, name: str) -> None:
        """Until it takes requests."""
        if len(self.nodes) > 1:
            self._start_member(name)
        else:
            self._start(name, [self.orbit, "dev", "--data-dir", self._home(name), *self._listens(name)])
        wait_for(name, lambda: self.ask("/v1/health", name) and True)

    def _start_member(self, name: str) -> None:
        seeds = f"--cluster-seeds={','.join(self._peers.values())}"
        options = ["--node-name", name, "--data-dir", self._home(name), seeds, *self._listens(name)]
        self._start(name, [self.orbit, "server", *options])

    def _listens(self, name: str) -> list[str]:
        """On free ports; everything else finds them in addresses.json. Where other nodes find it stays the same."""
        free = [f"--{part}-listen=127.0.0.1:0" for part in ("http", "grpc", "health")]
        return [*free, f"--peer-listen={self._peers[name]}"]

    def _home(self, name: str) -> Path:
        return self.data if len(self.nodes) == 1 else self.data / name

    def start_worker(self) -> None:
        """The same worker whenever it starts: same name, same file for its session, same ledger."""
        files = [self._home(name) / "addresses.json" for name in self.nodes]
        options = ["--addresses-file", *files, "--ledger", self.ledger, "--id", "shop-1"]
        options += ["--session-file", self.record / "session", "--stall-file", self._stall_file]
        options += ["--pace", str(self._pace_s)]
        self._start("worker", [sys.executable, EXAMPLE / "worker.py", *options])

    def _start(self, who: str, command: list[Any]) -> "subprocess.Popen[bytes]":
        with open(self.record / f"{who}.log", "ab") as log:
            process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)
        self._processes[who] = process
        self._note(who, "started", process)
        return process

    def kill(self, who: str) -> int:
        """kill -9."""
        self._processes[who].kill()
        return self._ended(who, signal.SIGKILL)

    def stop(self, *all_of: str) -> None:
        """SIGTERM: they finish what they are at."""
        for who in all_of:
            self._processes[who].terminate()
        for who in all_of:
            self._ended(who, signal.SIGTERM)

    def _ended(self, who: str, number: signal.Signals) -> int:
        process = self._processes.pop(who)
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

    def ask(self, path: str, name: str | None = None) -> Any:
        """A GET, at any node or at that one; None when there is none, or no address of it yet."""
        for one in [name] if name else self._alive():
            try:
                with urllib.request.urlopen(f"http://{self._address_of(one)}{path}", timeout=PATIENCE_S) as answer:
                    return json.load(answer)
            except (OSError, ValueError):
                pass
        return None

    def _alive(self) -> list[str]:
        """Nodes that have not been killed; one that ended by itself ends the demo."""
        alive = [name for name in self.nodes if name in self._processes]
        for name in alive:
            if (ended := self._processes[name].poll()) is not None:
                raise Failed(f"{name} ended with {ended}")
        return alive

    def _address_of(self, name: str) -> str | None:
        try:
            return json.loads((self._home(name) / "addresses.json").read_text())["http"]
        except (OSError, ValueError):
            return None

    def run(self, *arguments: Any, show: bool = True) -> str:
        """An `orbit` command and what it prints."""
        words = [str(part) for part in arguments]
        if show:
            say(f"$ orbit {' '.join(word.replace(f'{ROOT}/', '') for word in words)}")
        address = next(filter(None, map(self._address_of, self._alive())), None)
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

    def shards(self) -> dict[int, dict[str, Any]]:
        """Each shard as the node that leads it sees it: its node, and how many entries it has applied."""
        led = {}
        for name in self._alive():
            for shard in (self.ask("/v1/health", name) or {"shards": []})["shards"]:
                if shard["role"] == "leader":
                    led[shard["id"]] = {"node": name, "applied": shard["applied"]}
        return led

    def keep_shard(self, order: Order, moment: str, shard: int, node: str) -> None:
        """Who leads the shard of an order at a moment, for the record."""
        line = {"at_ms": now_ms(), "order": order.id, "moment": moment, "shard": shard, "node": node}
        with open(self.record / "shards.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def noted(self, event: str, order: Order, step: str) -> list[dict[str, Any]]:
        """What the ledger says of a step."""
        about = {"event": event, "order": order.id, "step": step}
        whole = [line for line in self.ledger.read_text().splitlines(keepends=True) if line.endswith("\n")]
        lines = [json.loads(line) for line in whole]
        return [line for line in lines if about.items() <= line.items()]


def free_ports(count: int) -> list[int]:
    """Ports on which nobody listens."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


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
    stage.start_node("node")
    say("$ orbit dev --data-dir … &   # the same data")
    events = stage.end_of(order)
    say(f"$ orbit history {order.id}   # the main lines")
    wanted = by_type("StepFanOut", "StepDispatched", "StepAttemptUncertain", "StepSucceeded", "WorkflowCompleted")
    show(events, wanted, {killed_ms: "the node is killed", back_ms: "the node is started again"})


def the_leader_is_killed(stage: Stage, drawn: Plan) -> None:
    """Story 4 with several nodes: the order goes on at another node, while the one that led it is away."""
    order, step = drawn.node_killed, drawn.node_kill_place.split()[0]
    title(4, f"The node that leads {order.id} is killed while {step} is under way")
    stage.stall(drawn.node_kill_place)
    before = stage.shards()
    stage.begin(order)
    stage.wait_until_stalled(order, step)
    shard, leader = shard_of_the_only_order(before, stage.shards())
    stage.keep_shard(order, "before", shard, leader)
    stage.keep_history_so_far(order)
    say(f"Its execution belongs to shard {shard}, which {leader} leads.")
    time.sleep(drawn.node_kill_after_s)
    pid = stage.kill(leader)
    killed_ms = now_ms()
    say(f"$ kill -9 {pid}   # {leader}; it stays away until the order is completed")
    stage.go_on()
    other = wait_for("another leader", lambda: stage.shards().get(shard))["node"]
    led_ms = now_ms()
    stage.keep_shard(order, "after", shard, other)
    events = stage.end_of(order)
    say(f"$ orbit history {order.id}   # asked of another node; the main lines")
    wanted = by_type("StepFanOut", "StepDispatched", "StepAttemptUncertain", "StepSucceeded", "WorkflowCompleted")
    show(events, wanted, {killed_ms: f"{leader} is killed", led_ms: f"{other} is seen to lead shard {shard}"})
    stage.start_node(leader)
    say(f"$ orbit server --data-dir …/{leader} &   # the same data")

    def whole() -> bool | None:
        """Its own replicas have applied all that the leaders have."""
        shards = (stage.ask("/v1/health", leader) or {"shards": []})["shards"]
        mine = {one["id"]: one["applied"] for one in shards}
        return all(mine.get(number, 0) >= led["applied"] for number, led in stage.shards().items()) or None

    wait_for(f"{leader} to catch up", whole)
    say(f"{leader} has caught up: it holds all that happened without it.")


def shard_of_the_only_order(before: dict[int, dict[str, Any]], now: dict[int, dict[str, Any]]) -> tuple[int, str]:
    """Only one order is under way, so its shard is the one whose log grew most; and who leads it."""
    grown = {number: led["applied"] - before.get(number, led)["applied"] for number, led in now.items()}
    shard = max(grown, key=lambda number: grown[number])
    if grown[shard] == 0:
        raise Failed("no shard has applied anything of the order")
    return shard, now[shard]["node"]


def play(stage: Stage, drawn: Plan) -> None:
    """All of it."""
    if len(stage.nodes) == 1:
        say("$ orbit dev --data-dir … &")
    for name in stage.nodes if len(stage.nodes) > 1 else []:
        say(f"$ orbit server --node-name {name} --data-dir …/{name} --cluster-seeds … &")
    stage.start_nodes()
    say("$ python3 examples/order-fulfilment/worker.py … &")
    stage.start_worker()
    stage.run("deploy", EXAMPLE / "order-fulfilment.yaml")
    orders_succeed_and_one_is_refused(stage, drawn)
    the_worker_is_killed(stage, drawn)
    if len(stage.nodes) == 1:
        the_node_is_killed(stage, drawn)
    else:
        the_leader_is_killed(stage, drawn)
    stage.stop("worker")
    stage.stop(*stage.nodes)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="four stories of orders")
    parser.add_argument("--orbit", type=Path, required=True)
    parser.add_argument("--record", type=Path, required=True, help="folder for the record; an older record is replaced")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=1, choices=[1, 3, 5])
    parser.add_argument("--pace", type=float, default=PACE_S, help="seconds that a task takes")
    options = parser.parse_args()
    drawn = plan(options.seed)
    if (options.record / "stories.json").exists():
        shutil.rmtree(options.record)
    os.environ["no_proxy"] = "127.0.0.1"
    data = Path(tempfile.mkdtemp(prefix="orbit-demo-"))
    stage = Stage(options.orbit, options.record, data, options.nodes, options.pace)
    stories = {
        "seed": options.seed,
        "nodes": options.nodes,
        "succeeded": [order.id for order in drawn.first if order.id != drawn.refused],
        "refused": drawn.refused,
        "worker_killed": drawn.worker_killed.id,
        "node_killed": drawn.node_killed.id,
    }
    (options.record / "stories.json").write_text(json.dumps(stories, indent=2))
    try:
        play(stage, drawn)
    except (Failed, subprocess.TimeoutExpired) as failure:
        give_up(str(failure), [*stage.nodes, "worker"], options.record, data)
    finally:
        stage.close()
    shutil.rmtree(data)


def give_up(why: str, processes: list[str], record: Path, data: Path) -> NoReturn:
    """Says what went wrong and where to look."""
    for who in processes:
        log = record / f"{who}.log"
        if log.exists():
            lines = log.read_text(errors="replace").splitlines()[-15:]
            print(f"\n{log}:", *lines, sep="\n  ", file=sys.stderr)
    print(f"\ndemo: {why}; the record is in {record}, the node's data in {data}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
