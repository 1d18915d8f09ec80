"""The library `orbit_worker` against a node that says only what a test tells it to say."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import pytest
from orbit.worker.v1 import worker_pb2 as pb
from orbit.worker.v1 import worker_pb2_grpc

import orbit_worker
from orbit_worker import Failure, Task, Worker

HEARTBEAT_MS = 50
PATIENCE_S = 20


class Stream:
    """One connection of the worker, seen from the node."""

    def __init__(self, requests, context) -> None:
        self._requests, self.context = requests, context
        self.outgoing: asyncio.Queue[pb.NodeMessage | None] = asyncio.Queue()
        self.hello: pb.RegisterRequest | None = None

    async def said(self, what: Callable[[pb.WorkerMessage], bool]) -> pb.WorkerMessage:
        """The next message of which this is true."""
        async for message in self._requests:
            if what(message):
                return message
        raise AssertionError("the worker closed the stream")

    async def say(self, **fields) -> None:
        await self.outgoing.put(pb.NodeMessage(**fields))

    async def welcome(self, session: str = "s-1") -> None:
        await self.say(
            welcome=pb.RegisterResponse(
                accepted=True,
                worker_session_id=session,
                heartbeat_interval_ms=HEARTBEAT_MS,
                session_timeout_ms=30_000,
            )
        )

    async def result(self) -> pb.Result:
        return (await self.said(lambda message: bool(message.results))).results[0]

    async def ack(self, token: str, **fields) -> None:
        await self.say(acks=[pb.Ack(token=token, **{"accepted": True, **fields})])

    async def close(self) -> None:
        """Ends the connection from the node's side."""
        await self.outgoing.put(None)


class Node(worker_pb2_grpc.WorkerServiceServicer):
    """Gives each new stream to the test; a stream with `refuse` is refused with that code."""

    def __init__(self) -> None:
        self.streams: asyncio.Queue[Stream] = asyncio.Queue()
        self.unregistered: asyncio.Queue[str] = asyncio.Queue()
        self.refuse: list[str] = []

    async def Work(self, requests, context):
        hello = await anext(aiter(requests))
        if self.refuse:
            context.set_trailing_metadata((("orbit-error-code", self.refuse.pop(0)),))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "refused")
        stream = Stream(requests, context)
        stream.hello = hello.hello
        await self.streams.put(stream)
        while (message := await stream.outgoing.get()) is not None:
            yield message

    async def Unregister(self, request, context):
        await self.unregistered.put(request.worker_session_id)
        return pb.UnregisterResponse(accepted=True)

    async def connected(self) -> Stream:
        """The next stream, after its hello and before its welcome."""
        return await self.streams.get()


def task(token: str = "t-1", **fields) -> pb.Task:
    usual = {
        "task_name": "echo",
        "contract_version": "1.0.0",
        "execution_id": "order-1",
        "step_id": "charge",
        "input": b'{"n": 9007199254740993}',
        "idempotency_key": "key-1",
        "attempt": 1,
    }
    return pb.Task(token=token, **{**usual, **fields})


