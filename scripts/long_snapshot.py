"""A node joins while its only shard holds much state and a load goes on; `ci/long/snapshot` builds orbit and calls this.

    long_snapshot.py --orbit BINARY --figures FILE [--mib 1024]

Two nodes hold the state. A third one begins with an empty disk: what it lacks comes as a snapshot, because the log was
purged. Measured, and bounded, is what the transfer costs in memory at both ends; the rest is measured only.
"""

import argparse
import base64
import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from demo_stories import Failed, free_ports, wait_for

RSS_GROWTH_MAX_MIB = 256
PAYLOAD_BYTES = 14_000
BASE64_BYTES = PAYLOAD_BYTES // 3 * 4
# More than a node keeps of its log behind a snapshot, and than it writes between two of them.
ENTRIES_MIN = 65_000
WRITERS = 4
SAMPLE_S = 0.05
SEEDS = 1
WORKFLOW = """name: keeper
version: 1.0.0
description: Holds what it was given until somebody lets it go
steps: [{id: held, await: {signal: go, timeout: 30d}}]
"""
MIB = 1 << 20


class Node:
    """An `orbit server`, with its log in a file."""

    def __init__(self, orbit: Path, home: Path, name: str, peers: dict[str, str]) -> None:
        self.name, self.home = name, home / name
        options = [f"--{part}-listen=127.0.0.1:0" for part in ("http", "grpc", "health")]
        options += [f"--peer-listen={peers[name]}", f"--cluster-seeds={','.join(peers.values())}", "--cluster-shards=1"]
        options += ["--node-name", name, "--data-dir", str(self.home), "--log-format", "json"]
        with open(home / f"{name}.log", "ab") as log:
            self.process = subprocess.Popen([orbit, "server", *options], stdout=log, stderr=log)
        self._log = home / f"{name}.log"

    @property
    def address(self) -> str | None:
        """host:port of its HTTP side, once it listens."""
        try:
            return json.loads((self.home / "addresses.json").read_text())["http"]
        except (OSError, ValueError):
            return None

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer; None when there is none, or it is an error."""
        if self.process.poll() is not None:
            raise Failed(f"{self.name} ended with {self.process.returncode}")
        try:
            connection = http.client.HTTPConnection(self.address or "", timeout=60)
            text, kind = (body, "application/yaml") if isinstance(body, str) else (json.dumps(body), "application/json")
            connection.request(method, path, None if body is None else text, {"content-type": kind})
            answer = connection.getresponse()
            content = answer.read()
            return json.loads(content) if answer.status < 300 else None
        except (OSError, ValueError, http.client.HTTPException):
            return None

    def shard(self) -> dict[str, Any]:
        """How the one shard stands here."""
        health = self.ask("GET", "/v1/health") or {"shards": []}
        return next(iter(health["shards"]), {"role": "unknown", "applied": 0})

    def rss_bytes(self) -> int:
        """What it has in memory now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) << 10

    def told(self, message: str) -> list[dict[str, Any]]:
        """Lines of its log with that message."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("message") == message]

    def state_bytes(self) -> int:
        """How large the state is on its disk."""
        return sum(file.stat().st_size for file in (self.home / "state").glob("*.sst"))

    def end(self) -> None:
        """At once."""
        self.process.kill()
        self.process.wait()


class Memory:
    """Looks at what nodes have in memory until it is told to stop."""

    def __init__(self, nodes: list[Node]) -> None:
        self.first = {node.name: node.rss_bytes() for node in nodes}
        self.peak = dict(self.first)
        self._nodes, self._stop = nodes, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            for node in self._nodes:
                self.peak[node.name] = max(self.peak[node.name], node.rss_bytes())

    def stop(self) -> dict[str, int]:
        """By how much each has grown at most, in MiB."""
        self._stop.set()
        self._thread.join()
        return {name: (self.peak[name] - self.first[name]) // MIB for name in self.first}


class Load:
    """Starts small executions, one after the other, and notes when each was acknowledged."""

    def __init__(self, node: Node) -> None:
        self.acknowledged: list[float] = [time.monotonic()]
        self.failed = 0
        self._node, self._stop = node, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            if start(self._node, f"load-{number}", "x" * 100):
                self.acknowledged.append(time.monotonic())
            else:
                self.failed += 1

    def stop(self) -> None:
        """Waits for the last one."""
        self._stop.set()
        self._thread.join()


def payload(number: int) -> str:
    """Text that nothing compresses much, the same for the same number."""
    return base64.b64encode(random.Random(number).randbytes(PAYLOAD_BYTES)).decode()


def start(node: Node, name: str, held: str) -> Any:
    """Starts an execution that holds a text."""
    body = {"workflow": "keeper", "execution_id": name, "input": {"held": held}}
    return node.ask("POST", "/v1/executions", body)


def fill(node: Node, mib: int) -> int:
    """Starts executions until they hold so much, and their number is more than the log keeps; how many there are."""
    count = max(mib * MIB // BASE64_BYTES, ENTRIES_MIN)
    began = time.monotonic()

    def write(writer: int) -> None:
        connection = http.client.HTTPConnection(node.address or "", timeout=60)
        for number in range(writer, count, WRITERS):
            body = {"workflow": "keeper", "execution_id": f"kept-{number}", "input": {"held": payload(number)}}
            connection.request("POST", "/v1/executions", json.dumps(body), {"content-type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 201:
                raise Failed(f"start {number} answers {answer.status}: {answer.read().decode()}")
            answer.read()
            if number % 10_000 == 0:
                print(f"  {number} of {count} after {time.monotonic() - began:.0f} s", flush=True)

    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(write, range(WRITERS)))
    return count


def gap_ms(times: list[float], since: float, until: float) -> int:
    """The longest time without an acknowledgement that touches a stretch of time."""
    gaps = [later - sooner for sooner, later in zip(times, times[1:], strict=False) if later > since and sooner < until]
    return round(max(gaps, default=0) * 1000)


def same_texts(node: Node, count: int) -> bool:
    """Whether a node tells of some executions what they were given."""
    asked = random.Random(count).sample(range(count), 50)
    held = {number: (node.ask("GET", f"/v1/executions/kept-{number}") or {}).get("input") for number in asked}
    return all(told == {"held": payload(number)} for number, told in held.items())


def settled(nodes: list[Node]) -> Callable[[], Node | None]:
    """Asks who leads, once all are members and have caught up."""

    def look() -> Node | None:
        shards = [node.shard() for node in nodes]
        members = (nodes[0].ask("GET", "/v1/cluster") or {"nodes": []})["nodes"]
        leaders = [node for node, shard in zip(nodes, shards, strict=True) if shard["role"] == "leader"]
        whole = len(members) == len(nodes) and len({shard["applied"] for shard in shards}) == 1
        return leaders[0] if whole and leaders else None

    return look


def measure(orbit: Path, home: Path, mib: int, nodes: list[Node]) -> dict[str, Any]:
    """Fills, lets the third node join, and says what that took."""
    names = ["orbit-1", "orbit-2", "orbit-3"]
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(3), strict=True)}
    nodes += [Node(orbit, home, name, peers) for name in names[:2]]
    wait_for("a cluster", lambda: nodes[0].address and nodes[0].ask("POST", "/v1/cluster/init", {}))
    leader = wait_for("two nodes", settled(nodes))
    wait_for("the workflow", lambda: leader.ask("POST", "/v1/workflows", WORKFLOW))
    count = fill(leader, mib)
    leader = wait_for("two nodes that hold the same", settled(nodes))
    held_applied, state_mib = leader.shard()["applied"], leader.state_bytes() // MIB
    print(f"{count} executions, {state_mib} MiB on disk, entry {held_applied}; a node joins", flush=True)

    load = Load(leader)
    began = time.monotonic()
    joiner = Node(orbit, home, names[2], peers)
    nodes.append(joiner)
    wait_for("its addresses", lambda: joiner.address)
    memory = Memory([leader, joiner])
    deadline = began + 600
    while joiner.shard()["applied"] < held_applied and time.monotonic() < deadline:
        time.sleep(SAMPLE_S)
    ended = time.monotonic()
    growth = memory.stop()
    time.sleep(1)
    load.stop()
    arrived = joiner.told("a snapshot is installed")
    bytes_sent = max((line["bytes"] for line in arrived), default=0)
    seconds = ended - began
    return {
        "state_mib": state_mib, "executions": count, "snapshot_mib": bytes_sent // MIB, "snapshots": len(arrived),
        "arrived_in_vain": len(joiner.told("a snapshot is not installed")),
        "seconds": round(seconds, 1), "mib_per_s": round(bytes_sent / MIB / seconds, 1),
        "sender_rss_growth_mib": growth[leader.name], "receiver_rss_growth_mib": growth[joiner.name],
        "rss_growth_max_mib": RSS_GROWTH_MAX_MIB,
        "commits_meanwhile": sum(began < at < ended for at in load.acknowledged), "refused_meanwhile": load.failed,
        "largest_gap_ms": gap_ms(load.acknowledged, began, ended), "gap_before_ms": quiet_gap_ms(leader),
        "whole": joiner.shard()["applied"] >= held_applied and same_texts(joiner, count),
    }  # fmt: skip


def quiet_gap_ms(leader: Node) -> int:
    """The longest gap of the same load without a transfer, to compare with."""
    load, began = Load(leader), time.monotonic()
    time.sleep(3)
    load.stop()
    return gap_ms(load.acknowledged, began, time.monotonic())


def faults(figures: dict[str, Any], mib: int) -> list[str]:
    """What must not be. None of it depends on how fast this machine is."""
    found = []
    if not figures["whole"]:
        found.append("the new node does not hold what the others hold")
    if figures["snapshot_mib"] < mib:
        found.append(f"no snapshot of {mib} MiB was sent")
    for who in ("sender", "receiver"):
        if figures[f"{who}_rss_growth_mib"] > RSS_GROWTH_MAX_MIB:
            found.append(f"the {who} grew by more than {RSS_GROWTH_MAX_MIB} MiB")
    if not figures["commits_meanwhile"]:
        found.append("the shard stood still while the snapshot was sent")
    return found


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="a snapshot sent to a node that joins")
    parser.add_argument("--orbit", type=Path, required=True)
    parser.add_argument("--figures", type=Path, required=True)
    parser.add_argument("--mib", type=int, default=1024)
    options = parser.parse_args()
    os.environ["no_proxy"] = "127.0.0.1"
    home, nodes = Path(tempfile.mkdtemp(prefix="orbit-snapshot-")), []
    try:
        figures = measure(options.orbit, home, options.mib, nodes)
    finally:
        for node in nodes:
            node.end()
    found = faults(figures, options.mib)
    options.figures.write_text(json.dumps({"seeds": SEEDS, "figures": figures}))
    print(json.dumps(figures, indent=2))
    for fault in found:
        print(f"snapshot: {fault}; logs are in {home}", file=sys.stderr)
    if not found:
        shutil.rmtree(home)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
