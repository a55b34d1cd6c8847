"""Looks after one running child: reads its journal, keeps its time, says when it is over. Judges nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from .outcome import How
from .process import Child
from .protocol import Done, Event, Planned, Refused, Result, Stage, read_journal

if TYPE_CHECKING:
    from .runner import Room

_TICK = 0.05  # seconds between two looks at the journal


class Watch:
    """One running child."""

    def __init__(self, room: Room, child: Child, journal: Path, nonce: str) -> None:
        self._room, self._child, self._journal, self._nonce = room, child, journal, nonce
        self._read = 0
        self._since = time.monotonic()  # when the load, or the current case, began
        self.said: set[type[Event]] = set()
        self.stage: Stage | None = None
        self.stages: list[str] = []  # of the case of `stage`
        self.judged = False  # that case has its result
        self.seconds = 0.0  # that it took, once the child is over

    def until_over(self) -> How:
        """Wait for the end of the child, or for a reason to end it."""
        while True:
            self.catch_up()
            self._room.show(self.stage, self._since)
            self.seconds = time.monotonic() - self._since
            if self._child.exited():
                return How.EXIT
            over = bool({Done, Refused} & self.said)
            how = self._room.overdue(self.stage, Planned in self.said, over, self._since)
            if how is not None:
                return how
            if self._room.too_big(self._child):
                return How.MEMORY
            self._child.listen(_TICK)

    def catch_up(self) -> None:
        """Read what was written since."""
        try:
            events, self._read = read_journal(self._journal, self._nonce, self._read)
        except OSError:
            return  # not opened yet
        for event in events:
            self._hear(event)

    def _hear(self, event: Event) -> None:
        self.said.add(type(event))
        self._room.hear(event)
        if isinstance(event, Stage):
            if event.case != (self.stage.case if self.stage else None):
                self._since = time.monotonic()
                self.stages.clear()
            self.stage, self.judged = event, False
            self.stages.append(event.name)
        elif isinstance(event, (Result, Planned, Done, Refused)):
            self._since = time.monotonic()
            self.judged = self.judged or isinstance(event, Result)
