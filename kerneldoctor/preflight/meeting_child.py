"""The child through which a rank meets the others: a client of torch.distributed's key-value store, or its server.

Run by path under the interpreter that owns torch: `PYTHON meeting_child.py`. The job comes as the first line of
standard input, orders as the next ones, events go out as lines. It needs the standard library and torch alone. Keys
are polled and never waited for, so that no answer of the store can hang it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time
from datetime import timedelta
from typing import Any

# The script's folder is on the path because it lies there; its modules must not hide anybody's.
_HERE = __file__.replace("\\", "/").rpartition("/")[0] or "."
if sys.path and sys.path[0].replace("\\", "/").rstrip("/") == _HERE:
    del sys.path[0]

_TICK = 0.1  # seconds between two looks at what is wanted
_IDLE = 3  # times as long as a look took it rests: rank 0 of a thousand asks for two thousand keys
_BEAT = 1.0  # seconds between two signs of life
_ANSWER = 20.0  # seconds that the store may take for one answer


class Room:
    """One rank's end of the store."""

    def __init__(self, job: dict[str, Any], out: int) -> None:
        self._job, self._out = job, out
        self._end = time.monotonic() + job["limit"]
        self._store: Any = None
        self._wanted: list[list[str]] = []  # of each the first key that is there answers for all
        self._beats, self._beaten, self._stage = 0, 0.0, "start"
        self._unsaid: list[tuple[str, str]] = []  # what was to be said before there was a store
        self._input = b""
        self._over = False  # the parent said so
        self._gone = False  # the parent ended without a word

    def say(self, event: str, **fields: Any) -> None:
        """One event to the parent."""
        with contextlib.suppress(OSError):
            os.write(self._out, (json.dumps({"event": event, **fields}) + "\n").encode())

    def run(self) -> int:
        """Join, serve orders until the parent is done or gone, and leave word of that."""
        try:
            self._join()
            if self._store is None:
                return 1
            self.say("joined")
            pause = _TICK
            while not (self._over or self._gone):
                self._read(pause)
                began = time.monotonic()
                self._turn()
                pause = max(_TICK, _IDLE * (time.monotonic() - began))
            if self._gone:
                self._put(self._job["will"], self._stage)
                self._put("gone/any", str(self._job["rank"]))
        except Exception as error:  # noqa: BLE001 - the child's outermost frame: the parent words it
            self.say("trouble", why=_first_line(error))
            return 1
        if self._gone and self._job["serves"]:
            time.sleep(self._job["linger"])  # the others are to read that word
        return 0

    def _join(self) -> None:
        """Connect within the limit, in short attempts, so that an end of the parent is seen between them."""
        try:
            from torch.distributed import TCPStore
        except Exception as error:  # noqa: BLE001 - a broken torch raises anything
            self.say("trouble", why=f"torch.distributed cannot be imported: {_first_line(error)}")
            return
        last: Exception | None = None
        while time.monotonic() < self._end and not (self._gone or self._over):
            left = max(0.5, min(3.0, self._end - time.monotonic()))
            try:
                self._store = TCPStore(
                    self._job["host"], self._job["port"], None, self._job["serves"],
                    timeout=timedelta(seconds=left), wait_for_workers=False,
                )  # fmt: skip
                self._store.set_timeout(timedelta(seconds=_ANSWER))
                for key, value in self._unsaid:
                    self._put(key, value)
                return
            except Exception as error:  # noqa: BLE001 - tells "not yet there" and "in use" apart by text alone
                last = error
                if self._job["serves"]:
                    break
                self._read(0.3)
        where = f"{self._job['host']}:{self._job['port']}"
        serves = self._job["serves"]
        did = "the meeting place of the ranks cannot be opened" if serves else "rank 0 cannot be reached"
        self.say("trouble", why=f"{did} at {where}: {_first_line(last)}")

    def _turn(self) -> None:
        now = time.monotonic()
        if now - self._beaten >= _BEAT:
            self._beats, self._beaten = self._beats + 1, now
            self._put(self._job["beat"], f"{self._beats} {self._stage}")
        self._wanted = [keys for keys in self._wanted if not self._tell(keys)]

    def _tell(self, keys: list[str]) -> bool:
        for key in keys:
            value = self._get(key)
            if value is not None:
                self.say("got", key=key, value=value)
                return True
        return False

    def _read(self, seconds: float) -> None:
        """What the parent has to say, and whether it is still there."""
        ready, _, _ = select.select([0], [], [], seconds)
        if not ready:
            return
        data = os.read(0, 1 << 20)
        self._gone = not data and not self._over
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, order: dict[str, Any]) -> None:
        match order["order"]:
            case "put":
                self._put(order["key"], order["value"])
            case "want":
                self._wanted += order["keys"]
            case "look":
                self.say("seen", values={key: self._get(key) for key in order["keys"]})
            case "stage":
                self._stage = order["stage"]
            case "over":
                self._over = True

    def _put(self, key: str, value: str) -> None:
        if self._store is None:
            self._unsaid.append((key, value))
            return
        self._store.set(self._job["prefix"] + key, value)

    def _get(self, key: str) -> str | None:
        if self._store is None:
            return None
        name = self._job["prefix"] + key
        return self._store.get(name).decode("utf-8", "replace") if self._store.check([name]) else None


def _first_line(error: BaseException | None) -> str:
    text = (str(error).strip().splitlines() or [""])[0][:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def main() -> int:
    """Keep the way to the parent free of what libraries print."""
    out = os.dup(1)
    os.dup2(2, 1)
    line = b""
    while not line.endswith(b"\n"):  # unbuffered: orders that follow must stay in the pipe
        data = os.read(0, 1)
        if not data:
            return 1
        line += data
    return Room(json.loads(line), out).run()


if __name__ == "__main__":
    os._exit(main())  # taking torch down in order costs a second, and there is nothing to save
