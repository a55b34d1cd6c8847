"""Parent side of the meeting of all ranks: start the child, hand it words, hear the others', each within a limit.

Knows nothing of checks. Whatever happens to another rank, to the store or to the child, no call waits past its end.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import UndeterminedError
from ..smoke.process import signal_name
from .launch import Launch

_CHILD = Path(__file__).with_name("meeting_child.py")
_TICK = 0.1
_LINGER = 3.0  # seconds that the store outlives a rank 0 that ended without a word, for the others to notice


class Meeting:
    """The other ranks, as this one hears them. A context manager: on leaving it the child is gone."""

    def __init__(self, launch: Launch, python: str, limit: float) -> None:
        self.values: dict[str, str] = {}  # what was wanted and has been said
        self.trouble = ""  # why there is no meeting, or no longer
        self.joined = False
        self._seen: dict[str, str | None] | None = None
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        job = {
            "host": launch.host, "port": launch.port, "serves": launch.serves, "limit": limit, "linger": _LINGER,
            "prefix": f"kerneldoctor/{launch.session}/", "beat": f"beat/{launch.rank}", "will": f"gone/{launch.rank}",
            "rank": launch.rank,
        }  # fmt: skip
        try:
            self._child = subprocess.Popen(
                [python, str(_CHILD)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env={**os.environ, "TORCH_CPP_LOG_LEVEL": "FATAL"},
                # A launcher ends its ranks as a group: the child must live to tell the others.
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise UndeterminedError(f"{python} cannot be started: {error.strerror or error}") from None
        threading.Thread(target=self._listen, daemon=True).start()
        self._send(job)

    def __enter__(self) -> Meeting:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: object) -> None:
        # After an error the child is left without a word, so that it tells the others that this rank is gone.
        if kind is None:
            self._send({"order": "over"})
        with contextlib.suppress(OSError):
            assert self._child.stdin is not None
            self._child.stdin.close()
        try:
            self._child.wait(2 if kind is None else _LINGER + 2)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(2)

    def put(self, key: str, value: str) -> None:
        """Say something to all, once and for ever."""
        self._send({"order": "put", "key": key, "value": value})

    def stage(self, text: str) -> None:
        """Say with the next sign of life what this rank is at."""
        self._send({"order": "stage", "stage": text})

    def want(self, *keys: Iterable[str]) -> None:
        """From now on `values` gets what is said; of several keys that are given together, under the first one."""
        self._send({"order": "want", "keys": [list(together) for together in keys]})

    def look(self, keys: Iterable[str], seconds: float = 5.0) -> Mapping[str, str | None]:
        """What is said under keys at this moment; nothing where the child does not answer."""
        self._seen = None
        self._send({"order": "look", "keys": list(keys)})
        self.wait(lambda: self._seen is not None, time.monotonic() + seconds)
        return self._seen or {}

    def wait(self, until: Callable[[], bool], end: float) -> bool:
        """Hear the others until a condition holds, the time (monotonic) is up, or there is nobody to hear."""
        while not until():
            left = end - time.monotonic()
            if left <= 0 or self.trouble:
                return until()
            with contextlib.suppress(queue.Empty):
                self._hear(self._events.get(timeout=min(_TICK, left)))
        return True

    def hear(self) -> None:
        """Take in what was said by now, without waiting."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._hear(self._events.get_nowait())

    def _send(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError, ValueError):  # it has ended; why is told by `trouble`
            assert self._child.stdin is not None
            self._child.stdin.write((json.dumps(message) + "\n").encode())
            self._child.stdin.flush()

    def _listen(self) -> None:
        assert self._child.stdout is not None
        with self._child.stdout as lines:
            for line in lines:
                with contextlib.suppress(ValueError):
                    self._events.put(json.loads(line))
        code = self._child.wait()
        words = f"died of {signal_name(code)}" if code < 0 else f"ended with exit code {code}"
        self._events.put({"event": "trouble", "why": f"the process that meets the other ranks {words}"})

    def _hear(self, event: Mapping[str, Any]) -> None:
        match event:
            case {"event": "joined"}:
                self.joined = True
            case {"event": "got", "key": str(key), "value": str(value)}:
                self.values[key] = value
            case {"event": "seen", "values": dict(values)}:
                self._seen = values
            case {"event": "trouble", "why": str(why)}:
                self.trouble = self.trouble or why
            case _:
                pass