def scene(play: Callable[[Node, Worker], Awaitable[None]], **options) -> None:
    """Runs `play` beside a worker with the task `echo` and an in-process node; the worker must end when stopped."""

    async def run() -> None:
        node, server = Node(), grpc.aio.server()
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(node, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        worker = Worker(lambda: f"127.0.0.1:{port}", worker_id="w", **options)

        @worker.task("echo")
        async def echo(task: Task) -> object:
            return task.input

        running = asyncio.create_task(worker.run())
        playing = asyncio.create_task(play(node, worker))
        try:
            await asyncio.wait({running, playing}, return_when=asyncio.FIRST_COMPLETED)
            if running.done() and running.exception():
                playing.cancel()
            else:
                await playing
            await running
        finally:
            running.cancel()
            await server.stop(None)

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


async def stop(node: Node, worker: Worker) -> str:
    """The session that it unregisters."""
    worker.stop()
    return await node.unregistered.get()


def held(message: pb.WorkerMessage) -> list[str] | None:
    return list(message.heartbeat.tokens) if message.HasField("heartbeat") else None


def test_a_task_is_received_done_answered_and_no_longer_listed():
    async def play(node: Node, worker: Worker) -> None:
        stream = await node.connected()
        assert stream.hello.worker_id == "w" and stream.hello.runtime == "python" and not stream.hello.tokens
        assert not stream.hello.HasField("worker_session_id")
        await stream.welcome()
        assert (await stream.said(lambda m: m.slots > 0)).slots == 3
        await stream.say(tasks=[task()])
        receipt = await stream.said(lambda m: list(m.receipts) == ["t-1"])
        done = receipt if receipt.results else await stream.said(lambda m: bool(m.results))
        assert done.results[0].complete.token == "t-1"
        assert json.loads(done.results[0].complete.output) == {"n": 9007199254740993}
        assert done.slots == 1, "the free slot comes with the result"
        assert held(await stream.said(lambda m: held(m) is not None)) == ["t-1"], "listed until it is answered"
        await stream.ack("t-1")
        await stream.said(lambda m: held(m) == [])
        assert await stop(node, worker) == "s-1"

    scene(play, slots=3)


def test_after_a_reconnect_the_session_is_resumed_and_what_runs_is_listed_and_goes_on():
    async def play(node: Node, worker: Worker) -> None:
        go, begun = asyncio.Event(), []

        @worker.task("slow")
        async def slow(task: Task) -> str:
            begun.append(task.idempotency_key)
            await go.wait()
            return "done"

        first = await node.connected()
        await first.welcome("s-7")
        await first.say(tasks=[task(task_name="slow")])
        await first.said(lambda m: list(m.receipts) == ["t-1"])
        await first.close()
        second = await node.connected()
        assert second.hello.worker_session_id == "s-7" and list(second.hello.tokens) == ["t-1"]
        await second.welcome("s-7")
        assert (await second.said(lambda m: m.slots > 0)).slots == 1, "one of two slots is taken"
        go.set()
        assert (await second.result()).complete.output == b'"done"'
        await second.ack("t-1")
        assert begun == ["key-1"], "the work was done once"
        await stop(node, worker)

    scene(lambda node, worker: play(node, worker), slots=2)


def test_a_result_whose_ack_was_lost_is_repeated_until_it_is_answered():
    async def play(node: Node, worker: Worker) -> None:
        first = await node.connected()
        await first.welcome()
        await first.say(tasks=[task()])
        result = await first.result()
        await first.close()
        second = await node.connected()
        assert list(second.hello.tokens) == ["t-1"]
        await second.welcome()
        again = await second.said(lambda m: bool(m.results))
        assert again.results[0] == result
        assert again.slots == 1, "work that is done takes no slot"
        await second.ack("t-1", accepted=False, error_code="NO_LEADER")
        assert await second.result() == result, "not decided, so repeated on the same connection"
        await second.ack("t-1", accepted=False, reason="the execution is over")
        await second.said(lambda m: held(m) == [])
        await second.close()
        third = await node.connected()
        assert not third.hello.tokens, "an answer is an answer, also when the result does not count"
        await third.welcome()
        await stop(node, worker)

    scene(play, slots=1)


def test_a_result_that_no_node_takes_becomes_a_failure():
    async def play(node: Node, worker: Worker) -> None:
        stream = await node.connected()
        await stream.welcome()
        await stream.say(tasks=[task()])
        await stream.result()
        await stream.ack("t-1", accepted=False, error_code="PAYLOAD_TOO_LARGE", reason="2 MiB at most")
        failure = (await stream.result()).fail
        assert (failure.error_code, failure.retryable, failure.unknown) == ("RESULT_REFUSED", False, True)
        assert failure.error_message == "PAYLOAD_TOO_LARGE: 2 MiB at most"
        await stream.ack("t-1", accepted=False, error_code="INVALID_REQUEST")
        await stream.said(lambda m: held(m) == [])
        await stop(node, worker)

    scene(play, slots=1)


def test_a_result_that_comes_while_no_node_is_there_is_reported_later():
    async def play(node: Node, worker: Worker) -> None:
        go, ended = asyncio.Event(), asyncio.Event()

        @worker.task("slow")
        async def slow(task: Task) -> None:
            await go.wait()
            ended.set()

        first = await node.connected()
        await first.welcome()
        await first.say(tasks=[task(task_name="slow")])
        await first.said(lambda m: bool(m.receipts))
        await first.close()
        second = await node.connected()  # connected, but not welcome yet
        go.set()
        await ended.wait()
        await second.welcome()
        assert (await second.result()).complete.output == b"null"
        await second.ack("t-1")
        await stop(node, worker)

    scene(play)


def test_a_cancel_stops_the_handler_and_is_reported():
    async def play(node: Node, worker: Worker) -> None:
        stopped = asyncio.Event()

        @worker.task("endless")
        async def endless(task: Task) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        stream = await node.connected()
        await stream.welcome()
        await stream.say(tasks=[task(task_name="endless")])
        await stream.said(lambda m: bool(m.receipts))
        await stream.say(cancel=["t-1", "t-never-seen"])
        result = await stream.result()
        assert stopped.is_set()
        assert (result.fail.error_code, result.fail.unknown) == ("STOPPED", True)
        await stream.ack("t-1", accepted=False, reason="not live")
        await stop(node, worker)

    scene(play)


def test_a_cancel_that_overtakes_the_start_of_the_handler_is_reported_too():
    async def play(node: Node, worker: Worker) -> None:
        stream = await node.connected()
        await stream.welcome()
        await stream.say(tasks=[task()], cancel=["t-1"])
        assert (await stream.result()).fail.error_code == "STOPPED"
        await stream.ack("t-1")
        await stop(node, worker)

    scene(play)


def test_failures_say_what_their_handler_says_and_what_nobody_expected_is_unknown():
    async def play(node: Node, worker: Worker) -> None:
        @worker.task("refuse")
        async def refuse(task: Task) -> None:
            raise Failure("NO_STOCK", "sold out", retryable=False, details={"sku": "lamp"})

        @worker.task("break")
        async def breaks(task: Task) -> None:
            raise ValueError("seven")

        @worker.task("misname")
        async def misname(task: Task) -> None:
            raise Failure("no stock")

        @worker.task("nan")
        async def nan(task: Task) -> float:
            return float("nan")

        stream = await node.connected()
        await stream.welcome()
        found = {}
        for name in ("refuse", "break", "misname", "nan"):
            await stream.say(tasks=[task(token=name, task_name=name)])
            found[name] = (await stream.result()).fail
            await stream.ack(name)
        refused = found["refuse"]
        assert (refused.error_code, refused.retryable, refused.unknown) == ("NO_STOCK", False, False)
        assert json.loads(refused.details) == {"sku": "lamp"}
        assert (found["break"].error_code, found["break"].error_message) == ("HANDLER_RAISED", "ValueError: seven")
        assert found["break"].retryable and found["break"].unknown and not found["break"].HasField("details")
        assert found["misname"].error_code == "HANDLER_RAISED" and "'no stock'" in found["misname"].error_message
        assert found["nan"].unknown, "an output that is no JSON comes after the work"
        await stop(node, worker)

    scene(play)


def test_a_task_that_comes_twice_under_one_token_is_done_once():
    async def play(node: Node, worker: Worker) -> None:
        go, begun = asyncio.Event(), []

        @worker.task("slow")
        async def slow(task: Task) -> None:
            begun.append(task)
            await go.wait()

        stream = await node.connected()
        await stream.welcome()
        await stream.say(tasks=[task(task_name="slow")])
        await stream.said(lambda m: bool(m.receipts))
        await stream.say(tasks=[task(task_name="slow")])
        assert (await stream.said(lambda m: bool(m.receipts))).slots == 1, "the slot it came in is free again"
        go.set()
        await stream.result()
        await stream.ack("t-1")
        assert len(begun) == 1
        await stop(node, worker)

    scene(play)


def test_of_the_heartbeats_of_a_task_the_newest_is_sent_and_comes_back_as_progress():
    async def play(node: Node, worker: Worker) -> None:
        seen = []

        @worker.task("far")
        async def far(task: Task) -> None:
            seen.append(task.progress)
            for done in range(3):
                task.heartbeat({"done": done})

        stream = await node.connected()
        await stream.welcome()
        await stream.say(tasks=[task(task_name="far", last_heartbeat_details=b'{"done": 1}')])
        beats = (await stream.said(lambda m: bool(m.task_heartbeats))).task_heartbeats
        assert [(beat.token, json.loads(beat.details)) for beat in beats] == [("t-1", {"done": 2})]
        assert seen == [{"done": 1}]
        await stream.ack("t-1")
        await stop(node, worker)

    scene(play)


def test_who_stops_finishes_takes_nothing_more_and_unregisters():
    async def play(node: Node, worker: Worker) -> None:
        go = asyncio.Event()

        @worker.task("slow")
        async def slow(task: Task) -> None:
            await go.wait()

        stream = await node.connected()
        await stream.welcome()
        await stream.say(tasks=[task(task_name="slow")])
        await stream.said(lambda m: bool(m.receipts))
        worker.stop()
        await stream.say(tasks=[task(token="t-late")])
        assert held(await stream.said(lambda m: held(m) is not None or bool(m.receipts))) == ["t-1"], "no receipt"
        go.set()
        done = await stream.said(lambda m: bool(m.results))
        assert done.slots == 0
        assert node.unregistered.empty(), "not before the result has been answered"
        await stream.ack("t-1")
        await stop(node, worker)

    scene(play)


def test_a_process_that_comes_after_a_killed_one_resumes_its_session_and_says_that_it_holds_nothing(tmp_path: Path):
    file = tmp_path / "session"
    file.write_text("s-before")

    async def play(node: Node, worker: Worker) -> None:
        stream = await node.connected()
        assert stream.hello.worker_session_id == "s-before" and not stream.hello.tokens
        await stream.welcome("s-now")
        await stream.said(lambda m: m.slots > 0)
        assert file.read_text() == "s-now"
        await stop(node, worker)

    scene(play, session_file=file)
    assert not file.exists(), "an unregistered session is not resumed"


def test_a_session_that_no_node_knows_is_left_behind():
    async def play(node: Node, worker: Worker) -> None:
        first = await node.connected()
        await first.welcome("s-old")
        await first.said(lambda m: m.slots > 0)
        node.refuse = ["UNKNOWN_SESSION"]
        await first.close()
        second = await node.connected()
        assert not second.hello.HasField("worker_session_id")
        await second.welcome()
        await stop(node, worker)

    scene(play)


def test_a_drain_sends_the_worker_elsewhere_with_its_session():
    async def play(node: Node, worker: Worker) -> None:
        first = await node.connected()
        await first.welcome("s-1")
        await first.say(drain=True)
        second = await node.connected()
        assert second.hello.worker_session_id == "s-1"
        await second.welcome("s-1")
        await stop(node, worker)

    scene(play)


def test_what_no_further_try_changes_ends_the_worker():
    async def play(node: Node, worker: Worker) -> None:
        node.refuse = ["RESERVED_TASK"]
        await asyncio.Event().wait()

    with pytest.raises(grpc.aio.AioRpcError):
        scene(play)


def test_nodes_are_tried_in_turn():
    following = orbit_worker.in_turn(["a", "b"])
    assert [following(), following(), following()] == ["a", "b", "a"]
