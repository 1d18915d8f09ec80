"""A worker for Orbit: takes tasks from the stream `Work` and reports what became of them.

    worker = Worker(in_turn(["127.0.0.1:7401"]), worker_id="shop-1")

    @worker.task("payments.charge", "1.0.0")
    async def charge(task: Task) -> Any: ...

    worker.main()

What it keeps to:

- A token is listed as held, in every hello and heartbeat, from its arrival until its result has been answered. So any
  node can take this session up, and what a worker that died no longer lists is handed out again.
- A result is repeated after every reconnect until it has been answered. While no node is there, work goes on.
- A task may come twice, always with the same `idempotency_key`. To do things once is the business of what a handler
  calls.

A handler is a coroutine function; it runs on the loop, so what blocks belongs into `asyncio.to_thread`.
"""

import asyncio
import itertools
import json
import logging
import random
import re
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from orbit.worker.v1 import worker_pb2 as pb
from orbit.worker.v1.worker_pb2_grpc import WorkerServiceStub

log = logging.getLogger("orbit_worker")

WELCOME_TIMEOUT_S = 10
REPEAT_RESULT_S = 0.5
RECONNECT_S = (0.1, 3.0)
# A connection that is dead without having been closed is noticed after this long.
KEEPALIVE = [("grpc.keepalive_time_ms", 10_000), ("grpc.keepalive_timeout_ms", 5_000)]

# A result refused with one of these has not been decided: it is repeated.
NOT_DECIDED = {"NO_LEADER", "OVERLOADED", "OUTCOME_UNKNOWN"}
# What a task fails with whose result no node takes.
REFUSED = "RESULT_REFUSED"
# Refusals of the hello that no further try changes.
FATAL = {"INVALID_REQUEST", "RESERVED_TASK", "UNAUTHENTICATED", "FORBIDDEN"}


class Failure(Exception):
    """Raised by a handler: the task failed. `unknown`: it may have happened all the same, so it will be undone."""

    def __init__(
        self, code: str, message: str = "", *, retryable: bool = True, unknown: bool = False, details: Any = None
    ) -> None:
        super().__init__(f"{code}: {message}")
        if not re.fullmatch("[A-Z][A-Z0-9_]*", code):
            # The node would refuse the report, and then the task would come again and again.
            raise ValueError(f"{code!r} is no code of a failure: [A-Z][A-Z0-9_]*")
        self.code, self.message, self.retryable, self.unknown, self.details = code, message, retryable, unknown, details


@dataclass(frozen=True)
class Task:
    """What a handler gets. `progress` is what the last `heartbeat` about this unit said, also in another process."""

    execution_id: str
    step_id: str
    name: str
    version: str
    input: Any
    idempotency_key: str
    attempt: int
    redelivery: bool
    deadline_ms: int | None
    progress: Any
    heartbeat: Callable[[Any], None]


@dataclass
class _Held:
    """A task from its arrival until its result has been answered."""

    job: asyncio.Task
    result: pb.Result | None = None


Handler = Callable[[Task], Awaitable[Any]]


def in_turn(addresses: Sequence[str]) -> Callable[[], str]:
    """Nodes to be tried one after the other; any will do."""
    return itertools.cycle(addresses).__next__


def open_plainly(address: str) -> grpc.aio.Channel:
    """A connection without TLS. With TLS or credentials, give `Worker` a function of your own."""
    return grpc.aio.insecure_channel(address, KEEPALIVE)


