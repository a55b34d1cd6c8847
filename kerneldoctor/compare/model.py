"""What came of a comparison, as values. Decides nothing but the exit code.

Parent side: imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..smoke.protocol import KernelRequest
from ..smoke.trial import Subject
from .workload import Direction, Workload

Kind = Literal["built-in", "package", "kernel"]
#: right: forward and backward as asked. forward-only: its forward is right, and it has no backward. backward-failed:
#: its forward is right, and only that is measured. wrong, failed (raised, crashed, hung, …), refused: no number at all.
#: unsupported: it says itself that it has no such thing. unknown: the question could not be put (no Hub, no module).
Standing = Literal["right", "forward-only", "backward-failed", "wrong", "failed", "refused", "unsupported", "unknown"]
Outcome = Literal["measured", "oom", "skipped", "unsupported", "failed"]


@dataclass(frozen=True, slots=True)
class Implementation:
    """One way to compute attention, and how the child gets at it. Without `request` it cannot be had: `trouble`."""

    name: str
    kind: Kind
    asked: bool = True  # by name; otherwise it is a bystander, whose failure is no failure of the comparison
    request: KernelRequest | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    subject: Subject | None = None
    standing: Standing = "unknown"  # of one without a request
    trouble: str = ""
    fetch_seconds: float | None = None  # to resolve, download and check its files
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one thing in milliseconds, of all rounds together."""

    median: float
    q1: float
    q3: float
    least: float
    most: float
    count: int
    rounds: tuple[float, ...]  # the median of each round
    cold: bool  # the L2 cache was emptied before each


@dataclass(frozen=True, slots=True)
class Cell:
    """One implementation at one length in one direction. Bytes are unknown (None) where no allocator counts."""

    length: int
    direction: Direction
    outcome: Outcome
    detail: str = ""
    timing: Timing | None = None
    peak_bytes: int | None = None  # above the inputs
    total_bytes: int | None = None  # with them
    first_call_seconds: float | None = None
    tokens_per_second: float | None = None
    tflops: float | None = None
    share: float | None = None  # of the device's peak


@dataclass(frozen=True, slots=True)
class Ready:
    """Seconds from a name to a first result, in a new process and with empty caches for compiled code."""

    fetch: float | None  # resolve, download, check the files; None: nothing to fetch
    load: float
    first_forward: float
    first_backward: float | None
    import_torch: float  # which every implementation needs, so it is in no sum

    @property
    def seconds(self) -> float:
        """Until the first output of a forward."""
        return (self.fetch or 0.0) + self.load + self.first_forward


@dataclass(frozen=True, slots=True)
class Entry:
    """What came of one implementation."""

    implementation: Implementation
    standing: Standing
    detail: str = ""
    cells: tuple[Cell, ...] = ()
    ready: Ready | None = None
    taken: Mapping[str, str] = field(default_factory=dict)  # the sdpa backend, by "forward" and "step"
    notes: tuple[str, ...] = ()

    def cell(self, length: int, direction: Direction) -> Cell | None:
        """What is known at a length."""
        return next((cell for cell in self.cells if (cell.length, cell.direction) == (length, direction)), None)

    @property
    def is_measured(self) -> bool:
        """Whether there is any number of it."""
        return any(cell.timing is not None for cell in self.cells)

    @property
    def failed(self) -> bool:
        """Whether it is wrong, or broke where it ought to work. Running out of memory is a result."""
        if self.standing in ("wrong", "backward-failed", "failed", "refused"):
            return True
        return any(cell.outcome == "failed" for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Rank:
    """The order at one length in one direction, fastest first; names in one group cannot be told apart."""

    length: int
    direction: Direction
    groups: tuple[tuple[str, ...], ...]
    rounds: int
    stable: bool  # groups stood in this order in every round


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that the device is said to do. `tflops` None: not known, `source` says why."""

    tflops: float | None
    source: str


@dataclass(frozen=True, slots=True)
class BuildCost:
    """What it takes to build flash-attn from source, in seconds."""

    least: float
    most: float
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that was measured."""

    workload: Workload
    device: str  # as torch names it
    device_name: str
    device_memory: int | None
    torch: str
    packages: Mapping[str, str]
    entries: tuple[Entry, ...]
    ranks: tuple[Rank, ...]
    peak: Peak
    build: BuildCost
    repeats: int
    seconds: float
    disturbances: tuple[str, ...] = ()  # what else used the device, and what held its clocks down
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """3 nothing was measured, 1 something that was asked for is wrong or failed, 3 it could not be had, else 0."""
        asked = [entry for entry in self.entries if entry.implementation.asked]
        if any(entry.failed for entry in asked):
            return 1
        if not any(entry.is_measured for entry in self.entries):
            return 3
        return 3 if any(entry.standing in ("unknown", "unsupported") for entry in asked) else 0

    def entry(self, name: str) -> Entry:
        """The entry of an implementation; KeyError when there is none."""
        return {entry.implementation.name: entry for entry in self.entries}[name]
