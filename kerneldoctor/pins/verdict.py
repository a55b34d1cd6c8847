"""What a search comes to for one machine: each pin with what would come of it there, the counts and the exit code.

Values only; who asks the Hub and judges builds is elsewhere.
"""

from __future__ import annotations

from typing import Literal

from ..values import dataclass
from .model import Pin, Search

State = Literal[
    "fine",
    "no-build",
    "known-bad",
    "perhaps-bad",  # a known fault that hangs on the workload
    "missing",
    "raises",  # the call itself is refused, whatever it names
    "not-trusted",  # kernels must be told to trust the publisher, and is not
    "hindered",  # offline mode is on, and the cache does not hold it
    "wrong",
    "broken",  # a lock that is none
    "undetermined",
    "not-judged",
]
FAILING: frozenset[State] = frozenset(
    {"no-build", "known-bad", "missing", "raises", "not-trusted", "hindered", "wrong", "broken"}
)
_MOVING = frozenset({"version", "branch", "unpinned"})


@dataclass(frozen=True, slots=True)
class Outlook:
    """What would come of a reference on the machine that was asked about."""

    state: State
    text: str = ""  # why, or what would load
    rules: tuple[str, ...] = ()  # known faults of the build that would load
    pin: str = ""  # what to write instead, where something is known
    commit: str = ""  # where the branch or version stands, "" where that is not known


@dataclass(frozen=True, slots=True)
class JudgedPin:
    """One pin with its outlook. `moves`: it must be a commit, and is none."""

    pin: Pin
    outlook: Outlook
    moves: bool = False

    @property
    def instead(self) -> str:
        """What to write: another version where this one is of no use, else the commit of this one."""
        commit = self.outlook.commit if self.moves else ""
        return self.outlook.pin or (f"{self.pin.reference.partition('@')[0]}@{commit}" if commit else "")

    @property
    def fails(self) -> bool:
        """Whether the exit code is 1 for it."""
        return self.moves or self.outlook.state in FAILING


@dataclass(frozen=True, slots=True)
class PinReport:
    """The result of `kerneldoctor pins`."""

    search: Search
    pins: tuple[JudgedPin, ...]
    target: str  # the machine, in a line; "" where none was judged
    notes: tuple[str, ...]
    lenient: bool  # what cannot be told does not count
    date: str  # ISO
    version: str  # of kerneldoctor

    @property
    def exit_code(self) -> int:
        """1 for a pin that fails, 3 where one cannot be told or a file could not be read, else 0."""
        if any(judged.fails for judged in self.pins):
            return 1
        is_open = bool(self.search.unread) or any(j.outlook.state == "undetermined" for j in self.pins)
        return 3 if is_open and not self.lenient else 0


def must_be_commit(pin: Pin) -> bool:
    """Whether a pin may mean something else tomorrow although a commit could stand there."""
    return pin.kind in _MOVING