class Worker:
    """A worker with `slots` tasks at a time. `next_node` is asked for an address before each attempt to connect.

    With `session_file` the session outlives the process: the next one resumes it, says at once that it holds nothing,
    and no task has to wait for the session to time out. One process at a time may use such a file.
    """

    def __init__(
        self,
        next_node: Callable[[], str],
        *,
        worker_id: str,
        slots: int = 4,
        session_file: Path | None = None,
        open_channel: Callable[[str], grpc.aio.Channel] = open_plainly,
    ) -> None:
        self._next_node, self._open_channel = next_node, open_channel
        self._worker_id, self._slots, self._session_file = worker_id, slots, session_file
        self._session = session_file.read_text() if session_file and session_file.exists() else None
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._held: dict[str, _Held] = {}
        self._pending = pb.WorkerMessage()  # gathers what the next message will say
        self._wake = asyncio.Event()  # there is something in it
        self._stopping = False
        self._finished = asyncio.Event()  # stopping, and nothing is held any more
        self._reconnect_s = RECONNECT_S[0]

    def task(self, name: str, version: str = "1.0.0") -> Callable[[Handler], Handler]:
        """Names the task that the decorated function carries out."""

        def add(handler: Handler) -> Handler:
            self._handlers[name, version] = handler
            return handler

        return add

    def main(self) -> None:
        """Runs until SIGTERM or SIGINT."""

        async def until_told() -> None:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self.stop)
            await self.run()

        asyncio.run(until_told())

    def stop(self) -> None:
        """Takes nothing more; `run` returns when all that is held has been reported and answered."""
        self._stopping = True
        self._look_whether_finished()

    async def run(self) -> None:
        """Connects, and connects again whatever happens, until `stop`. Raises what no further try would change."""
        while not self._finished.is_set():
            try:
                async with self._open_channel(self._next_node()) as channel:
                    await self._converse(WorkerServiceStub(channel))
            except (OSError, asyncio.InvalidStateError) as error:  # a TimeoutError is an OSError
                log.info("no connection: %s", error or type(error).__name__)
            except grpc.aio.AioRpcError as error:
                self._judge(error)
            await self._pause()

    # ---- a connection

    async def _converse(self, stub: WorkerServiceStub) -> None:
        """One connection from hello to its end."""
        stream = stub.Work()
        await stream.write(pb.WorkerMessage(hello=self._hello()))
        first = await asyncio.wait_for(stream.read(), WELCOME_TIMEOUT_S)
        if first is grpc.aio.EOF or not first.HasField("welcome"):
            raise asyncio.InvalidStateError("the node did not answer the hello with a welcome")
        interval_s = first.welcome.heartbeat_interval_ms / 1000
        self._welcomed(first.welcome)
        self._take(first)
        parts = [
            asyncio.create_task(part)
            for part in (self._send(stream), self._receive(stream), self._beat(interval_s), self._finished.wait())
        ]
        done, others = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for part in others:
            part.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._finished.is_set():
            await stub.Unregister(pb.UnregisterRequest(worker_session_id=self._session), timeout=5)
            self._forget_session()
        stream.cancel()
        for part in done:
            part.result()

    def _hello(self) -> pb.RegisterRequest:
        contracts = [pb.TaskContract(task_name=name, contract_version=version) for name, version in self._handlers]
        return pb.RegisterRequest(
            worker_id=self._worker_id,
            runtime="python",
            sdk="orbit_worker.py",
            contracts=contracts,
            slots=self._slots,
            tokens=list(self._held),
            worker_session_id=self._session,
        )

    def _welcomed(self, welcome: pb.RegisterResponse) -> None:
        """Another connection knows nothing of the one before: free slots and open results are told anew."""
        log.info("session %s, %d tasks held", welcome.worker_session_id, len(self._held))
        for warning in welcome.warnings:
            log.warning("%s", warning)
        self._session = welcome.worker_session_id
        if self._session_file:
            new = self._session_file.with_suffix(".new")
            new.write_text(self._session)
            new.replace(self._session_file)
        self._reconnect_s = RECONNECT_S[0]
        results = [held.result for held in self._held.values() if held.result]
        free = self._slots - (len(self._held) - len(results))
        self._pending = pb.WorkerMessage(slots=0 if self._stopping else free, results=results)
        self._wake.set()

    async def _send(self, stream: grpc.aio.StreamStreamCall) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            message, self._pending = self._pending, pb.WorkerMessage()
            await stream.write(message)

    async def _beat(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            # An empty list says that nothing is held; no list would say nothing.
            self._pending.heartbeat.CopyFrom(pb.Tokens(tokens=self._held))
            self._wake.set()

    async def _receive(self, stream: grpc.aio.StreamStreamCall) -> None:
        """Until the stream ends, or the node says that it goes away."""
        while (message := await stream.read()) is not grpc.aio.EOF:
            self._take(message)
            if message.drain:
                log.info("the node goes away")
                return

    def _take(self, message: pb.NodeMessage) -> None:
        for task in message.tasks:
            self._begin(task)
        for token in message.cancel:
            if token in self._held:
                self._held[token].job.cancel()
        for ack in message.acks:
            self._answered(ack)

    def _judge(self, error: grpc.aio.AioRpcError) -> None:
        code = dict(error.trailing_metadata() or ()).get("orbit-error-code")
        if code in FATAL:
            raise error
        if code == "UNKNOWN_SESSION":
            self._forget_session()
        log.info("connection lost: %s %s", code or error.code().name, error.details())

    async def _pause(self) -> None:
        """Longer from time to time, up to a bound; never for two workers equally long."""
        try:
            await asyncio.wait_for(self._finished.wait(), self._reconnect_s * random.uniform(0.5, 1))
        except TimeoutError:
            self._reconnect_s = min(2 * self._reconnect_s, RECONNECT_S[1])

    def _forget_session(self) -> None:
        self._session = None
        if self._session_file:
            self._session_file.unlink(missing_ok=True)

    # ---- a task

    def _begin(self, task: pb.Task) -> None:
        if self._stopping:
            return  # without a receipt it is handed to somebody else
        self._pending.receipts.append(task.token)
        self._wake.set()
        if task.token in self._held:
            self._pending.slots += 1
            return
        job = asyncio.ensure_future(self._handle(task))
        self._held[task.token] = _Held(job)
        job.add_done_callback(lambda _: self._end(task.token))

    async def _handle(self, task: pb.Task) -> bytes:
        def heartbeat(details: Any = None) -> None:
            self._heartbeat(task.token, json.dumps(details).encode())

        output = await self._handlers[task.task_name, task.contract_version](
            Task(
                execution_id=task.execution_id,
                step_id=task.step_id,
                name=task.task_name,
                version=task.contract_version,
                input=json.loads(task.input or b"null"),
                idempotency_key=task.idempotency_key,
                attempt=task.attempt,
                redelivery=task.redelivery,
                deadline_ms=task.deadline_ms if task.HasField("deadline_ms") else None,
                progress=json.loads(task.last_heartbeat_details or b"null"),
                heartbeat=heartbeat,
            )
        )
        return json.dumps(output, allow_nan=False).encode()

    def _heartbeat(self, token: str, details: bytes) -> None:
        """Only the newest of each task is sent: what waits for a connection stays small."""
        older = [beat for beat in self._pending.task_heartbeats if beat.token != token]
        del self._pending.task_heartbeats[:]
        self._pending.task_heartbeats.extend([*older, pb.TaskHeartbeatRequest(token=token, details=details)])
        self._wake.set()

    def _end(self, token: str) -> None:
        held = self._held[token]
        held.result = _result(token, held.job)
        if not self._stopping:
            self._pending.slots += 1  # in the same message, so that the next task rides on the commit of this result
        self._pending.results.append(held.result)
        self._wake.set()

    def _answered(self, ack: pb.Ack) -> None:
        held = self._held.get(ack.token)
        if held is None or held.result is None:
            return
        if ack.error_code in NOT_DECIDED:
            asyncio.get_running_loop().call_later(REPEAT_RESULT_S, self._repeat, ack.token)
            return
        if ack.error_code and held.result.fail.error_code != REFUSED:
            # Not taken in at all: too large, for one. Said no more, the task would come again and again.
            failure = Failure(REFUSED, f"{ack.error_code}: {ack.reason}", retryable=False, unknown=True)
            held.result = _failed(ack.token, failure)
            self._repeat(ack.token)
            return
        if not ack.accepted:
            log.warning("a result does not count: %s", ack.reason or ack.error_code)
        del self._held[ack.token]
        self._look_whether_finished()

    def _repeat(self, token: str) -> None:
        held = self._held.get(token)
        if held and held.result:
            self._pending.results.append(held.result)
            self._wake.set()

    def _look_whether_finished(self) -> None:
        if self._stopping and not self._held:
            self._finished.set()


def _result(token: str, job: "asyncio.Task[bytes]") -> pb.Result:
    """What is reported of a job that has ended."""
    if job.cancelled():
        failure = Failure("STOPPED", "stopped when told to", unknown=True)
    elif (error := job.exception()) is None:
        return pb.Result(complete=pb.CompleteRequest(token=token, output=job.result()))
    elif isinstance(error, Failure):
        failure = error
    else:
        # Nobody knows how far it came.
        log.error("a handler raised", exc_info=error)
        failure = Failure("HANDLER_RAISED", f"{type(error).__name__}: {error}", unknown=True)
    return _failed(token, failure)


def _failed(token: str, failure: Failure) -> pb.Result:
    details = None if failure.details is None else json.dumps(failure.details).encode()
    return pb.Result(
        fail=pb.FailRequest(
            token=token,
            error_code=failure.code,
            error_message=failure.message,
            retryable=failure.retryable,
            unknown=failure.unknown,
            details=details,
        )
    )
