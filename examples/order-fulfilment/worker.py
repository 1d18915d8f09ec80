"""The worker of order-fulfilment: seven tasks of a shop, on the library `orbit_worker`.

    worker.py --address 127.0.0.1:7401 --ledger shop.jsonl
"""

import argparse
import asyncio
import itertools
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledger import Ledger
from orbit_worker import Failure, Task, Worker, in_turn

SERVED = {"DE", "FR", "NO", "SE"}


class Shop:
    """Calls the outside world. Every task takes `pace_s`, half of it before anything happens and half after.

    While there is a `stall_file`, work stands still at the place that it names ("charge before", "ship after"): there a
    process can be killed in the middle, for sure.
    """

    def __init__(self, ledger: Ledger, pace_s: float, stall_file: Path | None) -> None:
        self._ledger, self._pace_s, self._stall_file = ledger, pace_s, stall_file

    async def do(self, task: Task, effect: Callable[[Any], Any]) -> Any:
        """`effect` happens once for each idempotency key, however often the task comes."""
        about = {"order": task.execution_id, "step": task.step_id, "task": task.name}
        self._ledger.note("began", key=task.idempotency_key, attempt=task.attempt, redelivery=task.redelivery, **about)
        await self._spend("before", task, about)
        answer = self._ledger.once(task.idempotency_key, lambda: effect(task.input), **about)
        await self._spend("after", task, about)
        return answer

    async def _spend(self, half: str, task: Task, about: dict[str, str]) -> None:
        if self._stalls(f"{task.step_id} {half}"):
            self._ledger.note("stalled", key=task.idempotency_key, half=half, **about)
        while self._stalls(f"{task.step_id} {half}"):
            await asyncio.sleep(0.02)
        await asyncio.sleep(self._pace_s / 2)

    def _stalls(self, place: str) -> bool:
        try:
            return self._stall_file is not None and self._stall_file.read_text() == place
        except FileNotFoundError:
            return False

    def served(self, task: Task) -> None:
        """The carrier refuses what it does not serve, and no further try changes that."""
        country = task.input["country"]
        if country not in SERVED:
            self._ledger.note("refused", key=task.idempotency_key, order=task.execution_id, step=task.step_id)
            raise Failure("DESTINATION_REFUSED", f"no parcels to {country}", retryable=False)


def add_tasks(worker: Worker, shop: Shop) -> None:
    """Everything that order-fulfilment asks for."""

    def simple(name: str, effect: Callable[[Any], Any]) -> None:
        @worker.task(name, "1.0.0")
        async def handler(task: Task) -> Any:
            return await shop.do(task, effect)

    simple("stock.reserve", lambda order: {"reservation": f"{order['order']}/{order['sku']}"})
    simple("stock.release", lambda order: {"released": f"{order['order']}/{order['sku']}"})
    simple("payments.charge", lambda order: {"charge": f"charge-{order['order']}", "cents": order["cents"]})
    simple("payments.refund", lambda order: {"refunded": order["cents"]})
    simple("shipping.cancel", lambda order: {"cancelled": order["order"]})
    simple("mail.confirm", lambda order: {"sent_to": order["to"]})

    @worker.task("shipping.book", "1.0.0")
    async def book(task: Task) -> Any:
        shop.served(task)
        return await shop.do(task, lambda order: {"parcel": f"parcel-{order['order']}"})


def main() -> None:
    """Reads the command line and runs until SIGTERM."""
    parser = argparse.ArgumentParser(description="the worker of order-fulfilment")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--address", nargs="+", help="host:port of the gRPC side of one or more nodes")
    where.add_argument(
        "--addresses-file", type=Path, nargs="+", help="addresses.json of one or more nodes, read before each connection"
    )
    parser.add_argument("--ledger", type=Path, required=True, help="file in which the outside world notes what it did")
    parser.add_argument("--id", default="shop-1", help="who this worker is, over its restarts")
    parser.add_argument("--session-file", type=Path, help="where the session is kept over restarts")
    parser.add_argument("--pace", type=float, default=0.2, metavar="SECONDS", help="how long a task takes")
    parser.add_argument("--stall-file", type=Path, help="while it is there, stand still at the place that it names")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

    next_file = itertools.cycle(options.addresses_file or [])

    def from_file() -> str:
        return json.loads(next(next_file).read_text())["grpc"]

    worker = Worker(
        in_turn(options.address) if options.address else from_file,
        worker_id=options.id,
        session_file=options.session_file,
    )
    add_tasks(worker, Shop(Ledger(options.ledger), options.pace, options.stall_file))
    worker.main()


if __name__ == "__main__":
    main()
