"""What a job demands of its machine: kernels and their lock, workload, limits. Values only; reading.py makes them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..report.model import FailOn, Ignore

Run = Literal["scan", "variants", "smoke"]
RUNS: tuple[Run, ...] = ("scan", "variants", "smoke")
NO_PACKAGES = ("driver", "cuda", "python")  # under `minimum`: what pip does not install
FAIL_ON: tuple[FailOn, ...] = ("error", "warning", "info", "never")


@dataclass(frozen=True, slots=True)
class WantedKernel:
    """A kernel that the job loads."""

    reference: str
    lock: str | None = None  # its own lock file; "" for none; None: that of the policy
    trust: bool = False  # its code may run although the Hub does not mark its publisher as trusted


@dataclass(frozen=True, slots=True)
class WantedWorkload:
    """What the kernels are for. None leaves a thing open."""

    model: str | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    dtype: str | None = None
    training: bool | None = None

    @property
    def shape(self) -> dict[str, Any]:
        """The figures that were given, by name."""
        figures = {"heads": self.heads, "kv_heads": self.kv_heads, "head_dim": self.head_dim, "dtype": self.dtype}
        return {name: value for name, value in figures.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RequiredGpu:
    """What the GPU of every rank must be."""

    names: tuple[str, ...] = ()  # one of them must be part of its name; empty for any
    compute_capability: str = ""  # a range, ">=9.0"
    count: int = 1  # visible ones on the machine
    memory_gib: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that was demanded, by the configuration and by flags."""

    kernels: tuple[WantedKernel, ...] = ()
    lock: str = ""  # path of the lock file, "" for none
    workload: WantedWorkload = WantedWorkload()
    run: Run = "smoke"
    fail_on: FailOn = "error"
    ignore: tuple[Ignore, ...] = ()
    allowed_publishers: tuple[str, ...] | None = None  # None: any
    timeout: float = 600.0  # seconds, for everything
    minimum: Mapping[str, str] = field(default_factory=dict)  # package, driver, cuda or python -> the oldest release
    gpu: RequiredGpu | None = None  # None: none is required
    python: str | None = None
    device: str = "auto"
    rules: tuple[str, ...] = ()
    source: str = ""  # the file that was read, "" for none

    def lock_of(self, kernel: WantedKernel) -> str:
        """The lock file that holds for a kernel, or ""."""
        return self.lock if kernel.lock is None else kernel.lock


@dataclass(frozen=True, slots=True)
class Around:
    """What a preflight is told beside the policy."""

    env: str | None = None  # judge saved facts instead of this machine
    redact: bool = True
    today: datetime.date | None = None
    step: Callable[[str], None] = lambda text: None  # told what is done next
    warn: Callable[[str], None] = lambda text: None  # told why a rank knows no better than to end with 3
