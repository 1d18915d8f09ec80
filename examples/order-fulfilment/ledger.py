"""What the outside world did: a stock, a bank, a carrier, a post office, all in one file of JSON lines.

They recognise a repetition by its idempotency key, as a good service does: the second time nothing is done and the
answer is that of the first. A line is on disk before anybody hears of it, so the file can be read after any crash.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Ledger:
    """Lines {at_ms, pid, event, …}; `event` is `began`, `did`, `repeated`, `refused` or `stalled`."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "a+", encoding="utf-8")

    def note(self, event: str, **fields: Any) -> None:
        """Adds a line."""
        line = {"at_ms": time.time_ns() // 1_000_000, "pid": os.getpid(), "event": event, **fields}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def once(self, key: str, effect: Callable[[], Any], **fields: Any) -> Any:
        """Does it, unless it was done under this key before; either way the same answer."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            self._file.seek(0)
            lines = [json.loads(line) for line in self._file]
            for line in lines:
                if line["event"] == "did" and line["key"] == key:
                    self.note("repeated", key=key, **fields)
                    return line["answer"]
            answer = effect()
            self.note("did", key=key, answer=answer, **fields)
            return answer
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
