"""Turns Ctrl-C, SIGTERM and SIGHUP into a request that a run looks at, so that it can clean up before it ends."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """Context manager: inside it a signal only sets `requested`; on leaving it the signal does what it always did.

    An exception out of a handler could arrive between the start of a child and the note that there is one. Outside
    of the main thread nothing is changed: handlers cannot be set there, and signals do not arrive there.
    """

    def __init__(self) -> None:
        self.requested: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                # An ignored signal (nohup) stays ignored.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self.requested is not None and kind is None:
            signal.raise_signal(self.requested)

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = number
