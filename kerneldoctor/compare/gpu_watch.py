"""Who else used the GPU before a comparison, and what held its clocks down during it. Never loads NVML itself."""

from __future__ import annotations

import json
import os
import secrets
import statistics
import sys
import time
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from ..environment import Fact
from ..smoke.process import Child

_SAMPLER = Path(__file__).with_name("gpu_sampler.py")
_LOOK = 1.0  # seconds of samples before anything of ours runs
_PATIENCE = 4.0  # seconds until the first sample
_BUSY = 5  # per cent
_HELD = 1 << 30  # bytes in use by others that are worth a word
_IDLE = 0x1
# Idle and clocks that were set are no trouble: https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
_REASONS = {
    0x4: "the power limit", 0x8: "a slowdown by the hardware", 0x20: "heat", 0x40: "heat (hardware)",
    0x80: "the power brake",
}  # fmt: skip


class GpuWatch:
    """Samples one GPU from entering to leaving; of a GPU without a UUID it knows only that it could not look."""

    def __init__(self, uuid: Fact[str] | None, folder: Path) -> None:
        self._uuid, self._path = uuid, folder / "gpu-samples"
        self._child: Child | None = None
        self._trouble = ""

    def __enter__(self) -> GpuWatch:
        spec = find_spec("pynvml")
        if self._uuid is None:
            return self
        if self._uuid.value is None or spec is None or spec.origin is None:
            self._trouble = self._uuid.note or "nvidia-ml-py is not installed beside kerneldoctor"
            return self
        origin = Path(spec.origin)
        binding = origin.parent.parent if spec.submodule_search_locations else origin.parent
        argv = (sys.executable, "-I", "-S", str(_SAMPLER), str(binding), self._uuid.value, str(self._path))
        self._path.touch()
        self._child = Child(argv, secrets.token_hex(16), os.environ, self._path.parent)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.end(0.0)

    def before(self) -> tuple[str, ...]:
        """Wait a moment, and say who else is on the GPU."""
        if self._uuid is None:
            return ()
        end = time.monotonic() + _PATIENCE
        while self._child is not None and time.monotonic() < end and not self._child.exited():
            seen = self._samples()
            if seen and float(seen[-1].get("time", 0)) - float(seen[0].get("time", 0)) >= _LOOK:
                break
            self._child.listen(0.05)
        return others(self._samples(), self._why_blind())

    def during(self, windows: Iterable[tuple[float, float]]) -> tuple[str, ...]:
        """What held the clocks down while something was measured. windows: start and end, as time.time()."""
        spans = list(windows)
        inside = [s for s in self._samples() if any(start <= float(s.get("time", 0)) <= end for start, end in spans)]
        return throttled(inside)

    def _why_blind(self) -> str:
        if self._trouble:
            return self._trouble
        said = [str(line["error"]) for line in self._lines() if "error" in line]
        return said[0] if said else "NVML gave no answer"

    def _samples(self) -> list[Mapping[str, Any]]:
        return [line for line in self._lines() if "time" in line]

    def _lines(self) -> list[Mapping[str, Any]]:
        try:
            text = self._path.read_text("utf-8", "replace")
        except OSError:
            return []
        found: list[Mapping[str, Any]] = []
        for line in text.splitlines():
            try:
                raw = json.loads(line)
            except ValueError:  # the last line, half written
                continue
            if isinstance(raw, dict):
                found.append(raw)
        return found


def others(samples: list[Mapping[str, Any]], why_blind: str) -> tuple[str, ...]:
    """What is to be said of other users of the GPU."""
    if not samples:
        return (f"whether something else uses the GPU is not known: {why_blind}",)
    busy = [float(sample["busy"]) for sample in samples if sample.get("busy") is not None]
    processes = {pid for sample in samples for pid in sample.get("processes") or ()}
    used = max((int(sample["used"]) for sample in samples if sample.get("used") is not None), default=0)
    parts = []
    if busy and statistics.median(busy) >= _BUSY:
        parts.append(f"it was {statistics.median(busy):.0f} % busy")
    if processes:
        parts.append(f"{len(processes)} other process{'es' if len(processes) > 1 else ''} ran on it")
    if used > _HELD and (processes or not busy):
        parts.append(f"{used / 2**30:.0f} GiB of its memory were in use")
    return (
        (f"before anything of ours ran on the GPU, {', '.join(parts)}: these figures are disturbed",) if parts else ()
    )


def throttled(samples: list[Mapping[str, Any]]) -> tuple[str, ...]:
    """What held the clocks down, and how low they were."""
    seen = [s for s in samples if s.get("reasons") is not None and not int(s["reasons"]) & _IDLE]
    if not seen:
        return ()
    found = []
    for bit, name in _REASONS.items():
        count = sum(bool(int(sample["reasons"]) & bit) for sample in seen)
        if count:
            found.append(f"{name} in {count * 100 // len(seen)} % of the time")
    clocks = [int(sample["clock"]) for sample in seen if sample.get("clock")]
    span = f"; SM clock {min(clocks)} to {max(clocks)} MHz" if clocks else ""
    return (f"the clocks were held down by {', '.join(found)}{span}",) if found else ()
