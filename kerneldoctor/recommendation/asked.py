"""What may be asked of a recommendation beside the machine. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..smoke.wish import Bounds, Cases, Listener


@dataclass(frozen=True, slots=True)
class Doing:
    """How far to go. run: try what fits. alternatives: look at other repositories where nothing asked for passes."""

    run: bool = True
    alternatives: bool = True
    try_all: bool = False  # also try what rules rule out, and go on after a pass


@dataclass(frozen=True, slots=True)
class Asked:
    """Everything else that was asked."""

    reference: str
    python: str | None
    device: str
    cases: Cases
    trust: tuple[str, ...]
    bounds: Bounds
    folders: tuple[str | Path, ...]
    listener: Listener
