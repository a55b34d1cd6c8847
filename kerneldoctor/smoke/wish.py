"""What may be asked of a try: which kernel, which cases, how long, and who is told meanwhile. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ..hub.issues import KnownIssue
    from .runner import Progress
    from .through.order import Through

CaseSet = Literal["quick", "full"]


@dataclass(frozen=True, slots=True)
class What:
    """Which kernel: exactly one of a reference, a folder, an importable module."""

    reference: str | None = None
    local: str | None = None
    module: str | None = None


@dataclass(frozen=True, slots=True)
class Cases:
    """Which cases. `workload` (heads, kv_heads, head_dim, dtype, window, softcap) goes before the sets.

    model: a config.json or a model's name, from which the workload is read. only: case ids, to reproduce.
    """

    set: CaseSet | None = None
    only: tuple[str, ...] = ()
    seed: int = 0
    backward: bool = True
    model: str | None = None
    workload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Time limits in seconds, and bytes of the host's memory that a kernel may take (None: most of what is free)."""

    case: float = 120.0  # a Triton kernel that is tuned on its first call takes most of a minute
    load: float = 300.0
    total: float = 1200.0
    hub: float = 20.0  # for a listing
    fetch: float = 600.0
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told of what while it happens."""

    step: Callable[[str], None] = lambda text: None
    known: Callable[[Sequence[KnownIssue]], None] = lambda issues: None  # before the kernel runs
    progress: Callable[[Progress], None] = lambda seen: None


@dataclass(frozen=True, slots=True)
class Wish:
    """Everything that was asked, beside the machine."""

    what: What
    device: str
    cases: Cases
    trust: tuple[str, ...]
    verify: bool
    bounds: Bounds
    folders: tuple[str | Path, ...]
    listener: Listener
    through: Through | None = None  # the library that is to load it
