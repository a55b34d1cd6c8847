"""Brings the ranks of a job to one answer: every one hands in what it found, rank 0 reports, all learn the same code.

Every wait has an end. A rank that dies, comes late or never is named; nobody waits for it beyond the time limit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import UndeterminedError
from ..smoke.process import signal_name
from ..smoke.stopping import Stopping
from .launch import Launch
from .meeting import Meeting
from .ranks import Missing, Rank, from_json, to_json

_SILENCE = 30.0  # seconds without a sign of life after which a rank counts as gone
_LOOK = 5.0  # seconds between two looks at the signs of life
# A launcher that ends a job sends SIGTERM, and SIGKILL 30 s later: within that time the report must be out.
_AFTER_STOP, _AFTER_STOP_OTHERS = 8.0, 24.0
_PATIENCE = 30.0  # seconds after its own limit that a rank waits for the word of rank 0, which may have begun later
_JOINED = 4.0  # seconds that one attempt to connect may last beyond the limit
_READ = 3.0  # seconds for the others to say that they have heard
_DEAD = "gone/any"  # under which a rank that died is named, the first of several


@dataclass(frozen=True, slots=True)
class Present:
    """Who was heard in the end, and who was not."""

    ranks: tuple[Rank, ...]
    missing: tuple[Missing, ...]
    trouble: str = ""  # why the others could not be heard at all


class Assembly:
    """This rank's part in the meeting."""

    def __init__(self, launch: Launch, meeting: Meeting, stopping: Stopping, limit: float) -> None:
        self._launch, self._meeting, self._stopping = launch, meeting, stopping
        self._began = time.monotonic()
        self._end = self._began + limit
        self._stop_seen: float | None = None
        self._alive: dict[int, tuple[str, float]] = {}  # rank -> last sign of life, and when it was new
        meeting.want([_DEAD])

    def stage(self, text: str) -> None:
        """Tell the others what this rank is at."""
        self._meeting.stage(text)

    def over(self) -> str:
        """Why nothing more is worth beginning: a rank died, or somebody wants this job to end; else ""."""
        self._meeting.hear()
        if not self._stopped():
            return ""
        dead = self._meeting.values.get(_DEAD)
        if dead is not None:
            return f"rank {dead} died"
        return f"this job was asked to end ({signal_name(-(self._stopping.requested or 0))})"

    # --- one fetches for its machine ---------------------------------------------------------------------------------

    def fetched(self, node: str, what: Mapping[str, Any]) -> None:
        """Tell the ranks of this machine what lies in the cache."""
        self._meeting.put(f"fetched/{node}", json.dumps(what))

    def await_fetched(self, node: str, end: float) -> dict[str, Any]:
        """What the rank that fetches for this machine has brought. Raises UndeterminedError where it says nothing."""
        key = f"fetched/{node}"
        self._meeting.want([key])
        self._meeting.wait(lambda: key in self._meeting.values or self._stopped(), end)
        try:
            found: dict[str, Any] = json.loads(self._meeting.values[key])
        except (KeyError, ValueError):
            why = self._meeting.trouble or self.over() or "nothing was heard of it in time"
            raise UndeterminedError(f"the rank that fetches for this machine did not say what it has: {why}") from None
        return found

    # --- results and the decision ------------------------------------------------------------------------------------

    def hand_in(self, rank: Rank) -> None:
        """Tell rank 0 what this rank found."""
        self._meeting.stage("waiting for the others")
        self._meeting.put(f"done/{rank.rank}", json.dumps(to_json(rank)))

    def gather(self, own: Rank) -> Present:
        """Rank 0: what the others found, as far as it can be had in time."""
        others = range(1, self._launch.size)
        self._meeting.want(*([f"done/{number}", f"gone/{number}"] for number in others))
        while (open_ranks := self._open(others)) and not self._meeting.trouble:
            end = self._until(_AFTER_STOP)
            now = time.monotonic()
            if now >= end or all(self._is_silent(number, now) for number in open_ranks):
                break
            stopped = self._stopped()
            self._meeting.wait(
                lambda stopped=stopped: not self._open(others) or self._stopped() != stopped,  # type: ignore[misc]
                min(end, now + _LOOK),
            )
            self._look(self._open(others))
        found = {number: rank for number in others if (rank := self._told(number)) is not None}
        self._look(number for number in others if number not in found)
        missing = tuple(self._missing(number) for number in others if number not in found)
        return Present((own, *found.values()), missing, self._meeting.trouble)

    def decide(self, code: int) -> None:
        """Rank 0: tell every rank how all of them end, and wait a moment until they have heard it."""
        self._meeting.put("decision", str(code))
        expected = [f"ack/{n}" for n in range(1, self._launch.size) if f"done/{n}" in self._meeting.values]
        self._meeting.want(*([key] for key in expected))
        self._meeting.wait(lambda: all(key in self._meeting.values for key in expected), time.monotonic() + _READ)

    def learn(self) -> int:
        """Any other rank: the code that rank 0 decided. Raises UndeterminedError where no word comes in time."""
        values = self._meeting.values
        self._meeting.want(["decision", "gone/0"])
        while "decision" not in values and "gone/0" not in values and not self._meeting.trouble:
            end = self._end + (_PATIENCE if self._meeting.joined else _JOINED)
            if time.monotonic() >= self._until(_AFTER_STOP_OTHERS, end):
                break
            self._meeting.wait(lambda: "decision" in values or "gone/0" in values, time.monotonic() + 0.5)
        if "decision" in values and values["decision"].isdecimal():
            self._meeting.put(f"ack/{self._launch.rank}", "heard")
            return int(values["decision"])
        raise UndeterminedError(f"rank {self._launch.rank}: {self._meeting.trouble or self._unheard()}")

    def _unheard(self) -> str:
        """Why rank 0 said nothing, as far as that can be told from here."""
        if "gone/0" in self._meeting.values:
            return "rank 0 ended without a word"
        if self._meeting.joined:
            return "rank 0 said nothing in time"
        place = f"{self._launch.host}:{self._launch.port}"
        return f"rank 0 cannot be reached at {place}: what listens there gives no answer"

    def _stopped(self) -> bool:
        wanted = self._stopping.requested is not None or _DEAD in self._meeting.values
        if wanted and self._stop_seen is None:
            self._stop_seen = time.monotonic()
        return self._stop_seen is not None

    def _until(self, after_stop: float, end: float | None = None) -> float:
        """Until when to wait: the limit, or sooner once the job is to end or a rank died."""
        usual = self._end if end is None else end
        return min(usual, (self._stop_seen or 0.0) + after_stop) if self._stopped() else usual

    def _open(self, numbers: Iterable[int]) -> list[int]:
        values = self._meeting.values
        return [n for n in numbers if f"done/{n}" not in values and f"gone/{n}" not in values]

    def _look(self, numbers: Iterable[int]) -> None:
        wanted = {f"beat/{number}": number for number in numbers}
        if not wanted or self._meeting.trouble:
            return
        now = time.monotonic()
        for key, beat in self._meeting.look(wanted).items():
            number = wanted.get(key)
            if number is not None and beat and self._alive.get(number, ("", 0.0))[0] != beat:
                self._alive[number] = (beat, now)

    def _is_silent(self, number: int, now: float) -> bool:
        return number in self._alive and now - self._alive[number][1] > _SILENCE

    def _told(self, number: int) -> Rank | None:
        try:
            return from_json(json.loads(self._meeting.values[f"done/{number}"]), number)
        except (KeyError, ValueError, RecursionError):
            return None

    def _missing(self, number: int) -> Missing:
        now = time.monotonic()
        waited = now - self._began
        if f"gone/{number}" in self._meeting.values:
            return Missing(number, "died", self._meeting.values[f"gone/{number}"], waited)
        if number not in self._alive:
            return Missing(number, "not heard" if self._meeting.trouble else "never came", "", waited)
        stage = self._alive[number][0].partition(" ")[2]
        return Missing(number, "fell silent" if self._is_silent(number, now) else "not done", stage, waited)


def meet(launch: Launch, python: str, limit: float, attend: Callable[[Assembly], int]) -> int:
    """Hold the meeting: `attend` does this rank's work in it and gives the exit code.

    A signal that asks us to end does not end the meeting: it hurries it, so that the report names who is missing.
    """
    with Stopping() as stopping:
        with Meeting(launch, python, limit) as meeting:
            code = attend(Assembly(launch, meeting, stopping, limit))
        stopping.requested = None  # all ranks end with the code that was decided
        return code
